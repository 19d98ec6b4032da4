#!/usr/bin/env python3
"""index-document on files in other encodings, and on files that are no text, as other programs write
them: here Python's own modules.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
Standard library only.
"""

import bz2
import contextlib
import gzip
import json
import os
import lzma
import pickle
import py_compile
import shutil
import sqlite3
import tarfile
import unittest
import wave
import zipfile

import tools_test


class FilesTest(tools_test.ToolsTest):
    def index(self, *args):
        return json.loads(self.check(0, "index-document", "--json", "--progress", "none", *args)[0])

    def test_encodings(self):
        text = "The Fethol bridge was designed by J\u00e9r\u00f4me Tolvin.\n"
        report = self.index(self.write("utf8.txt", text))
        for name, encoding in (
                ("utf16.txt", "utf-16"), ("utf16be.txt", "utf-16-be"), ("w.txt", "cp1252")):
            with self.subTest(encoding):
                again = self.index(self.write(name, text.encode(encoding)))
                self.assertEqual(again["document"], report["document"])
                self.assertEqual(again["replaced_bytes"], 0)
        _, said = self.check(0, "index-document", "--progress", "none", self.path("w.txt"))
        self.assertRegex(said, r"read as windows-1252, which was assumed \(--encoding names another\)")
        self.assertEqual(self.index(self.path("w.txt"))["file_note"],
                         "read as windows-1252, which was assumed (--encoding names another)")
        named = self.index("--encoding", "latin1", self.path("w.txt"))
        self.assertIsNone(named["file_note"])
        self.assertEqual(named["document"], report["document"])
        self.check_error(2, "iconv -l", "index-document", "--encoding", "no-such", self.path("w.txt"))

    def test_a_compressed_file_is_read_as_the_one_in_it(self):
        text = b"The Fethol bridge was designed by Tolvin in 1904.\n" * 9
        report = self.index(self.write("letter.txt", text))
        for ending, compress in ("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress):
            with self.subTest(ending):
                again = self.index(self.write("letter.txt." + ending, compress(text)))
                self.assertEqual(again["document"], report["document"])
        def text_of(name, inside, *options):
            return self.check(0, "index-document", "--text-only", *options,
                              self.write(name, gzip.compress(inside)))[0]
        row = "Name: Ada | Age: 36\n"
        table, page = b"Name,Age\nAda,36\n", b"<!doctype html><h1>Lamps</h1><p>It was lit.</p>"
        self.assertIn(row, text_of("table.csv.gz", table))
        self.assertIn(row, text_of("table.CSV.GZ", table))
        self.assertEqual(text_of("table.gz", table), table.decode())
        self.assertIn(row, text_of("table.gz", table, "--format", "csv"))
        self.assertIn("# Lamps\n", text_of("page.gz", page))
        self.assertIn("# NAME\n", text_of("ls.1.gz", b".TH LS 1\n.SH NAME\nls \\- list\n"))
        self.assertIn("# NAME\n", text_of("ls.1ssl.gz", b".de Sp\n.sp\n..\n.TH LS 1\n.SH NAME\nls\n"))
        log = "Nov 30 08:00:01 a kernel: started\nNov 30 08:00:02 a kernel: up\n"
        self.assertEqual(text_of("syslog.1.gz", log.encode()), log)
        self.write("dir.1.gz", gzip.compress(b".so man1/ls.1\n"))
        self.check_error(2, "only refers to the page man1/ls.1", "index-document", self.path("dir.1.gz"))
        self.write("cut.txt.gz", gzip.compress(text)[:-9])
        self.check_error(2, "cut.txt.gz.* is damaged", "index-document", self.path("cut.txt.gz"))

    def test_old_office_files_are_read_by_their_content(self):
        files = os.path.join(os.path.dirname(os.path.abspath(__file__)), "extract_files")
        def text_of(file, name):
            with open(os.path.join(files, file), "rb") as source:
                return self.check(0, "index-document", "--text-only", self.write(name, source.read()))[0]
        self.assertEqual(text_of("stock.xls", "a.txt"), text_of("stock.xlsx", "b.txt"))
        if not shutil.which("unrtf"):
            self.skipTest("there is no unrtf")
        self.assertEqual(text_of("rtf_alone.msg", "c.doc"),
                         "Subject: Rich\n\nhello world\n\nAttachment: list.txt\n\none\n")

    def test_what_is_no_text_is_refused_by_name(self):
        png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\0\0\0\0" + b"\x3a\x7e\x9b\x55" * 9
        path = self.write("photo.txt", png)
        self.check_error(2, "photo.txt.* is a PNG image", "index-document", path)
        self.check_error(2, "a program or library", "index-document", "/bin/true")
        self.index("--format", "text", path)
        # Files as Python's own modules write them.
        letter = b"The keeper of the lighthouse is Ann Brown.\n" * 9
        self.write("letter", letter)
        with zipfile.ZipFile(self.path("a.zip"), "w") as archive:
            archive.writestr("letter.txt", letter)
        with tarfile.open(self.path("a.tar"), "w") as archive:
            archive.add(self.path("letter"), "letter")
        with wave.open(self.path("a.wav"), "wb") as sound:
            sound.setparams((1, 2, 8000, 0, "NONE", ""))
            sound.writeframes(bytes(range(200)))
        with contextlib.closing(sqlite3.connect(self.path("a.db"))) as database:
            database.execute("create table t (x)")
            database.commit()
        py_compile.compile(self.write("a.py", "print('x')\n"), self.path("a.pyc"))
        with tarfile.open(self.path("a.tgz"), "w:gz") as archive:
            archive.add(self.path("letter"), "letter")
        self.write("a.png.gz", gzip.compress(png))
        self.write("a.pickle", pickle.dumps({"letter": letter, "numbers": list(range(99))}))
        for name, kind in (("zip", "zip archive"), ("tar", "tar archive"), ("wav", "WAV"), ("db", "SQLite"),
                           ("pyc", "compiled Python"), ("tgz", "tar archive"), ("png.gz", "PNG"),
                           ("pickle", "pickle")):
            self.check_error(2, f"a.{name}.* (is|holds) .*{kind}.* and not text", "index-document",
                             self.path("a." + name))


if __name__ == "__main__":
    unittest.main()
