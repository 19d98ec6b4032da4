#!/usr/bin/env python3
"""Windows programs under Wine and Linux programs read each other's stores and say the same.

    windows_test.py WINDOWS_BUILD LINUX_BUILD

Indexes the demo's document on either system, compares the files of the two stores byte by byte, and asks
each store on both systems: the answers, their evidence and their scores must be equal. Then it looks at
what lectern.dll exports, lets a C program that is linked with the import library index and ask, reads a
PDF, a web page, office files, a book, RTF and a mail on both, and runs the tests of the tools and of the
server (tests/tools) with the Windows programs.
Skipped (77) where Wine or one of the builds is missing: tools/packaging/windows.sh makes that for
Windows.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from make_pdf import make_pdf  # pylint: disable=wrong-import-position

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
READER = SOURCE / "tools/reader/model"
DOCUMENT = SOURCE / "tools/demo/document.txt"
QUESTIONS = ["What does Flaflult Proumoul love to eat?", "What is the genre of the novel Hescerk?",
             "Where does the Kletim committee rent a hall?"]
FILES = SOURCE / "tests/tools/extract_files"
# Stands for Tesseract: one language, and a page with two words.
TESSERACT = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char** argv) {
  if (argc < 2 || strcmp(getenv("OMP_THREAD_LIMIT"), "1") != 0) return 3;
  if (strcmp(argv[1], "--list-langs") == 0) return puts("Languages (1):\neng") < 0;
  if (getchar() != 'P' || getchar() != '5') return 4;  /* the grey image that pdftoppm draws */
  puts("level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"
       "1\t1\t0\t0\t0\t0\t0\t0\t2711\t3508\t-1\t\n2\t1\t1\t0\t0\t0\t300\t356\t500\t40\t-1\t\n"
       "3\t1\t1\t1\t0\t0\t300\t356\t500\t40\t-1\t\n4\t1\t1\t1\t1\t0\t300\t356\t500\t40\t-1\t\n"
       "5\t1\t1\t1\t1\t1\t300\t356\t240\t40\t96\tRecognised\n"
       "5\t1\t1\t1\t1\t2\t560\t356\t240\t40\t96\twords.");
  return 0;
}
"""
WINDOWS = LINUX = PACKED = None  # folders of the builds, and the one that was packed


def run(command, variables=None, **options):
    environment = dict(os.environ, WINEDEBUG="-all", LECTERN_THREADS="2", **(variables or {}))
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment, timeout=120, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout.decode()


def tool(system, name, *arguments, **options):
    program = ["wine", PACKED / f"bin/{name}.exe"] if system == "windows" else [LINUX / f"tools/{name}"]
    return run([*program, *arguments], **options)


def path(system, place):
    """The name of a place for a program: Wine shows the machine's files as drive Z."""
    return f"Z:{place}" if system == "windows" else str(place)


def index(system, store):
    return tool(system, "index-document", "--store", path(system, store), "--model", path(system, READER), "--name",
                "demo", "--json", path(system, DOCUMENT))


def ask(system, store, question):
    answer = json.loads(tool(system, "ask-document", "--store", path(system, store), "--model",
                             path(system, READER), "--document", "demo", "--json", question))
    return without_times(answer)


def without_times(value):
    """The value without what a clock, a system's paths or memory say, and without tokens guessed ahead, whose
    number depends on the clock."""
    if isinstance(value, dict):
        return {key: without_times(part) for key, part in value.items()
                if not re.search(r"second|_ms$|time|rate|source|path|ram|memory|threads|proposed|accepted", key)}
    if isinstance(value, list):
        return [without_times(part) for part in value]
    return value


def shards(store):
    """Each file of a document by its place below docs/."""
    docs = pathlib.Path(store) / "docs"
    return {str(file.relative_to(docs)): file.read_bytes() for file in sorted(docs.rglob("*")) if file.is_file()}


class Windows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lectern-windows-"))
        for system in ("windows", "linux"):
            index(system, cls.folder / system)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_both_write_the_same_bytes(self):
        ours, theirs = shards(self.folder / "linux"), shards(self.folder / "windows")
        self.assertTrue(ours)
        self.assertEqual(ours.keys(), theirs.keys())
        # The document's own file records its source and how long indexing took.
        differing = [name for name in ours if ours[name] != theirs[name] and not name.endswith("document.shard")]
        self.assertEqual(differing, [])
        self.assertGreater(len(ours), 1)

    def test_stores_travel(self):
        for question in QUESTIONS:
            answers = {(asker, store): ask(asker, self.folder / store, question)
                       for asker in ("windows", "linux") for store in ("windows", "linux")}
            first = answers["linux", "linux"]
            for pair, answer in answers.items():
                with self.subTest(question=question, asked_on=pair[0], indexed_on=pair[1]):
                    self.assertEqual(answer, first)

    def test_the_dll_exports_the_c_api_alone(self):
        listing = run(["x86_64-w64-mingw32-objdump", "-p", WINDOWS / "engine/lectern.dll"])
        names = set(re.findall(r"^\s+\[\s*\d+\]\s+(?:\+base\[\s*\d+\]\s+)?(?:[0-9a-f]{4,}\s+)?(\w+)$", listing, re.M))
        header = (SOURCE / "engine/lectern_c.h").read_text()
        declared = set(re.findall(r"^LECTERN_API [^;(]*?(lectern_\w+)\s*\(", header, re.M))
        self.assertTrue(declared)
        self.assertEqual(names, declared)
        needed = set(re.findall(r"DLL Name: (\S+)", listing))
        own = {name for name in needed if re.match(r"lib(gcc|stdc|winpthread|gomp)", name)}
        self.assertEqual(own, set())  # parts of the system alone

    def test_a_c_program_is_linked_with_the_import_library(self):
        program = self.folder / "ask.exe"
        run(["x86_64-w64-mingw32-gcc-posix", "-I", WINDOWS / "include", SOURCE / "tools/samples/ask.c",
             WINDOWS / "engine/liblectern.dll.a", "-o", program])
        shutil.copy(WINDOWS / "engine/lectern.dll", self.folder)
        printed = run(["wine", program, f"Z:{READER}", f"Z:{self.folder}/c", f"Z:{DOCUMENT}", QUESTIONS[0]])
        expected = ask("linux", self.folder / "linux", QUESTIONS[0])
        self.assertEqual(printed.replace("\r", "").split("\n")[0], expected["answer"].split("\n")[0])

    def test_paths_are_unicode(self):
        place = self.folder / "Bücher 書籍"
        place.mkdir()
        shutil.copy(DOCUMENT, place / "книга.txt")
        store = place / "store"
        tool("windows", "index-document", "--store", path("windows", store), "--model", path("windows", READER),
             path("windows", place / "книга.txt"))
        listed = tool("windows", "lectern-store", "--store", path("windows", store), "list")
        self.assertIn("книга.txt", listed)

    def test_paths_are_written_as_users_of_windows_write_them(self):
        place = self.folder / "papers"
        for name in ("north/Mill.txt", "south/Mill.txt", "south/notes.md"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(f"The mill of {name} has three stones.")
        store = path("windows", self.folder / "backslashes").replace("/", "\\")
        windows = path("windows", place).replace("/", "\\")
        at = ["--store", store, "--model", path("windows", READER), "--json"]

        def indexed(*files):
            printed = tool("windows", "index-document", *at, "--progress", "none", *files)
            rows = [json.loads(line) for line in printed.splitlines()]
            return {row["name"]: row["document"] for row in rows if "name" in row}

        first = indexed(windows + "\\*\\*.txt")
        self.assertEqual(set(first), {"north/Mill.txt", "south/Mill.txt"})
        every = indexed(windows + "\\")
        self.assertEqual(every, {**first, "south/notes.md": every["south/notes.md"]})
        # The same folder by other spellings: in letters of another case, and with the prefix of long paths.
        for spelled in (windows.upper(), "\\\\?\\" + windows):
            with self.subTest(spelled=spelled):
                self.assertEqual(indexed(spelled), every)
        for asked in ("south\\Mill.txt", windows + "\\south\\Mill.txt", windows.lower() + "\\SOUTH\\mill.txt"):
            with self.subTest(asked=asked):
                answer = json.loads(tool("windows", "ask-document", *at, "--max-tokens", "1", "--document", asked,
                                         "How many stones?"))
                self.assertEqual(answer["document"], first["south/Mill.txt"])

    def test_texts_in_many_encodings_are_the_same(self):
        german = "Größe und Länge der Mühle, für späte Änderungen. Die Straße führt über die Brücke.\n" * 3
        texts = {"cp1252": german, "utf-16": german, "utf-16-be": german, "cp850": german, "mac_roman": german,
                 "koi8_r": "Все люди рождаются свободными и равными в своем достоинстве.\n" * 3,
                 "cp1253": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι.\n" * 3,
                 "gb18030": "人人生而自由，在尊严和权利上一律平等。\n" * 3,
                 "shift_jis": "すべての人間は、生まれながらにして自由であり。\n" * 3,
                 "euc_kr": "모든 인간은 태어날 때부터 자유로우며 동등하다.\n" * 3}
        files = []
        for encoding, text in texts.items():
            files.append(self.folder / f"{encoding}.txt")
            files[-1].write_bytes(text.encode(encoding))
        self.check_text(files)

    def check_text(self, files):
        """The files have the same text on both systems: a document is named after the hash of its text."""
        for file in files:
            names = []
            for system in ("linux", "windows"):
                store = self.folder / f"{file.name}-{system}"
                tool(system, "index-document", "--store", path(system, store), "--model", path(system, READER),
                     "--name", "d", path(system, file))
                names.append([folder.name for folder in store.glob("docs/*")])
            with self.subTest(file=file.name):
                self.assertEqual(names[0], names[1])
                self.assertEqual(len(names[0]), 1)

    def test_a_pdf_and_a_web_page_have_the_same_text(self):
        page = ("<html><title>Mills</title><nav>Home</nav><main><h1>Mills</h1><p>Mills stand in <b>Osk</b>.<table>"
                "<tr><th>Town<th>Mills<tr><td>Osk<td>3</table><pre>a  b</pre></main>" + "<p>More text." * 200)
        files = {"a.pdf": make_pdf([["The mill of Osk has three stones."], ["It grinds rye."]]),
                 "a.html": page.encode()}
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        self.check_text([self.folder / name for name in files])

    def test_office_files_a_book_rtf_and_a_mail_have_the_same_text(self):
        self.check_text([file for file in sorted(FILES.iterdir()) if file.suffix != ".md"])

    def test_a_table_a_notebook_and_a_manual_page_have_the_same_text(self):
        cells = [{"cell_type": "markdown", "source": ["# Mills\n", "Osk has three."]},
                 {"cell_type": "code", "source": "1 + 1", "outputs": []}]
        files = {"a.csv": "town;mills\nOsk;3\nÅby;4\n".encode("cp1252"), "a.tsv": b"town\tmills\nOsk\t3\n",
                 "a.ipynb": json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}).encode(),
                 "a.1": b".TH MILL 1\n.SH NAME\nmill \\- grinds rye\n.SH OPTIONS\n.TP\n.B -x\nFine flour.\n"}
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        self.check_text([self.folder / name for name in files])

    def test_a_pdf_has_the_same_labels_and_headings(self):
        pages = [["Foreword", "", "The Fethol bridge was designed by Mara Tolvin."],
                 ["The Lund mill", "", "The owner of the Lund mill is Ben Carrow."]]
        file = self.folder / "book.pdf"
        file.write_bytes(make_pdf(pages, labels="0 << /S /r /St 7 >> 1 << /P (A-) /S /D >>",
                                  outline=[("Foreword", 1), ("1 The Lund mill", 2)]))
        cited = []
        for system in ("linux", "windows"):
            store = path(system, self.folder / f"book-{system}")
            tool(system, "index-document", "--store", store, "--model", path(system, READER), path(system, file))
            cited.append(without_times(json.loads(tool(
                system, "ask-document", "--store", store, "--model", path(system, READER), "--document", "book.pdf",
                "--json", "--cite", "Mara Tolvin designed the Fethol bridge. Ben Carrow is the owner of the mill."))))
        self.assertEqual(cited[0], cited[1])
        evidence = [sentence["evidence"][0] for sentence in cited[1]["sentences"]]
        self.assertEqual([(one["page_label"], one["heading"]) for one in evidence],
                         [("vii", "Foreword"), ("A-1", "The Lund mill")])

    def test_a_page_without_text_is_recognised_where_tesseract_is_in_path(self):
        programs = self.folder / "tesseract"
        programs.mkdir()
        (programs / "tesseract.c").write_text(TESSERACT)
        run(["x86_64-w64-mingw32-gcc-posix", "-w", programs / "tesseract.c", "-o", programs / "tesseract.exe"])
        file = self.folder / "scan.pdf"
        file.write_bytes(make_pdf([["The mill of Osk has three stones."], []]))
        notes = []
        for folder in (programs, self.folder / "none"):
            report = tool("windows", "index-document", "--store", path("windows", self.folder / "scans"), "--model",
                          path("windows", READER), "--json", "--ocr", path("windows", file),
                          variables={"WINEPATH": path("windows", folder).replace("/", "\\")})
            notes.append(json.loads(report)["file_note"])
        self.assertIn("text of page 2 was recognised from images (Tesseract, eng)", notes[0])
        self.assertIn("needs the program tesseract", notes[1])

    def test_ranks_are_refused(self):
        with self.assertRaisesRegex(AssertionError, "ranks are not supported on Windows"):
            tool("windows", "lectern-server", "--ranks", "mpirun -n 2")

    def test_the_programs_pass_their_tests(self):
        programs = self.folder / "bin"
        programs.mkdir()
        for name in ("ask-document", "index-document", "lectern-server", "lectern-store"):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec wine {PACKED}/bin/{name}.exe "$@"\n')
            program.chmod(0o755)
        environment = dict(os.environ, WINEDEBUG="-all", LECTERN_WINE="1", LECTERN_BIN=str(programs),
                           LECTERN_TEST_MODEL=str(READER))
        for test in ("http_test.py", "server_test.py", "openai_fields_test.py", "tools_test.py", "folder_test.py"):
            # Not a pipe: Wine's own processes, which go on for a while, would keep it open.
            with open(self.folder / test, "w+b") as said:
                done = subprocess.run([sys.executable, SOURCE / "tests/tools" / test], stdout=said,
                                      stderr=subprocess.STDOUT, env=environment, timeout=1800, check=False)
                said.seek(0)
                text = said.read().decode()
            print(test, *re.findall(r"^Ran .*|^(?:OK|FAILED)\b.*", text, re.MULTILINE))
            self.assertEqual(done.returncode, 0, text)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    LINUX, WINDOWS = (pathlib.Path(sys.argv.pop(i)).resolve() for i in (2, 1))  # tests change their folder
    PACKED = next(WINDOWS.glob("lectern-*-windows-x86_64"), WINDOWS / "lectern-windows-x86_64")
    needed = [WINDOWS / "engine/lectern.dll", PACKED / "bin/index-document.exe", LINUX / "tools/index-document"]
    missing = [str(file) for file in needed if not file.exists()]
    if shutil.which("wine") is None:
        missing.append("wine")
    if missing:
        print("skipped, missing: " + ", ".join(missing))
        sys.exit(77)
    unittest.main()
