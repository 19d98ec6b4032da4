#!/usr/bin/env python3
"""Runs the tests of the Python package, and questions, upon a library under ASan and UBSan, whose
run time must come before everything else: LECTERN_PRELOAD has the libraries to preload. The tools
that the tests start are without it. Exits 1 where a test fails or a sanitizer complains.

under_sanitizers.py QUESTIONS [TEST…]     the tests of package_test.py, all or those that are named
LECTERN_LIBRARY, LECTERN_BIN, LECTERN_TEST_MODEL: as for package_test.py"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(*command):
    """The exit status, with the output shown; 1 where a sanitizer complains."""
    environment = {
        **os.environ, "LD_PRELOAD": os.environ["LECTERN_PRELOAD"],
        # Python keeps memory on purpose until it ends; what the library loses, soak.py shows.
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONPATH": str(HERE.parent.parent / "tools/python"), "PYTHONMALLOC": "malloc"}
    complained = False
    with subprocess.Popen([sys.executable, *map(str, command)], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        for line in child.stdout:
            print(line, end="", flush=True)
            complained |= "Sanitizer" in line or "runtime error" in line
    return child.returncode or int(complained)


def main(questions, *tests):
    status = run(HERE / "package_test.py", "--verbose", *tests)
    # AddressSanitizer keeps up to 256 MB of freed memory to itself.
    model = os.environ["LECTERN_TEST_MODEL"]
    return run(HERE / "soak.py", questions, model, "512") or status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
