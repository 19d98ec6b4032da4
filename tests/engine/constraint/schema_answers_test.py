#!/usr/bin/env python3
"""Answers at random that keep to JSON schemas at random, judged by Python's jsonschema.

A program (random_answers.cc) draws answers with a model that knows nothing: every token that may come
is as likely as another. Each answer must be JSON that the jsonschema package finds valid, formats
included; keywords that the program says it does not keep are taken out of the schema first. Without the
package the test is skipped, loudly.

    schema_answers_test.py RANDOM_ANSWERS TOKENIZER [SEED [SCHEMAS]]
"""
import json
import random
import string
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("SKIPPED: no Python package jsonschema", file=sys.stderr)
    sys.exit(77)

CHECKED_FORMATS = ["date", "ipv4", "email", "uuid"]
PATTERNS = ["^[A-Z]{3}-[0-9]{2,4}$", "^(red|green|blue)$", "a+b?", "^\\d{4}$", "^\\w+@\\w+\\.com$",
            "^[^\\s\"]{1,8}$", "^é?[à-ü]{2}$", "^(?:[0-9]+(?:\\.[0-9]+)?)$", "x.y", "^\\S+ \\S+$", "^[\"\\\\]+$",
            "^.{2,5}$", "^[\\u4e00-\\u4e10]+$", "(ab|cd)$", "^\\D{3}\\W$"]
NAMES = ["name", "age", "a b", "é", "x\"y", "tags", "id", "when", "n", "ab", "abc"]


def a_string(rng):
    schema = {"type": "string"}
    kind = rng.randrange(7)
    if kind == 0:
        schema["pattern"] = rng.choice(PATTERNS)
    elif kind == 1:
        schema["format"] = rng.choice(CHECKED_FORMATS + ["date-time", "time", "duration", "uri", "hostname"])
    elif kind == 2:
        schema["minLength"] = rng.randrange(6)
        schema["maxLength"] = schema["minLength"] + rng.randrange(12)
    elif kind == 3:
        schema["enum"] = rng.sample(["red", "green", "r", "re", "", "é", "a\"b", "\\", "line\nline", "日本", "日光"], rng.randrange(1, 6))
        del schema["type"]
    elif kind == 4:
        schema["maxLength"] = rng.randrange(40)
        schema["pattern"] = rng.choice(["^[a-z]*$", ".*", "^a*b*$"])
    return schema


def a_number(rng):
    schema = {"type": rng.choice(["number", "integer"])}
    ends = sorted(rng.choice([rng.randrange(-1200, 1200), rng.randrange(-10, 10), round(rng.uniform(-5, 5), rng.randrange(1, 4)),
                              rng.randrange(10 ** 12)]) for _ in range(2))
    if rng.random() < .6:
        schema[rng.choice(["minimum", "exclusiveMinimum"])] = ends[0]
    if rng.random() < .6:
        schema[rng.choice(["maximum", "exclusiveMaximum"])] = ends[1] + 1
    return schema


def an_object(rng, depth):
    schema = {"type": "object"}
    names = rng.sample(NAMES, rng.randrange(5))
    if names:
        schema["properties"] = {name: a_schema(rng, depth - 1) for name in names}
        schema["required"] = [name for name in names if rng.random() < .5]
    kind = rng.randrange(5)
    if kind == 0:
        schema["additionalProperties"] = False
    elif kind == 1:
        schema["additionalProperties"] = a_schema(rng, depth - 1)
    elif kind == 2 and not names:
        schema["minProperties"] = 1
        schema["maxProperties"] = 3
    elif kind == 3:
        schema["required"] = schema.get("required", []) + ["more"]
    return schema


def an_array(rng, depth):
    schema = {"type": "array"}
    if rng.random() < .8:
        schema["items"] = a_schema(rng, depth - 1)
    if rng.random() < .3:
        schema["prefixItems"] = [a_schema(rng, depth - 1) for _ in range(rng.randrange(1, 3))]
    if rng.random() < .5:
        schema["minItems"] = rng.randrange(3)
        schema["maxItems"] = schema["minItems"] + rng.randrange(3)
    return schema


def a_schema(rng, depth):
    kind = rng.randrange(12 if depth > 0 else 5)
    if kind == 0:
        return a_string(rng)
    if kind == 1:
        return a_number(rng)
    if kind == 2:
        return rng.choice([{"type": "boolean"}, {"type": "null"}, {"const": {"a": [1, "x", None]}}, {"type": ["string", "null"]},
                           {"enum": [1, 2.5, None, "x", [1], {"k": "v"}]}])
    if kind == 3:
        return a_string(rng)
    if kind == 4:
        return {"$ref": "#/$defs/" + rng.choice(["leaf", "pair"])} if depth > 0 else {"$ref": "#/$defs/leaf"}
    if kind in (5, 6, 7):
        return an_object(rng, depth)
    if kind == 8:
        return an_array(rng, depth)
    if kind == 9:
        return {"anyOf": [a_schema(rng, depth - 1) for _ in range(rng.randrange(1, 4))]}
    if kind == 10:
        return {"allOf": [an_object(rng, 0), {"properties": {"kind": {"const": "k"}}, "required": ["kind"]}]}
    return {"oneOf": [{"type": "object", "properties": {"t": {"const": str(i)}, "v": a_schema(rng, 0)}, "required": ["t"]} for i in range(2)]}


FIXED = [
    {}, True, {"type": "object"}, {"type": "array"}, {"type": ["integer", "array"]},
    {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "v": {"type": "integer"}}, "required": ["v", "next"]},
    {"$defs": {"node": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["kids"],
                        "additionalProperties": False}}, "$ref": "#/$defs/node"},
    {"type": "string", "maxLength": 2000}, {"type": "string", "minLength": 30},
    {"type": "object", "properties": {"a": {"type": "string"}, "ab": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}},
    {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 3},
    {"type": "number", "minimum": 0, "maximum": 0.5}, {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.001},
    {"type": "number", "exclusiveMaximum": 0}, {"type": "integer", "minimum": -5, "maximum": -3}, {"type": "number", "minimum": -1, "maximum": 0},
    {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, {"not": {"type": "string"}, "type": ["string", "integer"]},
    {"type": "object", "properties": {"x": False, "y": {"type": "integer"}}}, {"nullable": True, "type": "integer"},
]


def without(schema, keywords):
    if isinstance(schema, dict):
        return {k: without(v, keywords) if k not in ("enum", "const") else v for k, v in schema.items() if k not in keywords}
    if isinstance(schema, list):
        return [without(one, keywords) for one in schema]
    return schema


def main(program, tokenizer, seed="1", count="150"):
    rng = random.Random(int(seed))
    defs = {"leaf": {"type": "string", "maxLength": 5}, "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}],
                                                                   "items": False, "minItems": 2}}
    schemas = list(FIXED)
    for _ in range(int(count)):
        schema = a_schema(rng, 3)
        if isinstance(schema, dict):
            schema = {"$defs": defs, **schema}
        schemas.append(schema)
    print(f"seed {seed}, {len(schemas)} schemas")
    lines = "".join(json.dumps(schema) + "\n" for schema in schemas)
    done = subprocess.run([program, tokenizer, seed, "8"], input=lines, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} failed ({done.returncode}): {done.stderr[-2000:]}")
    checker = jsonschema.FormatChecker()
    checker.checkers = {name: one for name, one in checker.checkers.items() if name != "time"}  # draft 3's
    answers = valid = cut = refused = 0
    kinds = set()
    wrong = []
    for schema, line in zip(schemas, done.stdout.splitlines(), strict=True):
        result = json.loads(line)
        if "error" in result:
            refused += 1
            if "no JSON value fits" not in result["error"]:
                wrong.append((schema, result["error"]))
            continue
        cut += result["cut"]
        plain = without(schema, {*result["not_kept"], "nullable"}) if isinstance(schema, dict) else schema
        if isinstance(schema, dict) and schema.get("nullable"):
            plain = {"anyOf": [plain, {"type": "null"}]}
        validator = jsonschema.Draft202012Validator(plain, format_checker=checker)
        for text in result["answers"]:
            answers += 1
            try:
                value = json.loads(text)
                validator.validate(value)
                valid += 1
                kinds.add(type(value).__name__)
            except (json.JSONDecodeError, jsonschema.ValidationError) as error:
                wrong.append((schema, text, str(error).splitlines()[0]))
    print(f"{answers} answers, {valid} valid, {cut} without an end, {refused} schemas refused; values: {sorted(kinds)}")
    for one in wrong[:10]:
        print("WRONG:", *(json.dumps(part, ensure_ascii=False) if not isinstance(part, str) else part for part in one), sep="\n  ")
    if wrong or answers < len(schemas) * 4 or cut > answers / 20:
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
