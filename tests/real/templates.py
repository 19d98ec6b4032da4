#!/usr/bin/env python3
"""Renders published chat templates with Lectern and with jinja2, and compares the texts.

    python3 tests/real/templates.py FOLDER [--program build-checked/tests/evaluation/render_template]
                                    [--least 62] [--only NAME] [--show]

FOLDER holds *.jinja files, as llama.cpp's models/templates does; none of them is in this repository.
Each is rendered in eight shapes of conversation. The reference is jinja2 as transformers sets it up
(its own function where transformers is installed, and the same environment written out otherwise). A
shape is alike where both give the same bytes, or both refuse. Prints a table and the first
difference of each template that differs, and exits 1 where fewer than `--least` templates are alike
in all shapes.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2026, 2, 3, 4, 5, 6)  # as in render_template.cc
HERE = pathlib.Path(__file__).resolve().parent

TOOLS = [
    {"type": "function", "function": {
        "name": "tide_table", "description": "Tells when \"high\" water is at a <port>.",
        "parameters": {"type": "object", "required": ["port"], "properties": {
            "port": {"type": "string", "description": "Name of the port", "enum": ["Vlie", "Éma"]},
            "days": {"type": "integer", "description": "How many days", "default": 3},
            "units": {"type": ["string", "null"], "description": "m or ft"},
            "at": {"type": "object", "properties": {
                "hour": {"type": "number", "minimum": 0.5}, "notes": {
                    "type": "array", "items": {"type": "string"}}}}}}}},
    {"type": "function", "function": {
        "name": "list_ports", "description": "Lists ports.\nAll of them.",
        "parameters": {"type": "object", "properties": {}}}},
]
# Without lists of types and nested objects, which some templates cannot render.
SIMPLE_TOOLS = [
    {"type": "function", "function": {
        "name": "tide_table", "description": "Tells when water is high.",
        "parameters": {"type": "object", "required": ["port"], "properties": {
            "port": {"type": "string", "description": "Name of the port"},
            "days": {"type": "integer", "description": "How many days"}}}}},
]
MISSING = object()  # a variable that is not passed at all
ARGUMENTS = {"port": "Éma", "days": 2, "at": {"hour": 6.5, "notes": ["a \"b\"", "<c>"]}}
SYSTEM = {"role": "system", "content": "  Be brief.\nAnswer in <English>. "}
HELLO = {"role": "user", "content": "When is high water?\n\tIn 'Éma' — \"today\" "}


def call(arguments):
    return {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call00001", "type": "function",
         "function": {"name": "tide_table", "arguments": arguments}}]}


def after_call(arguments):
    return [HELLO, call(arguments), {
        "role": "tool", "name": "tide_table", "tool_call_id": "call00001",
        "content": "{\"high\": [\"06:12\", \"18:40\"]}"}]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


# Name, then variants of (messages, other variables). A shape is alike if all its variants are.
SHAPES = [
    ("user", [([HELLO], {}), ([HELLO], {"tools": MISSING, "documents": MISSING}),
              ([{"role": "user", "content": [{"type": "text", "text": "When?"}]}], {})]),
    ("system, user", [([SYSTEM, HELLO], {})]),
    ("user, assistant, user", [([HELLO, assistant(" At six. "), user("And tomorrow?")], {})]),
    ("system, three turns", [([SYSTEM, HELLO, assistant("At six."), user("And tomorrow?"),
                               assistant("At seven.\n"), user("Thanks; and then?")], {})]),
    ("tools", [([SYSTEM, HELLO], {"tools": TOOLS}), ([HELLO], {"tools": TOOLS}),
               ([HELLO], {"tools": SIMPLE_TOOLS, "functions": json.dumps(SIMPLE_TOOLS),
                          "datetime": "today"})]),
    ("tool call, result", [(after_call(ARGUMENTS), {"tools": TOOLS}),
                           (after_call(json.dumps(ARGUMENTS)), {"tools": TOOLS}),
                           (after_call({"port": "Vlie"}), {"tools": SIMPLE_TOOLS})]),
    ("reasoning before", [
        ([HELLO, assistant("At six.", reasoning_content="Look at\nthe table."), user("Sure?")], {}),
        ([HELLO, assistant("<think>\nLook at it.\n</think>\n\nAt six."), user("Sure?")], {})]),
    ("thinking off", [([SYSTEM, HELLO], {"enable_thinking": False, "thinking": False})]),
]
# How the engine asks about a document: turns before, the question.
ASKED = [([], "When is high water?"), ([("When?", "At six.")], "And tomorrow?"),
         ([("When?", "<b>At six.</b>"), ("Sure?", "Yes.")], "Why?")]
DOCUMENT = "High water is at six.\n\n# Ports\nVlie, Éma <|eos|>"
SWITCHES = {"enable_thinking": False, "thinking": False, "thinking_mode": "disabled",
            "thinking_budget": 0, "skip_thinking": True}
COMMON = {"tools": None, "documents": None, "add_generation_prompt": True,
          "bos_token": "<|bos|>", "eos_token": "<|eos|>"}


class AssistantTracker(jinja2.ext.Extension):
    """{% generation %}, of which only the body is rendered."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(lineno)

    def _render(self, caller):
        return caller()


def compiled_here(source):
    """Compiles a template as transformers does, for machines without it."""
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[AssistantTracker, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    return environment.from_string(source)


try:
    from transformers.utils.chat_template_utils import _compile_jinja_template
    REFERENCE = "transformers"
except ImportError:
    _compile_jinja_template = compiled_here
    REFERENCE = "jinja2 set up as by transformers"


def reference(source, variables):
    """The text, or None and why it is refused."""
    try:
        template = _compile_jinja_template(source)
        template.globals["strftime_now"] = lambda form: NOW.strftime(form)
        text = template.render(**variables)
        text.encode()
        return text, ""
    except Exception as error:  # whatever a template raises is a refusal
        return None, f"{type(error).__name__}: {error}"


def asked(turns, question):
    """The messages in which the engine asks about DOCUMENT."""
    questions = [q for q, _ in turns] + [question]
    questions[0] = f"{DOCUMENT}\n\nQuestion: {questions[0]}"
    messages = [user(questions[0])]
    for (_, answer), following in zip(turns, questions[1:]):
        messages += [assistant(answer), user(following)]
    return messages


def lectern(program, path, variables, *flags):
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(variables, file, ensure_ascii=False)
        file.flush()
        run = subprocess.run([program, path, file.name, *flags], capture_output=True, timeout=60)
    text = run.stdout.decode()
    if run.returncode not in (0, 1):
        return None, f"CRASH {run.returncode}: {run.stderr.decode()}"
    return (text, "") if run.returncode == 0 else (None, text.removeprefix("ERROR ").strip())


def difference(ours, theirs):
    if ours[0] is None or theirs[0] is None:
        return (f"lectern: {ours[1] or 'renders'} | jinja2: {theirs[1] or 'renders'}")
    at = next((i for i, (a, b) in enumerate(zip(*(ours[0], theirs[0]))) if a != b),
              min(len(ours[0]), len(theirs[0])))
    return (f"at {at}: lectern {ours[0][max(at - 20, 0):at + 40]!r} | "
            f"jinja2 {theirs[0][max(at - 20, 0):at + 40]!r}")


def compare(program, path, show):
    """A mark for each shape ("=" alike, "r" alike and refused, "X" different), and differences."""
    source = path.read_text(encoding="utf-8")
    marks, differences = [], []
    for name, variants in SHAPES:
        mark = "r"
        for messages, more in variants:
            variables = {"messages": messages, **COMMON, **more}
            variables = {k: v for k, v in variables.items() if v is not MISSING}
            theirs, ours = reference(source, variables), lectern(program, path, variables)
            if show:
                print(f"--- {path.name}, {name}\n{theirs[0] or theirs[1]}")
            if ours[0] != theirs[0] or ours[1].startswith("CRASH"):
                differences.append(f"{path.name}, {name}: {difference(ours, theirs)}")
                mark = "X"
            elif mark == "r" and ours[0] is not None:
                mark = "="
        marks.append(mark)
    mark = "="
    for turns, question in ASKED:
        theirs = reference(source, {"messages": asked(turns, question), **COMMON, **SWITCHES})
        ours = lectern(program, path, {
            "document": DOCUMENT, "turns": turns, "question": question,
            "bos": COMMON["bos_token"], "eos": COMMON["eos_token"]}, "--document")
        if ours[0] is None or (theirs[0] is not None and ours[0] != theirs[0]):
            differences.append(f"{path.name}, about a document: {difference(ours, theirs)}")
            mark = "r" if ours[0] is None and theirs[0] is None else "X"
    return marks + [mark], differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", default=str(
        HERE.parent.parent / "build-checked/tests/evaluation/render_template"))
    parser.add_argument("--least", type=int, default=62)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true", help="print the reference's texts")
    options = parser.parse_args()

    paths = sorted(path for path in options.folder.rglob("*.jinja") if options.only in path.name)
    all_differences, alike, unrendered = [], 0, []
    print(f"Reference: {REFERENCE}, jinja2 {jinja2.__version__}. = alike, r alike and refused, "
          "X different\n")
    print("| template | " + " | ".join(name for name, _ in SHAPES) + " | about a document |")
    print("|---|" + ":---:|" * (len(SHAPES) + 1))
    for path in paths:
        marks, differences = compare(options.program, path, options.show)
        print(f"| {path.stem} | " + " | ".join(marks) + " |")
        alike += "X" not in marks
        all_differences += differences
        if all(mark == "r" for mark in marks):
            unrendered.append(path.name)
    print(f"\n{alike} of {len(paths)} templates are alike in all shapes.")
    for line in all_differences:
        print(line)
    for name in unrendered:
        print(f"{name}: refused in every shape, by the reference too")
    return 1 if alike < min(options.least, len(paths)) or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
