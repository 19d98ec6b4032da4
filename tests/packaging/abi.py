#!/usr/bin/env python3
"""The ABI of lectern_c.h against the committed baseline, lectern.abi: fails where a program that was
built with the baseline's header would not run with this one's library. What may change, abi.suppr and
the header say: functions, codes, and fields at the end of structs are added. Needs abigail-tools.

    tests/packaging/abi.py [HEADER]    # else engine/lectern_c.h
    tests/packaging/abi.py --update    # this is the baseline now: with a release

Looks at a library in C that has the header's functions without their bodies (exports_test says that
Lectern's has the same ones), and a function for each field and code, whose arguments have its type and
its place: what abidiff would overlook in a struct that also grows."""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HEADER = HERE / "../../engine/lectern_c.h"
BASELINE = HERE / "lectern.abi"


def source(header):
    """C of which each function of the header is defined, and each field and code a function."""
    text = subprocess.run(["cc", "-E", "-P", header], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    api = r'(__attribute__\(\(visibility\("default"\)\)\)[^;]*);'
    code = re.sub(api, r"\1 { __builtin_trap(); }", text)
    for fields, struct in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.DOTALL):
        for field in re.findall(r"(\w+)\s*[,;]", fields):
            code += (f"void field_{struct}_{field}(__typeof__((({struct}*)0)->{field}) type,"
                     f" char (*offset)[__builtin_offsetof({struct}, {field}) + 1]) {{}}\n")
    for codes in re.findall(r"enum \w+ \{(.*?)\}", text, re.DOTALL):
        for name in re.findall(r"(\w+) =", codes):
            code += f"void code_{name}(char (*number)[{name} + 1]) {{}}\n"
    return code


def run(*command, folder=None):
    result = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
    return result.returncode, result.stdout


def write_abi(header, folder):
    """The path of a description of the header's ABI, in the folder."""
    folder = pathlib.Path(folder)
    (folder / "lectern_c.c").write_text(source(header))
    for command in [
        ("cc", "-std=gnu11", "-g", "-fPIC", "-shared", "-Wl,-soname,liblectern.so.1",
         "lectern_c.c", "-o", "liblectern.so"),
        ("abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "liblectern.so",
         "--out-file", "lectern.abi"),
    ]:
        status, output = run(*command, folder=folder)
        if status != 0:
            sys.exit(output)
    return folder / "lectern.abi"


def compare(header):
    """(status, what has changed): status 0 where the header keeps the baseline."""
    with tempfile.TemporaryDirectory() as folder:
        return run("abidiff", "--no-added-syms", "--suppressions", str(HERE / "abi.suppr"),
                   str(BASELINE), str(write_abi(header, folder)))


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        with tempfile.TemporaryDirectory() as folder:
            BASELINE.write_bytes(write_abi(HEADER, folder).read_bytes())
    else:
        status, output = compare(*(sys.argv[1:] or [HEADER]))
        print(output, end="")
        sys.exit(status)
