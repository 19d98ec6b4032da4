#!/usr/bin/env python3
"""Tests that liblectern.so.1 and liblectern.a show the functions of lectern_c.h to a linker, no more.

Usage: exports_test.py LIBLECTERN.SO LIBLECTERN.A LECTERN_C.H"""
import pathlib
import re
import subprocess
import sys
import unittest

shared, archive, header = sys.argv[1:4]


def symbols(*arguments):
    """{name: type} as nm says."""
    lines = subprocess.run(["nm", "--defined-only", "-P", *arguments], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    return {line.split()[0].split("@")[0]: line.split()[1] for line in lines
            if len(line.split()) > 1}


class Exports(unittest.TestCase):
    def setUp(self):
        declared = re.findall(r"LECTERN_API [\w* ]+?(lectern_\w+)\(",
                              pathlib.Path(header).read_text())
        self.declared = set(declared)
        self.assertGreater(len(declared), 40)

    def test_shared_library_exports_the_declared_functions(self):
        exported = symbols("--dynamic", shared)
        self.assertEqual(exported.pop("LECTERN_1"), "A")  # the version that they carry
        self.assertEqual(set(exported), self.declared)
        self.assertEqual(set(exported.values()), {"T"})

    def test_its_soname_has_the_abi_version(self):
        dynamic = subprocess.run(["readelf", "-d", shared], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout
        self.assertIn("soname: [liblectern.so.1]", dynamic)

    def test_static_library_defines_the_declared_functions(self):
        self.assertEqual(set(symbols("--extern-only", archive)), self.declared)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
