#!/usr/bin/env python3
"""Other people's test suites of JSON schemas, judged by the grammar that answers are held to.

    schema_suites.py SCHEMA_TEXTS [--sources FOLDER] [--suite NAME]… [--samples N] [--show]

SCHEMA_TEXTS is the built program (schema_texts.cc). The suites are in the source archives of packages on
PyPI, which pip fetches into FOLDER if they are not there: the JSON Schema Test Suite in `jsonschema`, and the
schemas that stand in the tests of `llama-cpp-python`, `llguidance`, `xgrammar`, `outlines-core` and
`fastjsonschema`. Nothing of the packages is run. The suite `clients` has
the schemas of schema_models.py, which needs pydantic, as strict ones.

Each schema is compiled, as a request without `strict` has it. Every value of its tests, or, where a test is a
program, of sixty values that stand in the same file, is looked for in the grammar in any order of members and any
spelling of numbers. The suite's own verdict decides, else the package `jsonschema`. Then the grammar writes
N texts at random, each of which `jsonschema` must find valid.

The table's columns: schemas that were compiled; of them those with keywords that are not kept, which the
answer's warning would name; schemas that were refused; values judged right; values accepted though a keyword that
is named as not kept forbids them; values accepted wrongly, without a warning; valid values that no answer can
be because of a limit that OPENAI.md states (members that are not named, keywords that imply a type, formats, digits,
control characters); other valid values that no answer can be; random texts, and those that are not valid.
"""
import argparse
import ast
import collections
import decimal
import glob
import json
import os
import re
import subprocess
import sys
import tarfile

import jsonschema

PACKAGES = {"jsonschema": "json/tests/", "fastjsonschema": "tests/test_", "llama-cpp-python": "vendor/llama.cpp/tests/test-",
            "llguidance": "parser/tests/", "xgrammar": "tests/python/", "outlines-core": ""}
DRAFTS = ["draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"]


def is_multiple(validator, of, value, schema):
    """As numbers are written: 19.01 is a multiple of 0.01, which it is not in doubles."""
    if validator.is_type(value, "number") and decimal.Decimal(str(value)) % decimal.Decimal(str(of)):
        yield jsonschema.ValidationError(f"{value!r} is not a multiple of {of}")


VALIDATORS = {draft: jsonschema.validators.extend(one, {"multipleOf": is_multiple}) for draft, one in {
    "draft4": jsonschema.Draft4Validator, "draft6": jsonschema.Draft6Validator, "draft7": jsonschema.Draft7Validator,
    "draft2019-09": jsonschema.Draft201909Validator, "draft2020-12": jsonschema.Draft202012Validator}.items()}
# Tests that demand that a format, or the content of a string, is not looked at; a 1.0 that is no integer, where
# a value has no spelling.
OTHER_READINGS = {"format.json", "optional/content.json", "optional/zeroTerminatedFloats.json", "vocabulary.json"}
OLD_DRAFTS = {f"draft{n}": f"http://json-schema.org/draft-0{n}/schema#" for n in (4, 6, 7)}
ALL_TYPES = ["object", "array", "string", "number", "boolean", "null"]
KEYWORDS = {"type", "properties", "items", "anyOf", "oneOf", "allOf", "$ref", "enum", "const", "pattern", "format", "not", "if",
            "additionalProperties", "patternProperties", "prefixItems", "minimum", "maximum", "multipleOf", "minLength", "maxLength"}
NAMED_SCHEMAS = {"properties", "$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies"}
VALUES = {"enum", "const", "default", "examples", "example", "required", "type", "dependentRequired"}


def fetched(package, folder):
    """The source archive of a package, which pip's own index search finds: `pip download` would build it first."""
    found = glob.glob(os.path.join(folder, package.replace("-", "[-_]") + "-[0-9]*.tar.gz"))
    if found:
        return found[0]
    from pip._internal.commands.download import DownloadCommand
    from pip._internal.models.format_control import FormatControl
    command = DownloadCommand("download", "")
    options, _ = command.parse_args([package])
    options.format_control = FormatControl({":all:"}, set())
    with command.main_context():
        session = command.get_default_session(options)
        best = command._build_package_finder(options=options, session=session).find_best_candidate(package).best_candidate
        if best is None:
            sys.exit(f"{package} has no source archive")
        path = os.path.join(folder, best.link.filename)
        with open(path + ".part", "wb") as file:
            file.write(session.get(best.link.url_without_fragment, timeout=120).content)
    os.rename(path + ".part", path)
    return path


def files_of(archive, under):
    with tarfile.open(archive) as tar:
        for member in tar:
            inside = member.name.split("/", 1)[-1]
            if member.isfile() and inside.startswith(under) and inside.endswith((".json", ".py", ".rs", ".cpp", ".cc")) and member.size < 4 << 20:
                yield inside, tar.extractfile(member).read().decode("utf-8", "replace")


def is_schema(value):
    return isinstance(value, dict) and bool(KEYWORDS & value.keys()) and isinstance(value.get("type", ""), (str, list))


def inner_json(text):
    """JSON values that stand in a program's text: behind each opening brace or bracket, the longest one."""
    decoder = json.JSONDecoder()
    at = 0
    while (found := re.compile(r"[{\[]").search(text, at)) is not None:
        try:
            value, at = decoder.raw_decode(text, found.start())
            yield value
        except (json.JSONDecodeError, RecursionError):
            at = found.start() + 1


def has_name_twice(text):
    """Whether an object of the text has two members of one name: OPENAI.md says that a grammar does not notice it."""
    twice = []

    def read(pairs):
        if len({name for name, _ in pairs}) < len(pairs):
            twice.append(pairs)
        return dict(pairs)
    json.loads(text, object_pairs_hook=read)
    return bool(twice)


def draft_of(schema):
    """The draft of a schema that stands in a program's text; None: it is none, or a part of one whose references lead out of it."""
    for draft in ("draft2020-12", "draft7", "draft4"):
        try:
            VALIDATORS[draft].check_schema(schema)
            break
        except jsonschema.SchemaError:
            pass
    else:
        return None
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema)):
        at = schema
        for step in reference.removeprefix("#").strip("/").split("/"):
            if not reference.startswith("#/") or not isinstance(at, dict):
                return draft if reference == "#" else None
            at = at.get(step.replace("~1", "/").replace("~0", "~"))
        if at is None:
            return None
    return draft


def has_unwritten(value):
    """Whether OPENAI.md says of a value that no answer has it: numbers of many digits, control characters."""
    if isinstance(value, str):
        return any(c < " " and c not in "\b\t\n\f\r" for c in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return abs(value) >= 1e15 or value != round(value, 12)
    if isinstance(value, dict):
        return any(map(has_unwritten, value)) or any(map(has_unwritten, value.values()))
    return any(map(has_unwritten, value)) if isinstance(value, list) else False


def values_in(name, text):
    if not name.endswith(".py"):
        # Strings of C++ and macros of Rust have JSON as it is.
        yield from inner_json(text)
        for quoted in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text):
            try:
                yield json.loads(json.loads(f'"{quoted}"'))
            except (json.JSONDecodeError, RecursionError):
                yield quoted
        yield from (int(n) for n in re.findall(r"(?<![\w.])-?\d{1,15}(?![\w.])", text))
        return
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        try:
            value = ast.literal_eval(node)
            json.dumps(value, allow_nan=False)
        except (ValueError, TypeError, RecursionError, SyntaxError, MemoryError):
            continue
        yield value
        if isinstance(value, str):
            try:
                yield json.loads(value)
            except (json.JSONDecodeError, RecursionError):
                yield from inner_json(value)


def is_readable(value):
    """Whether the engine's reader of JSON takes a value: whole numbers of 64 bits, no lone surrogates."""
    if isinstance(value, int) and not -2 ** 63 <= value < 2 ** 63:
        return False
    if isinstance(value, str):
        return not any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, dict):
        return all(map(is_readable, value)) and all(map(is_readable, value.values()))
    return all(map(is_readable, value)) if isinstance(value, list) else True


def key_of(value):
    return json.dumps(value, sort_keys=True)


def case_of(place, schema, values, verdicts=None, draft="draft2020-12", reading=False):
    return {"place": place, "schema": schema, "values": values, "verdicts": verdicts, "draft": draft, "other_reading": reading}


def suite_of_drafts(archive):
    for name, text in files_of(archive, PACKAGES["jsonschema"]):
        draft, _, rest = name.removeprefix(PACKAGES["jsonschema"]).partition("/")
        if draft not in DRAFTS or not name.endswith(".json"):
            continue
        for group in json.loads(text):
            tests = [one for one in group["tests"] if is_readable(one["data"])]
            if draft in OLD_DRAFTS and isinstance(group["schema"], dict):
                group["schema"].setdefault("$schema", OLD_DRAFTS[draft])
            yield case_of(f"{draft}/{rest}: {group['description']}", group["schema"], [one["data"] for one in tests],
                          [one["valid"] for one in tests], draft, rest in OTHER_READINGS)


def suite_of_programs(archive, under):
    for name, text in files_of(archive, under):
        schemas, values = {}, {}
        for value in values_in(name, text):
            json_text = key_of(value)
            if len(json_text) > 5_000 or not is_readable(json.loads(json_text)):
                continue
            if is_schema(value):
                schemas.setdefault(json_text, json.loads(json.dumps(value)))
            values.setdefault(json_text, json.loads(json_text))
        if values:
            values = list(values.values())[:60]
            for number, schema in enumerate(schemas.values()):
                draft = draft_of(schema)
                if draft:
                    yield case_of(f"{name}: schema {number}", schema, values, None, draft)


def suite_of_clients():
    """Compiled as strict ones: the libraries of these clients ask for that."""
    import schema_models
    for name, schema in schema_models.schemas():
        yield {**case_of(name, schema, []), "strict": True}


def relaxed(schema):
    """The schema without what OPENAI.md names as limits: it names all types and allows other members, and has no
    formats, because a grammar knows the commonest texts of a format alone."""
    if isinstance(schema, list):
        return [relaxed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {}
    for key, value in schema.items():
        if key in VALUES:
            made[key] = value
        elif key == "format" and isinstance(value, str):
            continue
        elif key in NAMED_SCHEMAS and isinstance(value, dict):
            made[key] = {name: relaxed(one) for name, one in value.items()}
        else:
            made[key] = relaxed(value)
    if "type" not in made and not isinstance(made.get("$ref"), str):
        made["type"] = ALL_TYPES
    if not {"additionalProperties", "unevaluatedProperties", "$ref"} & made.keys():
        made["additionalProperties"] = True
    return made


def judged(program, requests, seed="1", samples=0):
    lines = "".join(json.dumps(one) + "\n" for one in requests)
    done = subprocess.run([program, seed, str(samples)], input=lines, capture_output=True, text=True, check=False)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    if len(results) != len(requests):
        sys.exit(f"{program} ended with {done.returncode} at {json.dumps(requests[len(results)])[:2000]}\n{done.stderr[-2000:]}")
    return results


def checker():
    formats = jsonschema.FormatChecker()
    formats.checkers = {name: one for name, one in formats.checkers.items() if name not in ("time", "color", "regex")}  # draft 3's
    return formats


def with_nullable(schema):
    """OpenAPI's nullable, which jsonschema does not know."""
    if isinstance(schema, list):
        return [with_nullable(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: value if key in VALUES else {name: with_nullable(one) for name, one in value.items()}
            if key in NAMED_SCHEMAS and isinstance(value, dict) else with_nullable(value) for key, value in schema.items()}
    return {"anyOf": [made, {"type": "null"}]} if made.pop("nullable", False) is True else made


def judge_suite(program, cases, samples, shows):
    count = collections.Counter()
    refused, not_kept = collections.Counter(), collections.Counter()
    slowest = 0
    requests = [{"schema": one["schema"], "values": one["values"], "strict": one.get("strict", False)} for one in cases]
    results = judged(program, requests, samples=samples)
    lifted = judged(program, [{"schema": relaxed(one["schema"]), "values": one["values"]} for one in cases])
    formats = checker()

    def show(kind, case, *more):
        if shows:
            print(kind, case["place"], json.dumps(case["schema"], ensure_ascii=False)[:600], *more, sep="\n    ")

    for case, result, other in zip(cases, results, lifted, strict=True):
        validator = VALIDATORS[case["draft"]](with_nullable(case["schema"]), format_checker=formats)

        def verdict(value, validator=validator):
            try:
                return validator.is_valid(value)
            except Exception:  # a reference that leads nowhere, a pattern of another language
                return None

        verdicts = case["verdicts"] or [verdict(value) for value in case["values"]]
        slowest = max(slowest, result.get("seconds", 0))
        if "fits" not in result:
            why = result.get("error") or result["unread"]
            if "no JSON value fits" in why and True not in verdicts:
                count["schemas that nothing fits"] += 1
                continue
            count["refused"] += 1
            refused[why.split(" of the schema")[0] if why.startswith('"') else why.split(":")[0]] += 1
            show("REFUSED", case, why[:300])
            continue
        count["schemas"] += 1
        count["with warning"] += bool(result["not_kept"])
        not_kept.update(result["not_kept"])
        for i, (value, valid, fits) in enumerate(zip(case["values"], verdicts, result["fits"], strict=True)):
            if valid is None:
                count["values without a verdict"] += 1
            elif case["other_reading"] and fits != valid:
                count["another reading"] += 1
            elif fits == valid:
                count["right"] += 1
            elif fits and result["not_kept"]:
                count["accepted with warning"] += 1
            elif fits:
                count["wrongly accepted"] += 1
                show("ACCEPTED", case, json.dumps(value)[:300])
            elif has_unwritten(value) or ("fits" in other and other["fits"][i]):
                count["stated limit"] += 1
            else:
                count["wrongly refused"] += 1
                show("NOT ACCEPTED", case, json.dumps(value)[:300])
        if result["not_kept"]:
            continue
        for text in result["samples"]:
            if has_name_twice(text):
                count["random texts with a name twice"] += 1
                continue
            valid = verdict(json.loads(text))
            if valid is None:
                continue
            count["random texts"] += 1
            if not valid:
                count["random texts not valid"] += 1
                show("WRITTEN", case, text[:300])
    count["slowest"] = round(slowest * 1000)
    return count, refused, not_kept


COLUMNS = ["schemas", "with warning", "refused", "right", "accepted with warning", "wrongly accepted", "stated limit", "wrongly refused",
           "random texts", "random texts not valid"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--sources", default=".")
    parser.add_argument("--suite", action="append")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--show", action="store_true")
    asked = parser.parse_args()
    suites = {}
    wanted = lambda name: not asked.suite or name in asked.suite
    if any(wanted(draft) for draft in DRAFTS):
        cases = list(suite_of_drafts(fetched("jsonschema", asked.sources)))
        for draft in DRAFTS:
            if wanted(draft):
                suites[draft] = [one for one in cases if one["draft"] == draft]
    for package, under in PACKAGES.items():
        if package != "jsonschema" and wanted(package):
            suites[package] = list(suite_of_programs(fetched(package, asked.sources), under))
    if wanted("clients"):
        suites["clients"] = list(suite_of_clients())
    rows = []
    for name, cases in suites.items():
        count, refused, not_kept = judge_suite(asked.program, cases, asked.samples, asked.show)
        rows.append((name, count))
        print(f"{name}: {dict(count)}\n  refused: {dict(refused.most_common(12))}\n  not kept: {dict(not_kept.most_common(20))}", flush=True)
    print("\n| suite | " + " | ".join(COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|")
    for name, count in rows:
        print(f"| {name} | " + " | ".join(str(count[column]) for column in COLUMNS) + " |")
    return 1 if any(count["wrongly accepted"] or count["random texts not valid"] for _, count in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
