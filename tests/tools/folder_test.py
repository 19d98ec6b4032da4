#!/usr/bin/env python3
"""index-document over folders, patterns and several files, and --watch, as users run it.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with; else the bundled reader of the tools
Standard library only.
"""

import fcntl
import glob
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from make_pdf import make_pdf
import tools_test
from tools_test import BIN, IS_WINE, TIMEOUT, ToolsTest, make_text, told

RESULTS = ("indexed", "unchanged", "renewed", "skipped", "failed", "interrupted", "deleted",
           "estimated")


def lock(file):
    """Takes the lock of an open file that the tools would take. Wine keeps locks of Windows as those of fcntl."""
    (fcntl.lockf if IS_WINE else fcntl.flock)(file, fcntl.LOCK_EX)


class FolderTest(ToolsTest):
    """Each test has a folder of documents and a store of its own."""

    def setUp(self):
        self.docs = self.path(self.id().split(".")[-1])
        self.at = ("--store", self.docs + ".store")
        os.makedirs(self.docs)

    def put(self, name, text):
        path = os.path.join(self.docs, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def lines(self, *args, status=0, **options):
        """Runs with --json; returns the lines of the files, the sums and stderr."""
        out, err = self.check(status, "index-document", *self.at, "--json", "--progress", "none",
                              *args, **options)
        *rows, last = [json.loads(line) for line in out.splitlines()]
        self.check_sums(rows, last["summary"])
        return rows, last["summary"], err

    def check_sums(self, rows, sums):
        for result in RESULTS:
            self.assertEqual(sums[result], sum(row["result"] == result for row in rows), result)
        self.assertEqual(sums["files"], len({row["file"] for row in rows}) + sums["left"])
        self.assertEqual(sums["tokens"], sum(row.get("tokens", 0) for row in rows))

    def results(self, rows):
        """Results by the path below the folder."""
        return {os.path.relpath(row["file"], self.docs): row["result"] for row in rows}

    def names(self):
        out, _ = self.check(0, "lectern-store", *self.at, "--json", "list")
        return {name["name"]: document["document"] for document in json.loads(out)["documents"]
                for name in document["names"]}


class ListTest(FolderTest):
    def test_each_file_is_a_document_in_natural_order(self):
        # A folder stands before a file whose name begins alike, and its folders among its files.
        ordered = ["a/b/1.txt", "a/x.md", "a.txt", "page9.txt", "page10.txt", "page010b.txt",
                   "\u00dcber.txt"]
        for name in sorted(ordered, reverse=True):
            self.put(name, f"The text of {name} is short.")
        rows, sums, _ = self.lines(self.docs)
        self.assertEqual([os.path.relpath(row["file"], self.docs) for row in rows], ordered)
        self.assertEqual({row["result"] for row in rows}, {"indexed"})
        for row in rows:
            self.assertEqual(set(row), tools_test.IndexTest.FIELDS | {"file", "result", "reason"})
            self.assertEqual(row["source"], told(os.path.realpath(row["file"])))
        self.assertEqual(set(sums), set(RESULTS) | {"files", "left", "tokens", "new_tokens",
                                                    "new_bytes_on_disk", "seconds"})
        self.assertEqual(sums["new_bytes_on_disk"], sum(row["bytes_on_disk"] for row in rows))
        self.assertEqual(self.names(), {os.path.relpath(row["file"], self.docs): row["document"]
                                        for row in rows})

    def test_the_table_and_its_sums(self):
        self.put("1.txt", "The first text.")
        self.put("2.txt", "")
        out, err = self.check(0, "index-document", *self.at, self.docs)
        self.assertRegex(out, rf"^result +tokens +time  file\n"
                         rf"indexed +\d+ +\d+ m?s  {self.docs}/1.txt\n"
                         rf"skipped +{self.docs}/2.txt: is empty\n"
                         r"2 files: 1 indexed, 1 skipped; \d+ tokens, \d+ new, .*B on disk, in .*\n$")
        self.assertIn("next: ask-document --document 1.txt", err)

    def test_unchanged_files_are_left_alone_and_changed_ones_renewed(self):
        for name in ("1.txt", "2.txt", "3.txt"):
            self.put(name, f"The text of {name} is short.")
        first, _, _ = self.lines(self.docs)
        self.put("2.txt", "The text of 2.txt is another one.")
        self.put("4.txt", "The text of 3.txt is short.")
        rows, sums, _ = self.lines(self.docs)
        self.assertEqual(self.results(rows), {"1.txt": "unchanged", "2.txt": "renewed",
                                              "3.txt": "unchanged", "4.txt": "unchanged"})
        self.assertEqual(rows[1]["replaced"], first[1]["document"])
        self.assertEqual(rows[3]["reason"], 'the same text as "3.txt"')
        self.assertEqual([row["reason"] for row in rows[:3]], [None] * 3)
        self.assertEqual((sums["new_tokens"] > 0, sums["new_tokens"] <= rows[1]["tokens"]),
                         (True, True))
        names = self.names()
        self.assertEqual(names["3.txt"], names["4.txt"])
        self.assertEqual(set(names), {"1.txt", "2.txt", "3.txt", "4.txt"})

    def test_what_is_no_document_is_skipped_with_the_reason(self):
        self.put("good.txt", "A good text.")
        for name in (".hidden.txt", ".git/config", "draft.txt~", "#draft.txt#", "~$letter.docx",
                     "paper.pdf.crdownload", "paper.pdf.part"):
            self.put(name, "x")
        self.put("empty.txt", "")
        self.put("white.txt", " \n\t")
        self.put("broken.pdf", b"%PDF-1.4 and nothing else")
        self.put("scan.pdf", make_pdf([[], []]))
        with open(os.path.join(self.docs, "large.txt"), "wb") as file:
            file.truncate((1 << 30) + 1)
        self.put("sub/inner.txt", "An inner text.")
        reasons = {
            ".hidden.txt": "hidden", ".git": "hidden", "draft.txt~": "editor",
            "#draft.txt#": "editor", "~$letter.docx": "editor", "empty.txt": "empty",
            "paper.pdf.crdownload": "unfinished", "paper.pdf.part": "unfinished",
            "white.txt": "only white space", "broken.pdf": "damaged", "scan.pdf": "no text",
            "large.txt": "1 GiB"}
        if not IS_WINE:  # which shows links as the files that they lead to
            os.mkfifo(os.path.join(self.docs, "pipe"))
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(os.path.join(self.docs, "socket"))
            for name, to in (("out", "/etc/passwd"), ("sub/up", ".."), ("again", "sub"),
                             ("itself", "itself"), ("nowhere", "no-such-file"), ("same", "good.txt"),
                             ("outside", self.folder.name)):
                os.symlink(to, os.path.join(self.docs, name))
            reasons.update({
                "pipe": "no file", "socket": "no file",
                "out": "out of the folder", "outside": "out of the folder",
                "sub/up": "back to a folder", "again": "read itself", "itself": "back to itself",
                "nowhere": "not there", "same": 'good.txt"'})
        rows, sums, err = self.lines(self.docs)
        self.assertEqual(err, "")
        skipped = {os.path.relpath(row["file"], self.docs): row["reason"] for row in rows
                   if row["result"] == "skipped"}
        self.assertEqual(set(skipped), set(reasons))
        for name, reason in reasons.items():
            self.assertIn(reason, skipped[name], name)
        self.assertEqual(sums["indexed"], 2)
        self.assertEqual(set(self.names()), {"good.txt", "sub/inner.txt"})

    @unittest.skipIf(shutil.which("tesseract"), "Tesseract is installed")
    def test_scans_are_skipped_where_tesseract_is_missing(self):
        self.put("a.pdf", make_pdf([[], []]))
        self.put("b.pdf", make_pdf([["A page with text."], []]))
        self.put("c.txt", "A good text.")
        rows, sums, _ = self.lines("--ocr", self.docs)
        self.assertEqual(self.results(rows), {"a.pdf": "skipped", "b.pdf": "indexed",
                                              "c.txt": "indexed"})
        for row in rows[:2]:
            self.assertIn("(tesseract-ocr)" if IS_WINE else "apt install tesseract-ocr", row["reason"])
        self.assertEqual((sums["indexed"], sums["skipped"]), (2, 1))

    @unittest.skipIf(IS_WINE, "Wine shows links as the files that they lead to")
    def test_links_inside_the_folder_are_followed_where_nothing_else_leads(self):
        self.put("..data/real.txt", "The text behind links.")  # as Kubernetes mounts its files
        os.symlink("..data/real.txt", os.path.join(self.docs, "real.txt"))
        os.symlink("..data", os.path.join(self.docs, "folder"))
        rows, _, _ = self.lines(self.docs)
        self.assertEqual([row["result"] for row in rows].count("indexed"), 1)

    def test_the_store_is_no_document(self):
        self.put("a.txt", "A text beside the store.")
        self.at = ("--store", os.path.join(self.docs, "store"))
        for expected in ("indexed", "unchanged"):
            rows, _, _ = self.lines(self.docs)
            seen = self.results(rows)
            self.assertEqual(seen.pop("a.txt"), expected)
            self.assertEqual(seen, {} if expected == "indexed" else {"store": "skipped"})

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_folder_that_cannot_be_read_is_named(self):
        self.put("a.txt", "A text.")
        self.put("secret/b.txt", "Another text.")
        os.chmod(os.path.join(self.docs, "secret"), 0)
        rows, _, _ = self.lines(self.docs)
        self.assertEqual(self.results(rows), {"a.txt": "indexed", "secret": "skipped"})
        self.assertIn("denied", rows[0]["reason"])

    def test_a_folder_without_documents(self):
        out, err = self.check(3, "index-document", *self.at, "--progress", "none", self.docs)
        self.assertRegex(out, "^0 files, in ")
        self.assertIn("no document to index", err)
        rows, sums, err = self.lines(self.docs, status=3)
        self.assertEqual((rows, sums["files"]), ([], 0))
        self.assertEqual(json.loads(err)["error"]["code"], "not_found")

    def test_too_many_files_are_refused_before_any_work(self):
        for number in range(100001):
            os.mknod(os.path.join(self.docs, str(number)))
        self.check_error(1, "more than 100,000 files.*name a part", "index-document", *self.at,
                         "--progress", "none", self.docs)
        self.assertFalse(os.path.exists(self.at[1]))
        shutil.rmtree(self.docs)

    @unittest.skipIf(IS_WINE, "names of Windows are Unicode")
    def test_a_name_that_is_no_utf8(self):
        name = os.fsencode(self.docs) + b"/b\xe9.txt"
        with open(name, "wb") as file:
            file.write(b"A text with an old name.")
        [row], _, _ = self.lines(self.docs)
        self.assertEqual((row["result"], row["name"]), ("indexed", "b\ufffd.txt"))


class NameTest(FolderTest):
    def test_the_path_within_the_folder_tells_equal_names_apart(self):
        for name in ("2024/invoice.txt", "2025/invoice.txt", "invoice.txt"):
            self.put(name, f"The invoice {name} is paid.")
        rows, _, _ = self.lines(self.docs)
        self.assertEqual([row["name"] for row in rows],
                         ["2024/invoice.txt", "2025/invoice.txt", "invoice.txt"])
        for asked in ("2025/invoice.txt", os.path.join(self.docs, "2025/invoice.txt")):
            out, _ = self.check(0, "ask-document", *self.at, "--json", "--max-tokens", "1",
                                "--document", asked, "Is it paid?")
            self.assertEqual(json.loads(out)["document"], rows[1]["document"])
        again, _, _ = self.lines(os.path.join(self.docs, "2025"))
        self.assertEqual([(row["name"], row["result"]) for row in again],
                         [("2025/invoice.txt", "unchanged")])

    def test_two_folders_with_equal_files(self):
        for folder in ("old", "new"):
            self.put(f"{folder}/readme.md", f"The {folder} readme.")
            self.put(f"{folder}/sub/readme.md", f"The {folder} readme below.")
        rows, _, _ = self.lines(*(os.path.join(self.docs, f) for f in ("old", "new")))
        self.assertEqual([row["name"] for row in rows],
                         ["readme.md", "sub/readme.md", "new/readme.md", "new/sub/readme.md"])
        self.assertEqual({row["result"] for row in rows}, {"indexed"})
        for _ in range(2):
            again, _, _ = self.lines(*(os.path.join(self.docs, f) for f in ("old", "new")))
            self.assertEqual([row["name"] for row in again], [row["name"] for row in rows])
            self.assertEqual({row["result"] for row in again}, {"unchanged"})

    def test_a_document_keeps_the_name_that_it_has(self):
        path = self.put("sub/lease.txt", "The lease of flat 7.")
        self.check(0, "index-document", *self.at, "--progress", "none", path)
        [row], _, _ = self.lines(self.docs)
        self.assertEqual((row["name"], row["result"]), ("lease.txt", "unchanged"))
        self.put("sub/lease.txt", "The lease of flat 8.")
        [row], _, _ = self.lines(self.docs)
        self.assertEqual((row["name"], row["result"]), ("lease.txt", "renewed"))
        self.assertEqual(set(self.names()), {"lease.txt"})


class ArgumentsTest(FolderTest):
    def test_patterns_find_the_files_that_pythons_glob_finds(self):
        for name in ("a.md", "b.txt", "sub/a.md", "sub/deep/a.md", "sub/deep/x1.txt", "x2.txt",
                     "sub/x3.md", "y/x4/z.md", "sub/.hid/a.md", ".a.md"):
            self.put(name, f"The text of {name}.")
        for pattern in ("*.md", "**/*.md", "sub/**/*.md", "*/*.md", "**/x?.txt", "**/x[13].*",
                        "**/deep/*", "?.md", "**/x*/*", "s*/d*/a.md", "**/.a.md"):
            wanted = [p for p in glob.glob(os.path.join(self.docs, pattern), recursive=True)
                      if os.path.isfile(p)]
            self.assertTrue(wanted, pattern)
            rows, _, _ = self.lines(os.path.join(self.docs, pattern))
            self.assertEqual(sorted(row["file"] for row in rows), sorted(wanted), pattern)
        rows, _, _ = self.lines("**/*.{md,t{x,e}t}", cwd=self.docs)
        self.assertEqual(len(rows), 8)
        self.assertEqual(rows[0]["file"], "a.md")
        # A folder that fits is read whole, as if the shell had named it.
        rows, _, _ = self.lines("s*", cwd=self.docs)
        self.assertEqual({row["file"] for row in rows},
                         {"sub/a.md", "sub/deep/a.md", "sub/deep/x1.txt", "sub/x3.md", "sub/.hid"})

    def test_a_file_whose_name_looks_like_a_pattern_is_itself(self):
        self.put("a[1].txt", "The text in brackets.")
        self.put("a1.txt", "The other text.")
        out, _ = self.check(0, "index-document", *self.at, "--json", "--progress", "none",
                            os.path.join(self.docs, "a[1].txt"))
        self.assertEqual(json.loads(out)["name"], "a[1].txt")  # one object, as of any single file

    def test_several_files_keep_their_order_and_each_comes_once(self):
        b, a = self.put("b.txt", "The text b."), self.put("a.txt", "The text a.")
        hidden = self.put(".named", "A hidden file that was named.")
        rows, _, _ = self.lines(b, a, hidden, self.docs, b)
        self.assertEqual([os.path.basename(row["file"]) for row in rows],
                         ["b.txt", "a.txt", ".named"])

    def test_wrong_usage(self):
        file = self.put("a.txt", "The text a.")
        for args in (("--name", "x", self.docs), ("--name", "x", file, file),
                     ("--name", "x", os.path.join(self.docs, "*")), ("-", file), (file, "-"),
                     ("--watch", "-"), ("--watch", "--estimate", self.docs)):
            self.check_error(2, "--help", "index-document", *self.at, *args)
        self.assertFalse(os.path.exists(self.at[1]))

    def test_estimates_are_the_sums_of_the_files(self):
        texts = {"1.txt": make_text(3000), "2.txt": make_text(9000), "3.txt": ""}
        alone = []
        for name, text in texts.items():
            path = self.put(name, text)
            if text:
                out, _ = self.check(0, "index-document", *self.at, "--estimate", "--json", path)
                alone.append(json.loads(out))
        rows, sums, _ = self.lines("--estimate", self.docs)
        self.assertEqual([row["result"] for row in rows], ["estimated", "estimated", "skipped"])
        for key in ("tokens", "bytes_on_disk", "anonymous_bytes"):
            self.assertEqual([row[key] for row in rows[:2]], [one[key] for one in alone], key)
        self.assertEqual(sums["tokens"], sum(one["tokens"] for one in alone))
        self.assertEqual(set(sums["estimate"]), set(alone[0]))
        for key in ("tokens", "bytes_on_disk", "flops"):
            self.assertEqual(sums["estimate"][key], sum(one[key] for one in alone), key)
        self.assertEqual(sums["estimate"]["anonymous_bytes"],
                         max(one["anonymous_bytes"] for one in alone))
        self.assertEqual(sums["new_bytes_on_disk"], sum(one["bytes_on_disk"] for one in alone))
        out, _ = self.check(0, "index-document", *self.at, "--progress", "none", "--estimate",
                            self.docs)
        self.assertRegex(out, rf"\n{sums['tokens']:,} tokens, about .*\ndisk: .*\nmemory: .*\n$")
        self.assertFalse(os.path.exists(os.path.join(self.at[1], "catalog.db")))

    def test_long_work_is_asked_about_once(self):
        # Each file is below the limit of the question; all together are above it.
        path = self.put("0.txt", make_text(300000))
        out, _ = self.check(0, "index-document", *self.at, "--estimate", "--json", path)
        seconds = json.loads(out)["seconds"]
        count = int(2 * 600 / seconds) + 2
        for number in range(1, count):
            shutil.copy(path, os.path.join(self.docs, f"{number}.txt"))
        process, terminal = self.on_terminal("index-document", *self.at, "--progress", "none",
                                             self.docs)
        asked = self.read_until(terminal, rb"\[y/N\] ")
        self.assertIn(b"Index %d files now?" % count, asked)
        os.write(terminal, b"n\n")
        self.assertEqual(process.wait(TIMEOUT), 1)
        self.assertFalse(os.path.exists(os.path.join(self.at[1], "catalog.db")))


    @unittest.skipIf(IS_WINE, "Windows has no pipes among its files")
    def test_pipes_are_read_once(self):
        # As of a shell's <(…). The costs, for the question before long work, would read them, too.
        pipes = [os.path.join(self.docs, name) for name in ("first", "second")]
        writers = []
        for pipe in pipes:
            os.mkfifo(pipe)
            writers.append(threading.Thread(target=lambda path: pathlib.Path(path).write_text(
                f"A text from {path}."), args=(pipe,), daemon=True))
            writers[-1].start()
        process, terminal = self.on_terminal("index-document", *self.at, "--progress", "none",
                                             *pipes)
        self.read_until(terminal, rb"2 files: 2 indexed")
        self.assertEqual(process.wait(TIMEOUT), 0)

    def test_an_encoding_that_nobody_knows_ends_the_run(self):
        for number in range(3):
            self.put(f"{number}.txt", f"The text {number}.")
        rows, sums, _ = self.lines("--encoding", "klingon", self.docs, status=2)
        self.assertEqual(([row["result"] for row in rows], sums["left"]), (["failed"], 2))


class FailureTest(FolderTest):
    @unittest.skipIf(IS_WINE, "pdftotext.exe lies beside the tools")
    def test_one_file_that_fails_does_not_stop_the_others(self):
        first, last = self.put("1.txt", "The first text."), self.put("4.txt", "The last text.")
        pdf = self.put("2.pdf", make_pdf([["A text in a PDF."]]))
        rows, sums, err = self.lines(first, pdf, self.path("missing.txt"), self.path("no*.txt"),
                                     last, status=3, env={"PATH": "/nowhere"})
        results = {os.path.basename(row["file"]): row for row in rows}
        self.assertEqual({name: row["result"] for name, row in results.items()},
                         {"1.txt": "indexed", "2.pdf": "failed", "missing.txt": "failed",
                          "no*.txt": "failed", "4.txt": "indexed"})
        self.assertEqual(results["2.pdf"]["error"]["param"], "pdftotext")
        self.assertIn("no file fits it", results["no*.txt"]["reason"])
        self.assertEqual((sums["left"], err), (0, ""))

    def test_a_text_that_needs_too_much_memory_does_not_stop_the_others(self):
        self.put("1.txt", "The first text.")
        self.put("2.txt", make_text(300000))
        self.put("3.txt", "The last text.")
        rows, _, _ = self.lines("--max-ram", "40MB", self.docs, status=5)
        self.assertEqual(self.results(rows),
                         {"1.txt": "indexed", "2.txt": "failed", "3.txt": "indexed"})
        self.assertIn("--max-ram", rows[1]["reason"])

    def check_stops(self, status, code, left, *args, **options):
        rows, sums, err = self.lines(*args, self.docs, status=status, **options)
        self.assertEqual(json.loads(err)["error"]["code"], code)
        self.assertEqual(sums["left"], left)
        return [row["result"] for row in rows]

    def test_what_every_file_would_meet_stops_the_run(self):
        for number in range(4):
            self.put(f"{number}.txt", f"The text {number} of four.")
        self.assertEqual(self.check_stops(3, "not_found", 3, "--model", "/no-such-model"),
                         ["failed"])
        first, _, _ = self.lines(os.path.join(self.docs, "0.txt"), os.path.join(self.docs, "0.txt"))
        used = sum(os.path.getsize(os.path.join(folder, name))
                   for folder, _, names in os.walk(self.at[1]) for name in names)
        quota = str(int(used + 1.5 * first[0]["bytes_on_disk"]))
        self.assertEqual(self.check_stops(5, "no_space", 1, "--quota", quota),
                         ["unchanged", "indexed", "failed"])
        with open(os.path.join(self.at[1], "writer.lock"), "r+b") as held:
            lock(held)
            self.assertEqual(self.check_stops(1, "locked", 1),
                             ["unchanged", "unchanged", "failed"])
        self.check(0, "lectern-store", *self.at, "seal")
        self.assertEqual(self.check_stops(1, "read_only", 1), ["unchanged", "unchanged", "failed"])

    def test_ctrl_c_in_the_middle_and_on_again(self):
        self.put("1.txt", "The first text.")
        self.put("2.txt", make_text(20000))
        self.put("3.txt", "The last text.")
        process = self.popen("index-document", *self.at, "--json", "--progress", "json", self.docs)
        self.read_until(process.stderr, rb'"prefill","done":[1-9][^\n]*2.txt","file_number":2,')
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130, err)
        *rows, last = [json.loads(line) for line in out.splitlines()]
        self.check_sums(rows, last["summary"])
        self.assertEqual(self.results(rows), {"1.txt": "indexed", "2.txt": "interrupted"})
        self.assertEqual(last["summary"]["left"], 1)
        self.assertIn(b"the same command continues", err)
        rows, _, _ = self.lines(self.docs)
        self.assertEqual(self.results(rows),
                         {"1.txt": "unchanged", "2.txt": "indexed", "3.txt": "indexed"})
        self.check(0, "lectern-store", *self.at, "verify", "--full")

    @unittest.skipIf(IS_WINE, "Windows has no /dev/full")
    def test_output_that_cannot_be_written_ends_the_run(self):
        for number in range(3):
            self.put(f"{number}.txt", f"The text {number}.")
        with open("/dev/full", "wb") as full:
            _, err = self.check(5, "index-document", *self.at, "--json", "--progress", "none",
                                self.docs, stdout=full)
        self.assertIn("No space left", err)
        self.assertEqual(len(self.names()), 1)


class ProgressTest(FolderTest):
    def test_the_place_among_the_files_is_shown(self):
        self.put("1.txt", "The first text.")
        self.put("sub/2.txt", make_text(9000))
        fields = {"stage", "done", "total", "tokens_per_second", "eta_seconds", "file",
                  "file_number", "files", "all_eta_seconds"}
        _, err = self.check(0, "index-document", *self.at, "--json", "--progress", "json",
                            self.docs)
        lines = [json.loads(line) for line in err.splitlines()]
        self.assertTrue(all(set(line) == fields for line in lines))
        self.assertEqual([line["file_number"] for line in lines],
                         sorted(line["file_number"] for line in lines))
        self.assertEqual({(line["file_number"], os.path.relpath(line["file"], self.docs))
                          for line in lines}, {(1, "1.txt"), (2, "sub/2.txt")})
        known = [line for line in lines if line["all_eta_seconds"] is not None]
        self.assertTrue(known)
        for line in known:
            self.assertGreaterEqual(line["all_eta_seconds"], line["eta_seconds"])
        _, err = self.check(0, "index-document", *self.at, "--json", "--again", "--progress",
                            "plain", self.docs)
        for number, name in ((1, "1.txt"), (2, "sub/2.txt")):
            self.assertRegex(err, rf"(?m)^{number} of 2  {self.docs}/{name}  ")
        process, terminal = self.on_terminal("index-document", *self.at, "--again", "--yes",
                                             self.docs, env={"TERM": "xterm"})
        self.read_until(terminal, r"2 of 2  [^\r]*sub/2.txt  prefill +\[".encode())
        self.read_until(terminal, rb"in [0-9].*\n[^\n]*next: ")
        self.assertEqual(process.wait(TIMEOUT), 0)


class WatchTest(FolderTest):
    def watch(self, *prefix, more=()):
        """Starts --watch on the folder; the process, once its first pass is over."""
        command = [os.path.join(BIN, "index-document"), *self.at, "--json", "--progress", "none",
                   "--watch", *more, self.docs]
        process = subprocess.Popen([*prefix, *command], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment(),
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.buffer = b""
        row = self.next_row(process)
        self.first = []
        while "summary" not in row:
            self.first.append(row)
            row = self.next_row(process)
        return process

    def next_row(self, process, seconds=60):
        """The next line of JSON; None after so many seconds without one."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([process.stdout], [], [], deadline - time.monotonic()
                                        if deadline > time.monotonic() else 0)
            if not ready:
                return None
            piece = os.read(process.stdout.fileno(), 65536)
            self.assertTrue(piece, "ended")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def check_next(self, process, result, name):
        row = self.next_row(process)
        self.assertIsNotNone(row, f"no line for {name}")
        self.assertEqual((row["result"], os.path.relpath(row["file"], self.docs)), (result, name))
        return row

    def check_changes(self, process):
        self.assertEqual(self.results(self.first), {"a.txt": "indexed"})
        # Written in place.
        path = self.put("a.txt", "The text a, written in place.")
        self.check_next(process, "renewed", "a.txt")
        # As vim saves: the old file becomes a backup, which goes when the new one is there.
        os.rename(path, path + "~")
        self.put("a.txt", "The text a, saved by vim.")
        os.remove(path + "~")
        self.check_next(process, "renewed", "a.txt")
        # As many editors save: a new file is renamed over the old one.
        os.rename(self.put(".a.txt.tmp", "The text a, saved by renaming."), path)
        renewed = self.check_next(process, "renewed", "a.txt")
        # A new folder with a folder in it, made at once.
        self.put("new/deep/b.txt", "The text b in a new folder.")
        self.check_next(process, "indexed", "new/deep/b.txt")
        self.put("new/deep/b.txt", "The text b in a new folder, changed.")
        self.check_next(process, "renewed", "new/deep/b.txt")
        os.remove(path)
        gone = self.check_next(process, "deleted", "a.txt")
        self.assertIn("stays", gone["reason"])
        self.assertEqual(self.names()["a.txt"], renewed["document"])
        # A file that comes back as it was is that document.
        self.put("a.txt", "The text a, saved by renaming.")
        self.check_next(process, "unchanged", "a.txt")

    def end(self, process, number=signal.SIGINT, status=130):
        process.send_signal(number)
        row = self.next_row(process)
        self.assertIn("summary", row)
        self.assertEqual(process.wait(TIMEOUT), status)
        return row["summary"], process.stderr.read().decode()

    def test_changes_are_indexed_until_ctrl_c(self):
        self.put("a.txt", "The text a.")
        process = self.watch()
        self.check_changes(process)
        sums, err = self.end(process)
        self.assertEqual((sums["renewed"], sums["deleted"], sums["files"]), (4, 1, 2))
        if IS_WINE:
            self.assertRegex(err, "^[^\n]*changes are looked for every few seconds\n$")
        else:
            self.assertEqual(err, "")

    def test_many_writes_are_one_change(self):
        self.put("a.txt", "The text a.")
        process = self.watch()
        for number in range(6):
            self.put("a.txt", f"The text a is written for the {number}th time.")
            time.sleep(0.2)
        row = self.check_next(process, "renewed", "a.txt")
        self.assertIsNone(self.next_row(process, 3))
        out, _ = self.check(0, "index-document", *self.at, "--json", "--progress", "none",
                            os.path.join(self.docs, "a.txt"))
        self.assertEqual(json.loads(out)["document"], row["document"])  # of the last writing
        self.end(process, *(() if IS_WINE else (signal.SIGTERM, 143)))

    def test_one_file_is_watched_under_its_name(self):
        path = self.put("a.txt", "The text a.")
        self.docs, folder = path, self.docs
        process = self.watch(more=("--name", "lease"))
        self.docs = folder
        self.put("b.txt", "Another file.")
        self.put("a.txt", "The text a, changed.")
        self.assertEqual(self.check_next(process, "renewed", "a.txt")["name"], "lease")
        self.end(process)
        self.assertEqual(set(self.names()), {"lease"})

    @unittest.skipIf(IS_WINE, "Wine shows links as the files that they lead to")
    def test_what_links_lead_to_is_watched(self):
        self.put(".data/b.txt", "The text b.")
        os.symlink(".data/b.txt", os.path.join(self.docs, "a.txt"))
        process = self.watch()
        self.put(".data/b.txt", "The text b, changed.")
        self.check_next(process, "renewed", "a.txt")
        self.end(process)

    @unittest.skipIf(IS_WINE, "Wine shows links as the files that they lead to")
    def test_a_file_and_a_folder_that_are_links_are_watched(self):
        for name in ("v1/a.txt", "v2/a.txt", "elsewhere/b.txt"):
            self.put(name, f"The text {name}.")
        links = self.docs + ".links"  # nothing else changes there
        os.mkdir(links)
        folder, file = os.path.join(links, "folder"), os.path.join(links, "file.txt")
        os.symlink(os.path.join(self.docs, "v1"), folder)
        os.symlink(os.path.join(self.docs, "elsewhere/b.txt"), file)
        with self.subTest("file"):
            docs, self.docs = self.docs, file
            process = self.watch()
            self.docs = docs
            self.put("elsewhere/b.txt", "The text b, changed.")
            row = self.next_row(process)
            self.assertEqual((row["file"], row["result"]), (file, "renewed"))
            self.end(process)
        with self.subTest("folder"):
            docs, self.docs = self.docs, folder
            process = self.watch()
            self.docs = docs
            # As a new version is put in place: a link is renamed over the old one.
            os.symlink(os.path.join(self.docs, "v2"), folder + ".new")
            os.rename(folder + ".new", folder)
            row = self.next_row(process)
            self.assertEqual((row["file"], row["source"]),
                             (os.path.join(folder, "a.txt"), os.path.join(self.docs, "v2/a.txt")))
            self.end(process)

    def test_people_are_told_a_files_new_name(self):
        path = self.put("a.txt", "The text a.")
        process = self.popen("index-document", *self.at, "--progress", "none", "--watch", self.docs)
        self.read_until(process.stderr, b"watching 1 folder")
        os.rename(path, os.path.join(self.docs, "b.txt"))
        self.read_until(process.stdout, rb'unchanged [^\n]*/b.txt: the same text as "a.txt"')
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130)

    def test_an_empty_folder_is_waited_for(self):
        process = self.watch()
        self.put("a.txt", "The first text.")
        self.check_next(process, "indexed", "a.txt")
        self.end(process)

    def test_a_store_that_another_program_writes_is_waited_for(self):
        self.put("a.txt", "The text a.")
        process = self.watch()
        with open(os.path.join(self.at[1], "writer.lock"), "r+b") as held:
            lock(held)
            self.put("a.txt", "The text a, changed.")
            self.assertIsNone(self.next_row(process, 6))
        self.check_next(process, "renewed", "a.txt")
        _, err = self.end(process)
        self.assertEqual(err.count("trying again"), 1)

    @unittest.skipIf(IS_WINE, "the tool for Windows does without it")
    def test_without_inotify_changes_are_looked_for(self):
        # A user namespace of its own, whose limit of inotify instances or watches is 0.
        for limit in ("max_inotify_instances", "max_inotify_watches"):
            with self.subTest(limit):
                prefix = ("unshare", "-Ur", "sh", "-c",
                          f'echo 0 > /proc/sys/user/{limit} && exec "$@"', "sh")
                if subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL,
                                  check=False).returncode != 0:
                    self.skipTest("no user namespaces here")
                shutil.rmtree(self.docs)
                self.at = ("--store", f"{self.docs}.{limit}")
                self.put("a.txt", "The text a.")
                process = self.watch(*prefix)
                self.check_changes(process)
                _, err = self.end(process)
                self.assertEqual(err.count("looked for every few seconds"), 1, err)


if __name__ == "__main__":
    if not os.access(os.path.join(BIN, "index-document"), os.X_OK):
        sys.exit("LECTERN_BIN does not name the folder of the built tools")
    unittest.main()
