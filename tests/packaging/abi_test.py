#!/usr/bin/env python3
"""tests/packaging/abi.py: lectern_c.h passes, and so does what it may gain; each break fails."""
import re
import tempfile
import unittest

import abi

header = abi.HEADER.read_text()


class Abi(unittest.TestCase):
    def check(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".h") as file:
            file.write(text)
            file.flush()
            return abi.compare(file.name)

    def changed(self, pattern, replacement):
        text, count = re.subn(pattern, replacement, header, count=1)
        self.assertEqual(count, 1, pattern)
        return self.check(text)

    def test_the_header_keeps_the_baseline(self):
        status, output = self.check(header)
        self.assertEqual(status, 0, output)

    def test_growth_passes(self):
        for pattern, replacement in [
            (r"(LECTERN_API uint32_t lectern_abi_version)", r"LECTERN_API int lectern_new(void);\n\1"),
            (r"LECTERN_INTERNAL = 25", "LECTERN_INTERNAL = 25, LECTERN_NEW = 26"),
            (r"\} lectern_ask_options;", "uint64_t added; } lectern_ask_options;"),
            (r"\} lectern_receipt;", "double added; } lectern_receipt;"),
        ]:
            with self.subTest(replacement):
                status, output = self.changed(pattern, replacement)
                self.assertEqual(status, 0, output)

    def test_breaks_fail_and_are_named(self):
        for pattern, replacement, named in [
            (r"LECTERN_API lectern_code lectern_engine_seal\([^;]*;", "", "lectern_engine_seal"),
            (r"(lectern_engine_seal\(lectern_engine\* engine,)", r"\1 int32_t how,",
             "lectern_engine_seal"),
            (r"(LECTERN_API) uint32_t( lectern_abi_version)", r"\1 uint64_t\2", "lectern_abi_version"),
            (r"LECTERN_NOT_FOUND = 2", "LECTERN_NOT_FOUND = 99", "LECTERN_NOT_FOUND"),
            (r"LECTERN_READ_ONLY = 10,", "", "LECTERN_READ_ONLY"),
            (r"uint32_t max_tokens; ", "uint32_t inserted; uint32_t max_tokens; ",
             "lectern_ask_options"),
            (r"uint32_t max_tokens; ", "", "lectern_ask_options"),
            (r"uint64_t session_rows; ", "float session_rows; ", "lectern_receipt"),
            (r"\} lectern_token;", "uint64_t added; } lectern_token;", "lectern_token"),
            (r"typedef int32_t \(\*lectern_answer_fn\)\(const char\* text, size_t len,",
             "typedef int32_t (*lectern_answer_fn)(const char* text,", "lectern_answer_fn"),
        ]:
            with self.subTest(replacement + named):
                status, output = self.changed(pattern, replacement)
                self.assertNotEqual(status, 0)
                self.assertIn(named, output)


if __name__ == "__main__":
    unittest.main()
