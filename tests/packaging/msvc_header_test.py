#!/usr/bin/env python3
"""The C header keeps to the rules of Microsoft's compiler, as far as clang's imitation of it knows them.

Read as C11 and as C++14 for x86_64-pc-windows-msvc, with stand-ins for the two system headers that it
includes; a third one would not be found. Skipped (77) where clang-14 is missing.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
STAND_INS = {
    "stdint.h": """typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t;
                   typedef unsigned short uint16_t; typedef int int32_t; typedef unsigned uint32_t;
                   typedef long long int64_t; typedef unsigned long long uint64_t;""",
    "stddef.h": "typedef unsigned long long size_t;"}
PROGRAM = '#include "engine/lectern_c.h"\nlectern_code First(void) { return LECTERN_OK; }\n'


def errors(program, suffix, standard):
    """The compiler's messages; empty where it takes the program."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in STAND_INS.items():
            (pathlib.Path(folder) / name).write_text(text + "\n")
        file = pathlib.Path(folder) / f"program.{suffix}"
        file.write_text(program)
        return subprocess.run(["clang-14", "--target=x86_64-pc-windows-msvc", "-fms-compatibility-version=19.20",
                               "-nostdinc", f"-I{folder}", f"-I{SOURCE}", f"-std={standard}", "-Wall", "-Wextra",
                               "-pedantic", "-Werror", "-fsyntax-only", file],
                              stderr=subprocess.PIPE, text=True).stderr


class MsvcHeader(unittest.TestCase):
    def test_is_c_and_cpp(self):
        self.assertEqual(errors(PROGRAM, "c", "c11"), "")
        self.assertEqual(errors(PROGRAM, "cc", "c++14"), "")

    def test_would_be_refused_with_what_gcc_alone_knows(self):
        self.assertNotEqual(errors(PROGRAM + "typedef struct { int n[0]; } Empty;\n", "c", "c11"), "")
        self.assertNotEqual(errors(PROGRAM + "#include <unistd.h>\n", "c", "c11"), "")


if __name__ == "__main__":
    if shutil.which("clang-14") is None:
        print("skipped: clang-14 is missing")
        sys.exit(77)
    unittest.main()
