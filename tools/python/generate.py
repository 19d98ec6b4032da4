#!/usr/bin/env python3
"""Writes the parts of the Python package that follow from engine/lectern_c.h, so that no list of
structs, functions, codes or options is kept by hand:

    lectern/_abi.py      structs, callbacks and functions for ctypes
    lectern/errors.py    an exception for each code
    lectern/options.py   the options of each request, as keyword arguments with types
    lectern/figures.py   dataclasses of the structs that hold numbers alone, such as the receipt

generate.py           writes them
generate.py --check   writes nothing; exits 1 and names the files that the header no longer gives
"""
from __future__ import annotations

import os
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
HEADER = HERE.parent.parent / "engine/lectern_c.h"
NOTE = "Made by tools/python/generate.py of engine/lectern_c.h: change that header, and run it."

SCALARS = {"size_t": "c_size_t", "uint64_t": "c_uint64", "uint32_t": "c_uint32",
           "int32_t": "c_int32", "float": "c_float", "double": "c_double"}
# Builtin exceptions that Python's programs expect beside our own.
BASES = {"invalid_argument": "ValueError", "not_found": "LookupError",
         "out_of_memory": "MemoryError"}
# The requests whose options become keyword arguments, by the names of lectern.h.
REQUESTS = {"EngineOptions": "lectern_engine_options", "IndexOptions": "lectern_index_options",
            "AskOptions": "lectern_ask_options", "CiteOptions": "lectern_cite_options",
            "PlanOptions": "lectern_plan_options"}
# Fields that are parameters of the methods themselves, because Python gives them another form:
# the store's folder, callbacks, a document's pages, and what a file is.
BY_HAND = {"store", "pages", "page_labels", "source", "path", "question"}
# Structs of numbers that become dataclasses.
FIGURES = ["lectern_counts", "lectern_index_numbers", "lectern_index_estimate", "lectern_receipt",
           "lectern_removed", "lectern_collected", "lectern_indexed_collection"]
# Texts that Python's programs have as paths, or as dicts.
PATHS = {"model", "adapter", "ollama_models", "chat_template"}
ARRAYS = {"lectern_turn": "Sequence[tuple[str, str]]", "lectern_string": "Sequence[str]",
          "lectern_logit_bias": "Mapping[int, float]"}


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


class Header:
    def __init__(self, text: str):
        plain = without_comments(text)
        self.enums: dict[str, dict[str, int]] = {}  # "lectern_codes": {"LECTERN_OK": 0, …}
        for name, body in re.findall(r"enum (lectern_\w+) \{(.*?)\};", plain, re.S):
            self.enums[name] = {key: int(value)
                                for key, value in re.findall(r"(LECTERN_\w+) = (\d+)", body)}
        # "lectern_code" is an int32_t whose values enum lectern_codes lists.
        self.typedefs = re.findall(r"typedef int32_t (lectern_\w+);", plain)
        self.handles = [name for name, same in re.findall(
            r"typedef struct (lectern_\w+) (lectern_\w+);", plain) if name == same]
        # Structs and callbacks in the order of the header: [(name, [(type, name, comment)])] and
        # [(name, result, [type])].
        self.declared: list[tuple[str, str]] = []
        self.structs: dict[str, list[tuple[str, str, str]]] = {}
        self.callbacks: dict[str, tuple[str, list[str]]] = {}
        pattern = (r"typedef struct (lectern_\w+) \{(.*?)\n\} \1;"
                   r"|typedef (\w+) \(\*(lectern_\w+)\)\((.*?)\);")
        for match in re.finditer(pattern, text, re.S):
            if match[1]:
                self.structs[match[1]] = self.fields(match[2])
                self.declared.append(("struct", match[1]))
            else:
                self.callbacks[match[4]] = (match[3], self.types(match[5]))
                self.declared.append(("callback", match[4]))
        self.functions = {
            name: (result.strip(), self.types(arguments))
            for result, name, arguments in re.findall(
                r"LECTERN_API ([\w* ]+?)(lectern_\w+)\(([^;]*)\);", plain)}

    @staticmethod
    def types(arguments: str) -> list[str]:
        """The types of a parameter list, without names."""
        arguments = without_comments(arguments).strip()
        if arguments == "void":
            return []
        return [re.sub(r"\s+", " ", one).strip().rpartition(" ")[0] for one in arguments.split(",")]

    @staticmethod
    def fields(body: str) -> list[tuple[str, str, str]]:
        """(type, name, comment) of each field; a comment stands before its field or behind it."""
        found: list[tuple[str, str, str]] = []
        before = ""
        for comment, type_, names, behind in re.findall(
                r"/\*(.*?)\*/|([\w* ]+?)(\w+(?:, \w+)*);(?:[ ]*/\*(.*?)\*/)?", body, re.S):
            if comment:
                before = comment
                continue
            for name in names.split(", "):
                said = re.sub(r"\n\s*\*", " ", behind or before)
                said = re.sub(r"\s+", " ", said).strip()
                found.append((re.sub(r"\s+", " ", type_).strip(), name, said))
                if behind or not name.endswith("_len"):
                    before = ""
        return found


def pointed(type_: str) -> str:
    """The name behind "const X*"."""
    return type_.replace("const ", "").rstrip("* ").strip()


class Writer:
    def __init__(self, header: Header):
        self.header = header

    def field_type(self, type_: str) -> str:
        """As ctypes has the type of a field, or of what a callback gets."""
        name = pointed(type_)
        if "*" in type_:
            if name in self.header.structs:
                return f"POINTER({name})"
            if name in ("uint64_t", "int32_t", "double"):
                return f"POINTER({SCALARS[name]})"
            return "c_void_p"  # text with a length, handles, the caller's own
        return self.value_type(name)

    def value_type(self, name: str) -> str:
        if name in self.header.typedefs:
            return "c_int32"
        return SCALARS.get(name, name)

    def argument_type(self, type_: str) -> str:
        if type_ == "const char*":
            return "c_char_p"
        if type_.endswith("**"):
            return "POINTER(c_void_p)"
        if "*" in type_ and pointed(type_) == "size_t":
            return "POINTER(c_size_t)"
        return self.field_type(type_)

    def result_type(self, type_: str) -> str:
        if type_ == "void":
            return "None"
        if type_ == "const char*":
            return "c_void_p"
        return self.field_type(type_)

    def abi(self) -> str:
        lines = [f'"""Structs, callbacks and functions of lectern_c.h, for ctypes.\n\n{NOTE}"""',
                 "from __future__ import annotations", "",
                 "from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_float,",
                 "                    c_int32, c_size_t, c_uint32, c_uint64, c_void_p)",
                 "from typing import Any", ""]
        for name, values in self.header.enums.items():
            lines.append(f"# enum {name}")
            lines += [f"{key} = {value}" for key, value in values.items()]
        lines += ["LECTERN_BUDGET_AUTO = -1.0", ""]
        for kind, name in self.header.declared:
            lines.append("")
            if kind == "callback":
                result, arguments = self.header.callbacks[name]
                types = ", ".join([self.result_type(result), *map(self.field_type, arguments)])
                lines.append(f"{name} = CFUNCTYPE({types})")
                continue
            lines += ["", f"class {name}(Structure):"]
            fields = self.header.structs[name]
            for type_, field, _ in fields:
                lines.append(f"    {field}: {self.annotation(type_)}")
            lines.append("    _fields_ = [")
            lines += [f'        ("{field}", {self.field_type(type_)}),'
                      for type_, field, _ in fields]
            lines += ["    ]", ""]
        lines += ["", "# Result and arguments of every function.",
                  "FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {"]
        for name, (result, arguments) in self.header.functions.items():
            lines.append(f'    "{name}": ({self.result_type(result)}, [')
            types = ", ".join(map(self.argument_type, arguments))
            lines += textwrap.wrap(types, 90, initial_indent=" " * 8, subsequent_indent=" " * 8)
            lines.append("    ]),")
        lines.append("}")
        return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)) + "\n"

    def annotation(self, type_: str) -> str:
        if "*" in type_ or pointed(type_) in self.header.callbacks:
            return "Any"
        if type_ in ("float", "double"):
            return "float"
        return "Any" if type_ in self.header.structs else "int"

    def errors(self) -> str:
        codes = {key.removeprefix("LECTERN_").lower(): value
                 for key, value in self.header.enums["lectern_codes"].items() if value}
        names = {code: "".join(part.capitalize() for part in
                               code.removesuffix("_error").split("_")) + "Error" for code in codes}
        lines = [f'''"""Exceptions: one for each code of lectern_c.h, all of them LecternError.

{NOTE}"""
from __future__ import annotations

__all__ = [''']
        lines += textwrap.wrap(", ".join(f'"{name}"' for name in ["LecternError", *names.values()]),
                               96, initial_indent="    ", subsequent_indent="    ")
        lines += ['''    ]


class LecternError(Exception):
    """A call that failed. str() says what is wrong, with which thing, and the way out.

    code    the name of the code: "not_found"
    param   the option or argument that is wrong ("kv_budget"), or ""
    """
    code = "internal"

    def __init__(self, message: str, param: str = "", code: str = ""):
        super().__init__(message)
        self.param = param
        if code:
            self.code = code
''']
        comments = dict(re.findall(r"(LECTERN_\w+) = \d+,? */\*(.*?)\*/",
                                   HEADER.read_text(), re.S))
        for code, name in names.items():
            base = f", {BASES[code]}" if code in BASES else ""
            said = re.sub(r"\s+", " ", comments.get("LECTERN_" + code.upper(), "")).strip()
            said = said[:1].upper() + said[1:]
            lines += ["", f"class {name}(LecternError{base}):"]
            lines += [f'    """{said}."""'] if said else []
            lines += [f'    code = "{code}"', ""]
        lines += ["", "BY_NUMBER: dict[int, type[LecternError]] = {"]
        lines += [f"    {codes[code]}: {name}," for code, name in names.items()]
        return "\n".join(lines) + "\n}\n"

    def options(self) -> str:
        lines = [f'''"""The options of each request, as keyword arguments: session.ask("Who?", max_tokens=20).

Names, ranges and defaults are those of lectern_c.h, whose comments stand here; 0 and "" are the
default. A switch that C calls no_tail is tail=False here, numbers of an enumeration are names, and
LECTERN_BUDGET_AUTO is "auto".

{NOTE}"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, TypedDict

__all__ = ["AskOptions", "CiteOptions", "EngineOptions", "IndexOptions", "PlanOptions"]
''']
        choices: dict[str, dict[str, int]] = {}
        for request, struct in REQUESTS.items():
            lines += ["", f"class {request}(TypedDict, total=False):"]
            for name, type_, comment in self.options_of(struct, choices):
                lines += self.commented(name, comment)
                lines.append(f"    {name}: {type_}")
            lines.append("")
        lines += ["", "# The numbers of names.", "CHOICES: dict[str, dict[str, int]] = {"]
        for name, values in choices.items():
            lines.append(f'    "{name}": {values!r},'.replace("'", '"'))
        return "\n".join(lines) + "\n}\n"

    @classmethod
    def commented(cls, name: str, comment: str) -> list[str]:
        """The comment of a field. One that goes on from the field's name ("of the answer") gets it."""
        text = cls.in_python(comment)
        if text.startswith(("Of ", "That ", "What ")):
            text = f"{name}: {text[0].lower()}{text[1:]}"
        return textwrap.wrap(text, 96, initial_indent="    # ", subsequent_indent="    # ")

    @staticmethod
    def in_python(comment: str) -> str:
        """A comment of the header with the names that Python has for its codes and structs."""
        def exception(match: re.Match[str]) -> str:
            return "".join(part.capitalize() for part in match[1].split("_")) + "Error"

        comment = comment[:1].upper() + comment[1:]
        comment = comment.replace("LECTERN_BUDGET_AUTO", '"auto"')
        comment = comment.replace("LECTERN_FALLBACK_EXACT", 'the fallback "exact"')
        comment = re.sub(r"lectern_(\w+)_options", lambda match: match[1].capitalize() + "Options",
                         comment)
        return re.sub(r"LECTERN_([A-Z_]+)", exception, comment)

    def figures(self) -> str:
        lines = [f'''"""Numbers that calls report, as lectern_c.h has them.

{NOTE}"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any
''']
        names = []
        for struct in FIGURES:
            name = "".join(part.capitalize() for part in struct.split("_")[1:])
            names.append(name)
            lines += ["", "@dataclass(frozen=True)", f"class {name}:"]
            fields = [one for one in self.header.structs[struct] if one[1] != "struct_size"]
            for type_, field, comment in fields:
                lines += self.commented(field, comment)
                lines.append(f"    {field}: {self.figure_type(type_, field, comment)}")
            lines += ["", "    @classmethod", f'    def read(cls, struct: Any) -> "{name}":',
                      '        """Copies the struct of C."""', "        return cls("]
            for type_, field, comment in fields:
                value = f"struct.{field}"
                if self.figure_type(type_, field, comment) == "bool":
                    value = f"bool({value})"
                lines.append(f"            {field}={value},")
            lines += ["        )", ""]
        lines.insert(1, "__all__ = [" + ", ".join(f'"{name}"' for name in sorted(names)) + "]\n")
        lines[1] = "\n".join(textwrap.wrap(lines[1], 96, subsequent_indent="           ")) + "\n"
        return "\n".join(lines)

    @staticmethod
    def figure_type(type_: str, field: str, comment: str) -> str:
        if type_ == "double":
            return "float"
        is_bool = comment.startswith("1:") and "2:" not in comment or field.startswith("is_")
        return "bool" if is_bool else "int"

    def options_of(self, struct: str, choices: dict[str, dict[str, int]]) -> \
            list[tuple[str, str, str]]:
        """(name, type, comment) of the options of a struct."""
        found = []
        fields = self.header.structs[struct]
        for type_, name, comment in fields:
            target = pointed(type_)
            if (name in BY_HAND or name in ("struct_size", "reserved") or name.endswith("_len")
                    or type_ == "void*" or target in self.header.callbacks
                    or any(other == name.removeprefix("num_") and "*" in other_type
                           for other_type, other, _ in fields if name.startswith("num_"))):
                continue
            if target in self.header.typedefs:
                values = self.header.enums[target + "s"]
                prefix = len(os.path.commonprefix(list(values)))
                choices[name] = {key[prefix:].lower(): value
                                 for key, value in values.items() if value}
                python = "Literal[" + ", ".join(f'"{key}"' for key in choices[name]) + "]"
            elif type_ == "const char*":
                python = "str"
                if name in PATHS:
                    python = "str | PathLike[str]"
                elif name == "json_schema":
                    python = "str | Mapping[str, object]"
            elif "*" in type_:
                python = ARRAYS[target]
            elif "LECTERN_BUDGET_AUTO" in comment:
                python = 'float | Literal["auto"]'
            elif type_ in ("float", "double"):
                python = "float"
            else:
                python = "bool" if comment.startswith("1:") else "int"
            if name.startswith("no_"):
                name, comment = name.removeprefix("no_"), "False" + comment.removeprefix("1")
            elif python == "bool":
                comment = "True" + comment.removeprefix("1")
            found.append((name, python, comment))
        return found


def main() -> int:
    writer = Writer(Header(HEADER.read_text()))
    files = {"lectern/_abi.py": writer.abi(), "lectern/errors.py": writer.errors(),
             "lectern/options.py": writer.options(), "lectern/figures.py": writer.figures()}
    changed = [name for name, text in files.items()
               if not (HERE / name).exists() or (HERE / name).read_text() != text]
    if "--check" in sys.argv[1:]:
        for name in changed:
            print(f"tools/python/{name} is not what engine/lectern_c.h gives: run "
                  "tools/python/generate.py")
        return 1 if changed else 0
    for name in changed:
        (HERE / name).write_text(files[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
