#!/usr/bin/env python3
"""The tools as their users run them: flags, exit codes, JSON, prompt loop, signals, bad inputs.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with; else the bundled reader of the tools
Standard library only.
"""

import glob
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from make_pdf import make_pdf

BIN = os.environ.get("LECTERN_BIN", "")
MODEL = os.environ.get("LECTERN_TEST_MODEL", "")
TIMEOUT = 300
IS_WINE = "LECTERN_WINE" in os.environ  # the tools are Windows programs (tests/packaging/windows_test.py)

SENTENCES = ("The tenant of flat {n} pays {m} euro on the first of the month. "
             "The owner repairs the roof before the winter of year {m}. ")


def make_text(num_bytes):
    text = "Änderungen für 3 € und ein 🏠.\n"
    n = 0
    while len(text) < num_bytes:
        n += 1
        text += SENTENCES.format(n=n, m=100 + 7 * n % 900)
    return text


def told(path):
    """An absolute path as the tools write it: Wine shows the machine's files as drive Z."""
    return "Z:" + path if IS_WINE else path


def reset_signals():
    """A background shell ignores SIGINT and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


class ToolsTest(unittest.TestCase):
    TEXT_BYTES = 3000  # fast to index; 9000 are clustered

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lectern-tools-")
        cls.store = os.path.join(cls.folder.name, "store")
        cls.text = make_text(cls.TEXT_BYTES)
        cls.lease = cls.write("lease.txt", cls.text)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def write(cls, name, text):
        with open(cls.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return cls.path(name)

    @classmethod
    def environment(cls, **more):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("LECTERN_", "XDG_")) or k == "LECTERN_BACKEND"}
        env.update(HOME=cls.folder.name, LECTERN_STORE=cls.store, TERM="dumb")
        if MODEL:
            env["LECTERN_MODEL"] = MODEL
        if IS_WINE:  # which would make a new one in HOME, and say so
            env.setdefault("WINEPREFIX", os.path.expanduser("~/.wine"))
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    @classmethod
    def popen(cls, tool, *args, env=None, **options):
        options.setdefault("stdin", subprocess.PIPE)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([os.path.join(BIN, tool), *args], preexec_fn=reset_signals,
                                env=cls.environment(**(env or {})), **options)

    @classmethod
    def run_tool(cls, tool, *args, stdin=b"", **options):
        process = cls.popen(tool, *args, **options)
        out, err = process.communicate(stdin, timeout=TIMEOUT)
        return process.returncode, (out or b"").decode(), (err or b"").decode()

    def check(self, status, tool, *args, **options):
        """Runs a tool that has to end with `status`; returns stdout and stderr."""
        got, out, err = self.run_tool(tool, *args, **options)
        self.assertEqual(got, status, f"{tool} {args}\nstdout: {out}\nstderr: {err}")
        return out, err

    def check_error(self, status, expected, tool, *args, **options):
        """A failure: nothing on stdout, one line on stderr that begins with the tool's name."""
        out, err = self.check(status, tool, *args, **options)
        self.assertEqual(out, "")
        self.assertTrue(err.startswith(tool + ": "), err)
        self.assertRegex(err, expected)
        self.assertEqual(err.count("\n"), 1, err)

    def read_until(self, stream, expected):
        """Reads bytes from a pipe until the pattern is there."""
        seen = b""
        deadline = time.monotonic() + TIMEOUT
        while not re.search(expected, seen):
            ready, _, _ = select.select([stream], [], [], max(0, deadline - time.monotonic()))
            self.assertTrue(ready, f"waiting for {expected}, got {seen}")
            try:
                piece = os.read(stream if isinstance(stream, int) else stream.fileno(), 4096)
            except OSError:  # the other end of a pty is gone
                piece = b""
            self.assertTrue(piece, f"ended before {expected}: {seen}")
            seen += piece
        return seen

    def on_terminal(self, tool, *args, env=None):
        """Starts a tool on a terminal; returns the process and the other end."""
        if IS_WINE:
            self.skipTest("a terminal of POSIX is none for a Windows program")
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        process = self.popen(tool, *args, env=env, stdin=theirs, stdout=theirs, stderr=theirs,
                             start_new_session=True)
        os.close(theirs)
        return process, ours


class CommandLineTest(ToolsTest):
    TOOLS = ("index-document", "ask-document", "lectern-store")

    def test_help_goes_to_stdout_with_examples(self):
        for tool in self.TOOLS:
            out, err = self.check(0, tool, "--help")
            self.assertIn("Examples:", out)
            self.assertIn("--store", out)
            self.assertEqual(err, "")

    def test_version_is_one_line(self):
        for tool in self.TOOLS:
            out, _ = self.check(0, tool, "--version")
            self.assertRegex(out, rf"^{tool} \d+\.\d+\.\d+\n$")

    def test_usage_errors_exit_2(self):
        for args in ([], ["--no-such-flag", "x"], ["--kv-type", "f64", "x"],
                     ["--kv-budget", "0", "x"], ["--kv-budget", "1.01", "x"],
                     ["--kv-budget", "nan", "x"], ["--kv-budget", "0.1x", "x"],
                     ["--levels", "4", "x"], ["--levels", "0", "x"], ["--threads", "0", "x"],
                     ["--cluster-keys", "turned", "x"],
                     ["--threads", "-1", "x"], ["--progress", "loud", "x"], ["a", "-"]):
            self.check_error(2, "--help", "index-document", *args)
        for args in (["--exact", "--kv-budget", "0.1", "q"], ["--temperature", "11", "q"],
                     ["--temperature", "-1", "q"], ["--sample-top-p", "0", "q"],
                     ["--max-tokens", "0", "q"], ["--seed", "x", "q"], ["--seed", "-1", "q"],
                     ["--offset-unit", "bytes", "q"], ["two", "words"], ["--fallback", "dense", "q"],
                     ["--rule", "best", "q"], ["--rule", "top-p", "--mass", "1", "q"],
                     ["--questions", "f", "q"]):
            self.check_error(2, "--help", "ask-document", *args)
        for args in ([], ["vacuum"], ["gc", "x"], ["show"], ["list", "x"], ["list", "--full"], ["remove"]):
            self.check_error(2, "--help", "lectern-store", *args)

    def test_a_wrong_option_or_command_suggests_the_near_one(self):
        for tool, args, meant in (("index-document", ["--modell", "x", "f"], "--model"),
                                  ("index-document", ["--kv_budget=0.1", "f"], "--kv-budget"),
                                  ("index-document", ["--thread", "2", "f"], "--threads"),
                                  ("ask-document", ["--max-token", "2", "q"], "--max-tokens"),
                                  ("ask-document", ["--temp", "1", "q"], "--temperature"),
                                  ("ask-document", ["--doc", "d", "q"], "--document"),
                                  ("lectern-store", ["verfy"], "verify"),
                                  ("lectern-store", ["verify", "--ful"], "--full")):
            given = next(a for a in args if a.startswith("--") or "verfy" in a).split("=")[0]
            self.check_error(2, f"there is no (option|command) \"?{given}\"?; "
                             rf"did you mean {meant}\?", tool, *args)
        self.check_error(2, "there is no option --zzz \\(", "ask-document", "--zzz", "q")
        self.check_error(2, "\"words\" is one too many; .* quotes", "ask-document", "two", "words")

    @unittest.skipIf(IS_WINE, "there is no lectern-doctor on Windows")
    def test_help_is_in_sentences_that_name_things(self):
        for tool in (*self.TOOLS, "lectern-server", "lectern-doctor", "lectern-evaluate"):
            out, _ = self.check(0, tool, "--help")
            for line in out.splitlines():
                self.assertNotRegex(line, r"\(else |^ +-.*  (Of|What) ", tool)
            self.assertIn("default: ", out)

    def test_messages_of_the_library_and_the_api_name_no_flags(self):
        source = pathlib.Path(__file__).resolve().parents[2]
        for folder in ("engine", "index", "store", "kernels", "tools/server"):
            for path in sorted((source / folder).rglob("*")):
                if path.suffix in (".cc", ".h") and path.name not in (
                        "lectern_server.cc", "http_guard.cc"):  # which say it at the start
                    found = [text for line in path.read_text(encoding="utf-8").splitlines()
                             for text in re.findall(r'"(?:[^"\\]|\\.)*"', line.split(" // ")[0])
                             if re.search(r"(?<![\w-])--[a-z]", text)
                             and "--pre-tokenizer" not in text]  # of another program
                    self.assertEqual(found, [], path)

    def test_the_default_model_is_named_and_said_to_be_small(self):
        unset = {"LECTERN_MODEL": ""}
        store = ["--store", self.path("default")]
        for tool, args in (("index-document", ["--progress", "none", self.lease]),
                           ("ask-document", ["--max-tokens", "4", "Who repairs the roof?"])):
            _, err = self.check(0, tool, *store, *args, env=unset)
            self.assertRegex(err, r"bundled model, which is small \(3\.9 million parameters\)")
            out, err = self.check(0, tool, *store, "--json", *args, env=unset)
            self.assertNotIn("bundled", err)
        _, err = self.check(0, "ask-document", *store, "--max-tokens", "4", "Who repairs the roof?")
        self.assertNotIn("bundled", err)  # where it was chosen

    @unittest.skipIf(IS_WINE, "the script that fetches it needs bash")
    def test_the_released_reader_is_fetched_after_a_yes_alone(self):
        source = pathlib.Path(__file__).resolve().parents[2] / "tools/fetch.sh"
        name = re.search(r"^smollm2=(.*)$", source.read_text(encoding="utf-8"), re.M)[1]
        cache = self.path("cache")
        env = {"LECTERN_MODEL": "", "XDG_CACHE_HOME": cache, "PIP_NO_INDEX": "1",
               "PIP_FIND_LINKS": ""}
        store = ["--store", self.path("fetched")]
        index = [*store, "--progress", "none", self.lease]
        _, err = self.check(0, "index-document", *index, env=env)  # nobody was asked
        self.assertIn("with --yes it fetches", err)
        self.assertFalse(os.path.exists(cache))
        out, _ = self.check(0, "lectern-doctor", "--json", env=env)
        [reader] = [f for f in json.loads(out)["findings"] if f["name"] == "reader"]
        self.assertEqual((reader["verdict"], reader["values"]["bundled"]), ("warn", True))

        out, err = self.check(3, "index-document", "--yes", *index, env=env)
        self.assertEqual(out, "")
        self.assertRegex(err, "could not be fetched: .*--model PATH")
        self.assertEqual(glob.glob(cache + "/lectern/*.gguf"), [])

        # One that is there is taken: this file is no model, and the message names it.
        model = os.path.join(cache, "lectern", name)
        with open(model, "wb") as file:
            file.write(b"GGUF")
        _, err = self.check(6, "index-document", *index, env=env)
        self.assertIn(model, err)
        out, _ = self.check(0, "lectern-doctor", "--json", env=env)
        [reader] = [f for f in json.loads(out)["findings"] if f["name"] == "reader"]
        self.assertEqual((reader["verdict"], reader["values"]["model"]), ("ok", model))
        self.assertTrue(os.path.exists(reader["values"]["adapter"] + "/adapter_config.json"))

    def test_usage_errors_are_json_when_asked_for(self):
        out, err = self.check(2, "ask-document", "--json", "--temperature", "11", "q")
        self.assertEqual(out, "")
        error = json.loads(err)["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code", "request_id",
                                      "retryable"})
        self.assertEqual((error["code"], error["type"], error["retryable"]),
                         ("invalid_argument", "invalid_request_error", False))

    def test_environment_that_does_not_parse_is_named(self):
        for value in ("two", "0", "-1", "1.5", "99999999999999999999"):
            self.check_error(2, "LECTERN_THREADS", "lectern-store", "list",
                             env={"LECTERN_THREADS": value})
        for value in ("two", "0", "-1", "1 XB", "5 KiBs", "5  MB", "nan", "inf", "1e3", "99999PB"):
            self.check_error(2, "LECTERN_QUOTA.*not a size", "lectern-store", "list",
                             env={"LECTERN_QUOTA": value})
            self.check_error(2, "not a size", "lectern-store", "--quota=" + value, "list")
        for value in ("0", "1 XB"):
            self.check_error(2, "LECTERN_MAX_RAM.*not a size", "ask-document", "q",
                             env={"LECTERN_MAX_RAM": value})
            self.check_error(2, "not a size", "ask-document", "--max-ram=" + value, "q")
        for value in ("mapped", "PREAD"):
            self.check_error(2, "LECTERN_IO.*neither mmap nor pread", "ask-document", "q",
                             env={"LECTERN_IO": value})
            self.check_error(2, "--io", "ask-document", "--io", value, "q")
        self.check_error(2, "LECTERN_WEIGHTS.*none of stored, q8 and q4", "ask-document", "q",
                         env={"LECTERN_WEIGHTS": "int8"})
        self.check_error(2, "--weights", "index-document", "--weights", "q5", self.lease)
        for value in ("0", "1 XB"):
            self.check_error(2, "LECTERN_DEVICE_MEMORY.*not a size", "ask-document", "q",
                             env={"LECTERN_DEVICE_MEMORY": value})
            self.check_error(2, "not a size", "ask-document", "--device-memory=" + value, "q")
        for flags, env in ((("--device", "gpu"), {}), ((), {"LECTERN_DEVICE": "gpu"})):
            for tool in ("ask-document", "index-document"):
                self.check_error(2, "none of cpu, cuda, cuda:N and auto", tool, *flags, self.lease,
                                 env=env)

    def test_flag_beats_environment_beats_default(self):
        other = self.path("other")
        _, err = self.check(3, "lectern-store", "list")
        self.assertIn(self.store, err)
        _, err = self.check(3, "lectern-store", "--store", other, "list")
        self.assertIn(other, err)
        if IS_WINE:
            return  # which has a folder of its own for the user's data
        unset = {"LECTERN_STORE": None}
        _, err = self.check(3, "lectern-store", "list", env=unset)
        self.assertIn(self.path(".local/share/lectern"), err)
        _, err = self.check(3, "lectern-store", "list", env={**unset, "XDG_DATA_HOME": "/nowhere"})
        self.assertIn("/nowhere/lectern", err)
        self.check_error(2, "--store", "lectern-store", "list", env={**unset, "HOME": None})


class BadInputTest(ToolsTest):
    def index_error(self, status, expected, *args, **options):
        self.check_error(status, expected, "index-document", "--progress", "none", *args, **options)
        self.assertFalse(os.path.exists(os.path.join(self.store, "docs")))

    def test_files_that_cannot_be_read(self):
        self.index_error(3, "missing.txt", self.path("missing.txt"))
        self.index_error(3, "lease.txt", self.lease + "/x")
        self.index_error(2, "empty", self.write("empty.txt", ""))
        self.index_error(2, "empty", "-", stdin=b"")
        if os.geteuid() != 0:
            secret = self.write("secret.txt", "x")
            os.chmod(secret, 0)
            self.index_error(1, "secret.txt.*denied", secret)

    def test_each_kind_of_file_without_text_is_told(self):
        for status, says, path in [
                (3, "is not there", self.path("missing.txt")),
                *([] if IS_WINE else [(3, "is not there: a part of its path is a file", self.lease + "/")]),
                (2, "is empty", self.write("empty.txt", "")),
                (2, "only white space", self.write("white.txt", " \n\t\n"))]:
            with self.subTest(says):
                self.index_error(status, says, path)
                self.index_error(status, says, "--estimate", path)

    def test_a_file_of_more_than_one_gib(self):
        with open(self.path("large.txt"), "wb") as file:
            file.truncate((1 << 30) + 1)
        self.index_error(1, "1 GiB", self.path("large.txt"))

    def test_a_model_that_is_not_there(self):
        self.index_error(3, "no-such-model", "--model", "/no-such-model", self.lease)

    def test_a_name_with_control_characters_does_not_drive_the_terminal(self):
        process, terminal = self.on_terminal("index-document", "\x1b[31mred")
        self.assertIn(b"\\x1B[31mred", self.read_until(terminal, rb"red.*\n"))
        self.assertEqual(process.wait(TIMEOUT), 3)

    def test_a_control_character_behind_half_a_character_is_shown(self):
        for half in (b"\xe2", b"\xf0\x9f", b"\xc3"):
            name = os.fsdecode(half + b"\x1b[31mred")
            process, terminal = self.on_terminal("index-document", name)
            self.assertIn(b"\\x1B[31mred", self.read_until(terminal, rb"red.*\n"))
            self.assertEqual(process.wait(TIMEOUT), 3)


class FormatsTest(ToolsTest):
    PAGES = [["The report is about bridges & mills (and <towers>).", "It was written in Osk."],
             [],
             ["The Fethol bridge was designed by Mara Tolvin.", "", "It is 120 metres long."],
             ["The owner of the Lund mill is Ben Carrow. It costs 5 \u20ac."]]
    TEXT = ("The report is about bridges & mills (and <towers>). It was written in Osk.\n\n"
            "The Fethol bridge was designed by Mara Tolvin.\n\nIt is 120 metres long.\n\n"
            "The owner of the Lund mill is Ben Carrow. It costs 5 \u20ac.\n")

    def index(self, *args, **options):
        return json.loads(self.check(0, "index-document", "--json", "--progress", "none", *args,
                                     **options)[0])

    def ask(self, name, question):
        return json.loads(self.check(0, "ask-document", "--json", "--document", name, question)[0])

    def check_pages(self, name, *flags):
        """Each passage says its page, and is the text there."""
        text = self.TEXT.encode()
        for question, fact, page in (
                ("Who designed the Fethol bridge?", "The Fethol bridge was", 3),
                ("Who is the owner of the Lund mill?", "The owner of the Lund", 4)):
            answer = json.loads(self.check(0, "ask-document", "--json", *flags, "--document", name,
                                           question)[0])
            self.assertTrue(answer["evidence"], answer)
            for passage in answer["evidence"]:
                self.assertEqual(text[passage["begin"]:passage["end"]].decode(), passage["text"])
                self.assertIn(passage["page"], (1, 3, 4))
            self.assertTrue(answer["evidence"][0]["text"].startswith(fact), answer)
            self.assertEqual(answer["evidence"][0]["page"], page)

    def test_labels_and_the_outline_of_a_pdf(self):
        pages = [["Foreword", "", "The Fethol bridge was designed by Mara Tolvin."],
                 ["The Lund mill", "", "The owner of the Lund mill is Ben Carrow."]]
        path = self.write("book.pdf", make_pdf(pages, labels="0 << /S /r /St 7 >> 1 << /P (A-) /S /D >>",
                                               outline=[("Foreword", 1), ("1 The Lund mill", 2)]))
        self.index(path)
        cited = json.loads(self.check(0, "ask-document", "--json", "--document", "book.pdf", "--cite",
                                      "Mara Tolvin designed the Fethol bridge. "
                                      "Ben Carrow is the owner of the Lund mill.")[0])
        first, second = (sentence["evidence"][0] for sentence in cited["sentences"])
        self.assertEqual((first["page"], first["page_label"], first["heading"]),
                         (1, "vii", "Foreword"))
        self.assertEqual((second["page"], second["page_label"], second["heading"]),
                         (2, "A-1", "The Lund mill"))
        out, _ = self.check(0, "ask-document", "--document", "book.pdf", "--cite",
                            "Mara Tolvin designed the Fethol bridge.")
        self.assertIn(", p. vii (page 1): ", out)

    def test_a_sentence_over_a_page_break_says_both_pages(self):
        path = self.write("paged.txt", "Ann opened the mill.\n\nThe Fethol bridge, which every boat to Lund passes, was designed and"
                                       "\fmade by Mara Tolvin. It stands on the same two piers as the one before it.\n")
        self.index(path)
        out, _ = self.check(0, "ask-document", "--document", "paged.txt", "--cite",
                            "Mara Tolvin designed and made the Fethol bridge.")
        self.assertIn(", p. 1 to 2: \"The Fethol bridge, which every boat to Lund passes, "
                      "was designed and made by Mara Tolvin.\"", out)

    def test_ligatures_of_arabic_fonts_are_read_in_their_order(self):
        # Glyphs from the left: "A" is lam-alef in one, "l" a lam, "a" an alef, "s" a seen, "m" a meem.
        letters = {"A": "\u0644\u0627", "l": "\u0644", "a": "\u0627", "s": "\u0633", "m": "\u0645"}
        path = self.write("peace.pdf", make_pdf([["mAsla sla mla A"]], unicode=letters))
        self.index(path)
        cited = json.loads(self.check(0, "ask-document", "--json", "--document", "peace.pdf", "--cite",
                                      "\u0627\u0644\u0633\u0644\u0627\u0645")[0])
        self.assertEqual(cited["sentences"][0]["evidence"][0]["text"].split(),
                         ["\u0644\u0627", "\u0627\u0644\u0645", "\u0627\u0644\u0633",
                          "\u0627\u0644\u0633\u0644\u0627\u0645"])

    def test_a_pdf_is_asked_and_its_pages_are_told(self):
        path = self.write("report.pdf", make_pdf(self.PAGES))
        out, err = self.check(0, "index-document", "--progress", "none", path)
        self.assertIn("page 2 has no text", err)
        self.check_pages("report.pdf")
        out, _ = self.check(0, "ask-document", "--document", "report.pdf",
                            "Who designed the Fethol bridge?")
        self.assertRegex(out, r"\n\[1\] [\d.]+ % likely, bytes \d+-\d+, p\. 3: \"The Fethol bridge")
        # The same again does nothing; anew, as one file and without a catalog it has its pages.
        self.assertTrue(self.index(path)["existed"])
        self.index("--again", path)
        self.check_pages("report.pdf")
        bundle, other = self.path("report.lectern"), ("--store", self.path("other"))
        self.check(0, "lectern-store", "export", "report.pdf", bundle)
        self.check(0, "lectern-store", *other, "import", bundle)
        os.remove(os.path.join(self.path("other"), "catalog.db"))
        self.check(0, "lectern-store", *other, "recover")
        self.check_pages("report.pdf", *other)
        # From stdin, and its text alone: one document, that keeps the pages.
        with open(path, "rb") as file:
            self.assertTrue(self.index("--name", "report.pdf", "-", stdin=file.read())["existed"])
        self.assertTrue(self.index(self.write("report.txt", self.TEXT))["existed"])
        self.check_pages("report.txt")

    def test_office_files_and_their_pages(self):
        files = os.path.join(os.path.dirname(os.path.abspath(__file__)), "extract_files")
        _, err = self.check(0, "index-document", "--progress", "none",
                            os.path.join(files, "stock.xlsx"))
        self.assertIn("hidden sheets are left out: Secret", err)
        out, _ = self.check(0, "ask-document", "--document", "stock.xlsx", "Who is Bo Lund?")
        self.assertRegex(out, r"\n\[1\] [\d.]+ % likely, bytes \d+-\d+, p\. [12]: "
                              r"\"(Product|Dept): [^|]+ \|")
        self.check_error(2, r'"\S*lease.docx" is damaged', "index-document",
                         self.write("lease.docx", "no zip file"))

    def test_pdfs_that_cannot_be_read(self):
        def refused(status, expected, name, data, *flags, **options):
            self.check_error(status, expected, "index-document", "--progress", "none", *flags,
                             self.write(name, data), **options)
        whole = make_pdf(self.PAGES)
        refused(2, r'"\S*scan.pdf" has no text on its 2 pages.*ocrmypdf', "scan.pdf",
                make_pdf([[], []]))
        refused(2, "secret.pdf.*password", "secret.pdf", make_pdf(self.PAGES, encrypted=True))
        refused(2, "broken.pdf.*damaged", "broken.pdf", b"%PDF-1.4 and nothing else")
        refused(2, "text.pdf.*damaged", "text.pdf", "no PDF at all")
        if not IS_WINE:  # where pdftotext.exe lies beside the program
            refused(3, "apt install poppler-utils", "whole.pdf", whole, env={"PATH": "/nowhere"})
        refused(2, "format", "whole.pdf", whole, "--format", "wps")
        error = json.loads(self.check(2, "index-document", "--json", "--progress", "none", self.write(
            "scan.pdf", make_pdf([[]])))[1])["error"]
        self.assertEqual((error["code"], error["param"]), ("empty_document", "file"))
        self.assertFalse(any("report" in name for name in os.listdir(self.folder.name)
                             if name.startswith("store/")))

    def test_html_and_what_is_forced(self):
        page = ("<!doctype html><meta charset=latin1><nav>Home</nav><main><h1>Mills</h1>"
                "<p>The owner of the Lund mill is J\u00e9r\u00f4me Carrow.</main>").encode("latin-1")
        path = self.write("mills", page)
        report = self.index(path)
        text = "# Mills\n\nThe owner of the Lund mill is J\u00e9r\u00f4me Carrow.\n"
        self.assertEqual(self.index(self.write("mills.txt", text))["document"], report["document"])
        [passage, *_] = self.ask("mills.txt", "Who is the owner of the Lund mill?")["evidence"]
        self.assertIn("J\u00e9r\u00f4me", passage["text"])
        self.assertIsNone(passage["page"])
        raw = self.index("--format", "text", "--encoding", "utf-8", "--name", "raw", path)
        self.assertNotEqual(raw["document"], report["document"])
        self.assertGreater(raw["replaced_bytes"], 0)
        # Markdown stays as it is.
        markdown = "# Mills\n\n<b>One</b> stands in Osk.\n"
        self.assertEqual(self.index(self.write("mills.md", markdown))["document"],
                         self.index("--format", "text", self.path("mills.md"))["document"])


class IndexTest(ToolsTest):
    FIELDS = {"document", "name", "tokens", "parts", "replaced_bytes", "assumptions", "bytes_on_disk", "fingerprint",
              "weights", "adapter", "generation", "levels", "kv_budget", "kv_budget_auto", "divergence", "seconds", "existed", "keep", "retention",
              "representatives", "reused_tokens", "prefill", "prefill_budget", "device", "gpu",
              "warnings", "note", "source", "replaced", "file_note"}

    def index(self, *args, **options):
        out, err = self.check(0, "index-document", "--json", "--progress", "none", *args, **options)
        self.assertEqual(out.count("\n"), 1)
        return json.loads(out)

    def test_json_report_and_the_same_again(self):
        report = self.index(self.lease)
        self.assertEqual(set(report), self.FIELDS)
        self.assertRegex(report["document"], "^[0-9a-f]{32}$")
        self.assertRegex(report["fingerprint"], "^[0-9a-f]{64}$")
        self.assertEqual((report["name"], report["existed"]), ("lease.txt", False))
        self.assertEqual(set(report["seconds"]),
                         {"read", "prefill", "cluster", "calibrate", "write", "total"})
        self.assertTrue(all(set(level) == {"level", "centroids"} for level in report["levels"]))
        self.assertEqual((report["device"], report["gpu"], report["warnings"]), ("cpu", None, []))
        # The bundled reader has no chat template.
        self.assertIn("no chat template", report["note"])
        self.assertEqual(report["assumptions"], [report["note"]])
        again = self.index(self.lease)
        self.assertEqual((again["document"], again["existed"]), (report["document"], True))

    # Either there is a GPU, or the report says why not.
    def test_the_device_is_named(self):
        store = ("--store", self.path("elsewhere"))
        report = self.index(*store, "--device", "auto", "--device-memory", "1GB", self.lease)
        if report["device"] == "cpu":
            self.assertIn("cpu_fallback", report["warnings"])
            self.assertIn("indexed on the CPU: ", report["note"])
            _, err = self.check(0, "index-document", *store, "--again", "--progress", "none",
                                self.lease, env={"LECTERN_DEVICE": "auto"})
            self.assertIn("indexed on the CPU: ", err)
            self.check_error(2, "--device cpu", "index-document", "--device", "cuda", self.lease)
        else:
            self.assertEqual(report["device"], "cuda:0")
            self.assertTrue(report["gpu"])

    def test_a_part_of_a_document_is_kept(self):
        store = ("--store", self.path("kept"))
        text = self.write("long.txt", make_text(9000))
        for args, says in ((("--keep", "1.5"), "--keep"), (("--keep", "0"), "--keep"),
                           (("--keep", "0.01"), "smallest possible"),
                           (("--keep", "0.5", "--retention", "cone"), "kv-compress, pyramid"),
                           (("--representatives", "2"), "--representatives")):
            self.check_error(2, says, "index-document", *store, "--progress", "none", *args,
                             text)
        whole = self.index(*store, text)
        self.assertEqual((whole["keep"], whole["retention"]), (1, None))
        kept = self.index(*store, "--keep", "0.3", "--retention", "kvcrush", "--representatives",
                          "0.2", "--name", "part", text)
        self.assertEqual((kept["keep"], kept["retention"], kept["representatives"]),
                         (0.3, "kvcrush", 0.2))
        self.assertNotEqual(kept["document"], whole["document"])
        self.assertLess(kept["bytes_on_disk"], 0.6 * whole["bytes_on_disk"])
        out, _ = self.check(0, "lectern-store", *store, "list")
        self.assertIn("  part  (30 % of its rows, by kvcrush)\n", out)
        out, _ = self.check(0, "lectern-store", *store, "show", "part")
        self.assertIn("kept         30 % of its rows, by kvcrush\n", out)
        out, _ = self.check(0, "lectern-store", *store, "show", "long.txt")
        self.assertIn("kept         all rows\n", out)
        out, _ = self.check(0, "ask-document", *store, "--document", "part", "--exact", "--json",
                            "--max-tokens", "2", "Who pays?")
        answer = json.loads(out)
        self.assertEqual((answer["kv"]["keep"], answer["kv"]["retention"]), (0.3, "kvcrush"))
        self.assertAlmostEqual(answer["kv"]["read_fraction_prefill"], 0.3, delta=0.01)

    def test_a_sparse_prefill_is_another_document_and_says_so(self):
        store = ("--store", self.path("sparse"))
        self.check_error(2, "--prefill", "index-document", *store, "--prefill", "fast", self.lease)
        self.check_error(2, "--prefill-budget", "index-document", *store, "--prefill", "sparse",
                         "--prefill-budget", "1.5", self.lease)
        self.check_error(2, "stats", "index-document", *store, "--prefill", "sparse", "--stats",
                         "full", self.lease)
        short = self.index(*store, "--prefill", "sparse", self.lease)
        self.assertEqual((short["prefill"], short["prefill_budget"]), ("exact", 1))
        # The share that is read tells nothing here: tests/engine/indexing/sparse_prefill_test.cc.
        out, _ = self.check(0, "lectern-store", *store, "show", "lease.txt")
        self.assertIn("prefill      exact\n", out)

    def test_again_makes_a_new_generation(self):
        store = ("--store", self.path("again"))
        first = self.index(*store, "--name", "lease", self.lease)
        again = self.index(*store, "--again", "--name", "lease", self.lease)
        self.assertEqual((again["document"], again["existed"]), (first["document"], False))
        self.assertGreater(again["generation"], first["generation"])
        out, _ = self.check(0, "lectern-store", *store, "--json", "show", "lease")
        self.assertEqual(json.loads(out)["generation"], again["generation"])
        generations = os.listdir(os.path.join(store[1], "docs", first["document"]))
        self.assertEqual(generations, [str(again["generation"])])
        out, _ = self.check(0, "index-document", *store, "--estimate", "--json", "--again",
                            self.lease)
        self.assertFalse(json.loads(out)["existed"])
        # Another recipe is no reason to make it anew, until it is asked for.
        unrotated = ("--cluster-keys", "unrotated")
        self.assertTrue(self.index(*store, *unrotated, self.lease)["existed"])
        # From a pipe, which has no name: the document keeps its own.
        piped = self.index(*store, *unrotated, "--again", "-", stdin=self.text.encode())
        self.assertEqual((piped["document"], piped["name"]), (first["document"], "lease"))
        self.check(0, "lectern-store", *store, "verify", "--full", "lease")

    def test_what_exceeds_the_quota_is_refused_before_any_work(self):
        store = ("--store", self.path("quota"))
        note = self.write("note.txt", "A short note about a bridge.")
        held = self.index(*store, "--quota", "1.5GB", note)["bytes_on_disk"]
        used = sum(os.path.getsize(os.path.join(folder, name))
                   for folder, _, names in os.walk(store[1]) for name in names)
        self.assertGreaterEqual(used, held)
        for tool, env, args in (
                ("index-document", {}, ("--quota", "1MB", "--progress", "none", self.lease)),
                ("index-document", {"LECTERN_QUOTA": "1000kB"}, ("--progress", "none", self.lease)),
                ("lectern-store", {}, ("--quota", str(used + held - 1), "plan", "note.txt",
                                       "--kv-budget", "0.5"))):
            allowed = args[1] if tool == "lectern-store" else "1000000"
            self.check_error(5, rf"needs \d+ bytes beside the {used} that .*quota is {allowed} ",
                             tool, *store, *args, env=env)
        [document] = json.loads(self.check(0, "lectern-store", *store, "--json", "list")[0])[
            "documents"]
        self.assertEqual(document["name"], "note.txt")
        # Exactly enough for a second generation beside the first.
        self.check(0, "lectern-store", *store, "--quota", str(used + held), "plan", "note.txt",
                   "--kv-budget", "0.5")
        # A bundle needs what its file has.
        bundle = self.path("note.lectern")
        self.check(0, "lectern-store", *store, "export", "note.txt", bundle)
        other = ("--store", self.path("quota-import"))
        self.check_error(5, "quota is 50000 ", "lectern-store", *other, "--quota", "50kB", "import",
                         bundle)
        self.check(0, "lectern-store", *other, "--quota", "1GiB", "import", bundle)

    def test_what_needs_more_than_max_ram_is_refused_before_any_work(self):
        store = ("--store", self.path("max-ram"))
        self.check_error(5, r"--max-ram", "index-document", *store, "--max-ram", "9MB", "--progress",
                         "none", self.lease)
        self.assertEqual(os.listdir(os.path.join(store[1], "docs")), [])
        self.index(*store, "--max-ram", "40MB", "--io", "pread", self.lease)
        ask = ("ask-document", *store, "--json", "--max-tokens", "4", "What is in it?")
        _, err = self.check(5, *ask, env={"LECTERN_MAX_RAM": "9MB"})
        self.assertEqual(json.loads(err)["error"]["param"], "max_ram")
        answers = [json.loads(self.check(0, *ask, *flags)[0])
                   for flags in ((), ("--io", "pread"), ("--max-ram", "40MB", "--rehash"))]
        for answer in answers[1:]:
            for key in ("answer", "evidence", "kv"):
                self.assertEqual(answer[key], answers[0][key])

    def test_a_document_is_asked_with_the_weights_it_was_indexed_with(self):
        store = ("--store", self.path("weights"))
        report = self.index(*store, "--weights", "q4", self.lease)
        self.assertEqual(report["weights"], "q4")
        self.assertEqual(len(os.listdir(os.path.join(store[1], "weights"))), 1)
        ask = ("ask-document", *store, "--max-tokens", "4", "What is in it?")
        self.check(0, *ask)
        self.check(0, *ask, "--io", "pread", "--max-ram", "40MB")
        self.check_error(4, "weights q4.*weights stored", *ask, "--weights", "stored")
        shown = json.loads(self.check(0, "lectern-store", *store, "--json", "show", "lease.txt")[0])
        self.assertEqual((shown["weights"], shown["report"]["weights"]), ("q4", "q4"))
        out, _ = self.check(0, "lectern-store", *store, "show", "lease.txt")
        self.assertRegex(out, "model .*, weights q4")
        stored = self.index(*store, self.lease)
        self.assertNotEqual(stored["document"], report["document"])
        self.assertEqual(stored["weights"], "stored")

    def test_a_changed_text_takes_over_what_did_not_change(self):
        store = ("--store", self.path("edited"))
        self.index(*store, self.lease)
        name = os.path.join(self.path("newer"), "lease.txt")
        os.mkdir(os.path.dirname(name))
        with open(name, "w", encoding="utf-8") as file:
            file.write(self.text + "The end.")
        _, err = self.check(0, "index-document", *store, "--progress", "none", name)
        self.assertRegex(err, r"the first [\d,]+ tokens are as before")
        report = self.index(*store, "--again", name)
        self.assertEqual((report["existed"], report["reused_tokens"]), (False, 0))

    def test_an_interrupted_run_counts_once_against_the_quota(self):
        store = self.path("quota-resumed")
        text = self.write("long.txt", make_text(20000))
        out, _ = self.check(0, "index-document", "--store", store, "--estimate", "--json", text)
        quota = str(json.loads(out)["peak_bytes_on_disk"] + 200000)  # beside the catalog
        self.interrupt([signal.SIGINT], store)
        self.check_error(5, "quota", "index-document", "--store", store, "--quota", quota,
                         "--progress", "none", self.write("more.txt", make_text(20000) + "x"))
        self.check(0, "index-document", "--store", store, "--quota", quota, text)

    def test_names(self):
        self.assertEqual(self.index("--name", "other", self.lease)["name"], "other")
        self.assertIsNone(self.index("-", stdin=make_text(2000).encode())["name"])
        named = self.index("--name", "piped", "-", stdin=make_text(2100).encode())
        self.assertEqual(named["name"], "piped")

    def test_readable_report_says_what_to_do_next(self):
        out, err = self.check(0, "index-document", "--store", self.path("readable"), self.lease)
        self.assertRegex(out, r"^indexed lease\.txt, [\d,]+ tokens, .* on disk, in .*\n"
                              r"document [0-9a-f]{32}\n$")
        self.assertIn("next: ask-document --document lease.txt", err)
        out, _ = self.check(0, "index-document", "--store", self.path("readable"), self.lease)
        self.assertTrue(out.startswith("already indexed: lease.txt"), out)

    def test_estimate_changes_nothing(self):
        store = self.path("estimated")
        out, err = self.check(0, "index-document", "--store", store, "--estimate", "--json",
                              self.lease)
        self.assertEqual(set(json.loads(out)),
                         {"tokens", "bytes_on_disk", "peak_bytes_on_disk", "free_bytes",
                          "anonymous_bytes", "flops", "seconds", "existed"})
        out, _ = self.check(0, "index-document", "--store", store, "--estimate", self.lease)
        self.assertRegex(out, r"^[\d,]+ tokens, about .*\ndisk: .*\nmemory: .*\n$")
        self.assertFalse(os.path.exists(os.path.join(store, "catalog.db")))

    def test_progress_styles(self):
        styles = {"plain": r"(?m)^prefill: \d+ % \(", "json": r'(?m)^\{"stage":"prefill","done":',
                  "bar": "\rprefill +\\[", "none": r"^\Z", "auto": r"(?m)^prefill: "}
        for style, expected in styles.items():
            _, err = self.check(0, "index-document", "--json", "--progress", style, "--store",
                                self.path("progress-" + style), self.lease)
            self.assertRegex(err, expected, style)
            if style == "json":
                for line in err.splitlines():
                    self.assertEqual(set(json.loads(line)), {"stage", "done", "total",
                                                             "tokens_per_second", "eta_seconds"})

    def interrupt(self, signals, store):
        if IS_WINE and signal.SIGTERM in signals:
            self.skipTest("Windows has no SIGTERM")
        text = self.write("long.txt", make_text(20000))
        process = self.popen("index-document", "--store", store, "--progress", "json", text)
        first = self.read_until(process.stderr, rb'"prefill","done":[1-9]')
        for number in signals:
            process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT)
        return process.returncode, out.decode(), (first + err).decode(), text

    def test_ctrl_c_keeps_the_work(self):
        store = self.path("interrupted")
        status, out, err, text = self.interrupt([signal.SIGINT], store)
        self.assertEqual((status, out), (130, ""), err)
        self.assertIn("the same command continues", err)
        _, err = self.check(0, "index-document", "--store", store, text)
        self.check(0, "lectern-store", "--store", store, "verify", "--full")

    def test_sigterm_ends_with_143(self):
        status, out, err, _ = self.interrupt([signal.SIGTERM], self.path("terminated"))
        self.assertEqual((status, out), (143, ""), err)

    def test_second_ctrl_c_quits_at_once(self):
        status, out, _, _ = self.interrupt([signal.SIGINT, signal.SIGTERM], self.path("quit"))
        self.assertIn(status, (130, 143))
        self.assertEqual(out, "")

    @unittest.skipIf(IS_WINE, "Windows has no /dev/full")
    def test_output_that_cannot_be_written(self):
        self.index(self.lease)
        with open("/dev/full", "wb") as full:
            _, err = self.check(5, "index-document", "--progress", "none", self.lease, stdout=full)
        self.assertIn("No space left", err)


class AskTest(ToolsTest):
    TEXT_BYTES = 9000
    FIELDS = {"answer", "reasoning", "document", "finish_reason", "stopped_by", "tokens", "timings_ms", "kv", "parts", "collection",
              "evidence", "attention", "offset_unit", "warnings", "note", "refusal_probability", "refused_by_probability"}
    QUESTION = "How much does the tenant of flat 7 pay?"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        status, _, err = cls.run_tool("index-document", "--progress", "none", cls.lease)
        assert status == 0, err

    def ask(self, *args, **options):
        out, err = self.check(0, "ask-document", "--json", *args, **options)
        self.assertEqual(err, "")
        return [json.loads(line) for line in out.splitlines()]

    def check_answer(self, answer):
        self.assertEqual(set(answer) - {"question", "expected"}, self.FIELDS)
        self.assertIn(answer["finish_reason"], ("stop", "length"))
        self.assertEqual(set(answer["tokens"]), {"document", "question", "answer", "reasoning",
                                                 "forced", "proposed", "accepted"})
        self.assertEqual(set(answer["timings_ms"]),
                         {"open", "prefill", "first_token", "per_token", "total"})
        self.assertEqual(set(answer["kv"]),
                         {"budget", "budget_auto", "max_divergence", "divergence", "rule", "layer_budget", "head_budget",
                          "read_fraction_prefill", "read_fraction_decode",
                          "bytes_read", "window_bytes", "missed_mass_estimate",
                          "missed_mass_bound", "max_missed_by", "fallback", "keep", "retention",
                          "session_rows", "prefill", "prefill_budget"})
        for passage in answer["evidence"]:
            self.assertEqual(set(passage), {"begin", "end", "text", "mass", "score", "page",
                                            "page_end", "page_label", "page_end_label",
                                            "heading", "places", "highlights", "document"})
            for word in passage["highlights"]:
                self.assertTrue(passage["begin"] <= word["begin"] < word["end"] <= passage["end"])

    def passage_in(self, unit, passage):
        units = {"utf8": lambda b, e: self.text.encode()[b:e].decode(),
                 "codepoint": lambda b, e: self.text[b:e],
                 "utf16": lambda b, e: self.text.encode("utf-16-le")[2 * b:2 * e].decode("utf-16-le")}
        return units[unit](passage["begin"], passage["end"])

    def test_json_answer_and_offset_units(self):
        for unit in ("utf8", "utf16", "codepoint"):
            [answer] = self.ask("--offset-unit", unit, "--max-tokens", "8", self.QUESTION)
            self.check_answer(answer)
            self.assertEqual(answer["offset_unit"], unit)
            self.assertTrue(answer["evidence"])
            for passage in answer["evidence"]:
                self.assertEqual(self.passage_in(unit, passage), passage["text"])

    def test_exact_and_budget(self):
        [answer] = self.ask("--exact", "--max-tokens", "4", self.QUESTION)
        self.assertEqual((answer["kv"]["budget"], answer["kv"]["rule"]), (1, "exact"))
        [other] = self.ask("--kv-budget", "1", "--max-tokens", "4", self.QUESTION)
        self.assertEqual(answer["answer"], other["answer"])
        [answer] = self.ask("--kv-budget", "0.5", "--no-tail", "--max-tokens", "4", self.QUESTION)
        self.check_answer(answer)

    def test_fallback(self):
        self.check_error(2, "warn,exact", "ask-document", "--fallback", "dense", "q")
        whole = ("--max-tokens", "4", "Summarise the document.")
        [warned] = self.ask(*whole)
        self.assertEqual(self.ask("--fallback", "warn", *whole)[0]["answer"], warned["answer"])
        self.assertIn("whole_document", warned["warnings"])
        self.assertFalse(warned["kv"]["fallback"])
        self.assertIn("much of the text", warned["note"])
        [exact] = self.ask("--exact", *whole)
        [fallen] = self.ask("--fallback", "exact", *whole)
        self.check_answer(fallen)
        self.assertEqual((fallen["answer"], fallen["evidence"]),
                         (exact["answer"], exact["evidence"]))
        self.assertTrue(fallen["kv"]["fallback"])
        self.assertNotIn("whole_document", fallen["warnings"])
        self.assertGreater(fallen["kv"]["bytes_read"], exact["kv"]["bytes_read"])
        out, _ = self.check(0, "ask-document", *whole)
        self.assertIn(warned["note"], out)
        out, _ = self.check(0, "ask-document", "--fallback", "exact", *whole)
        self.assertIn("everything was read instead", out)

    def test_rules(self):
        self.check_error(2, "cap,top-p", "ask-document", "--rule", "best", "q")
        self.check_error(2, "top-p alone", "ask-document", "--mass", "0.9", "q")
        self.check_error(2, "--max-session-rows", "ask-document", "--max-session-rows", "10", "q")
        for rule, args in (("default", ()), ("threshold", ()), ("cap", ()),
                           ("top-p", ("--mass", "0.9"))):
            [answer] = self.ask("--rule", rule, *args, "--max-tokens", "4", self.QUESTION)
            self.check_answer(answer)
            self.assertEqual(answer["kv"]["rule"], rule)
            self.assertEqual("90 % of each head" in (answer["note"] or ""), rule == "top-p")

    def test_plans(self):
        self.check_error(2, "uniform, pyramid", "ask-document", "--layer-budget", "cone", "q")
        self.check_error(2, "kv-compress", "ask-document", "--head-budget", "cone", "q")
        for layers, heads in ((None, None), ("squeeze", None), ("pyramid", "kv-compress")):
            args = (("--layer-budget", layers) if layers else ()) + (
                ("--head-budget", heads) if heads else ())
            [answer] = self.ask(*args, "--kv-budget", "0.3", "--max-tokens", "4", self.QUESTION)
            self.check_answer(answer)
            self.assertEqual(answer["kv"]["layer_budget"], layers or "uniform")
            self.assertEqual(answer["kv"]["head_budget"], heads or "global")

    def test_readable_answer(self):
        out, err = self.check(0, "ask-document", "--document", "lease.txt", "--max-tokens", "8",
                              self.QUESTION)
        self.assertEqual(err, "")
        self.assertRegex(out, r"(?s)^.*\n\n\[1\] [\d.]+ % likely, bytes \d+-\d+: \".*\"\n.*"
                              r"read [\d.]+ % of the document.*; [\d,]+ ms.*\n$")

    def test_the_same_seed_gives_the_same_answer(self):
        args = ("--temperature", "1", "--sample-top-p", "0.9", "--seed", "7", "--threads", "1",
                "--max-tokens", "12", self.QUESTION)
        [first], [second] = self.ask(*args), self.ask(*args)
        self.assertEqual(first["answer"], second["answer"])

    def test_cite(self):
        claim = "The tenant of flat 58 pays 506 𝟜 euro. And zeppelins zoom."
        for unit in ("utf8", "utf16", "codepoint"):
            [cited] = self.ask("--cite", claim, "--offset-unit", unit, "--max-evidence", "2")
            self.assertEqual(cited["offset_unit"], unit)
            rent, zeppelins = cited["sentences"]
            self.assertEqual((rent["text"], rent["supported"]), (claim[:-20], True))
            self.assertEqual((zeppelins["supported"], zeppelins["evidence"]), (False, []))
            size = len(claim[:-20].encode()) if unit == "utf8" else len(claim) - 20 + (unit == "utf16")
            self.assertEqual((rent["begin"], rent["end"]), (0, size))
            self.assertEqual(len(rent["evidence"]), 2)
            passage = rent["evidence"][0]
            self.assertIn("flat 58 pays", passage["text"])
            self.assertEqual(self.passage_in(unit, passage), passage["text"])
            words = [self.passage_in(unit, word) for word in passage["highlights"]]
            self.assertEqual(words, ["tenant", "flat", "58", "pays", "506", "euro"])
            self.assertNotIn("mass", passage)

    def test_cite_in_words_from_stdin_and_with_a_question(self):
        out, _ = self.check(0, "ask-document", "--cite", "-", "--question",
                            "What does the tenant of flat 58 pay?", stdin=b"506 euro.\nZeppelins.")
        self.assertRegex(out, r"^506 euro\.\n\[1\] [\d.]+ % likely, bytes \d+-\d+: \"The tenant of "
                              r"flat 58 pays 506 euro[^\n]*\"\n")
        self.assertIn("Zeppelins.\n(no passage is likely to say this)\n", out)

    def test_focus_is_said(self):
        [answer] = self.ask("--focus", "only", self.QUESTION)
        self.check_answer(answer)
        self.assertEqual(answer["kv"]["rule"], "words")
        self.assertIsNone(answer["kv"]["missed_mass_estimate"])
        self.assertLess(answer["kv"]["read_fraction_prefill"], 0.2)
        self.check_error(2, "focus", "ask-document", "--focus", "only", "--max-missed", "0.1", "q")
        self.check_error(2, "focus", "ask-document", "--focus", "all", "q")

    def test_cite_needs_no_model(self):
        [document] = json.loads(self.check(0, "lectern-store", "--json", "list")[0])["documents"]
        other = self.path("other-model")
        with open(os.path.join(MODEL, "config.json")) as file:
            os.makedirs(other)
            with open(os.path.join(other, "config.json"), "w") as copy:
                copy.write(file.read())
        out, _ = self.check(0, "ask-document", "--model", other, "--json", "--cite", "The tenant pays.")
        self.assertEqual(json.loads(out)["document"], document["document"])

    def test_cite_refuses_what_it_cannot_cite(self):
        self.check_error(2, "--cite", "ask-document", "--cite", "x", "a question")
        self.check_error(2, "--cite", "ask-document", "--question", "x")
        self.check_error(2, "max-evidence", "ask-document", "--cite", "x", "--max-evidence", "101")
        self.check_error(2, "UTF-8", "ask-document", "--cite", "-", stdin=b"\xff")
        self.check_error(3, "none", "ask-document", "--document", "none", "--cite", "x")

    def test_stop_texts_end_an_answer(self):
        [plain] = self.ask("--max-tokens", "24", self.QUESTION)
        text = plain["answer"]
        stop = text[1:3]
        self.assertEqual(len(stop), 2)
        [stopped] = self.ask("--stop", "no such text", "--stop", stop, "--max-tokens", "24",
                             self.QUESTION)
        self.check_answer(stopped)
        self.assertEqual(stopped["answer"], text[:text.index(stop)].rstrip())
        self.assertEqual(stopped["stopped_by"], "stop_sequence")
        self.check_error(2, "one of --stop is empty", "ask-document", "--stop", "", "q")
        self.check_error(2, "--stop have more than 8192 bytes", "ask-document", "--stop",
                         "x" * 8193, "q")

    def test_the_likeliest_token_is_all_that_is_left(self):
        def args(*more):
            return (*more, "--threads", "1", "--max-tokens", "12", self.QUESTION)
        [greedy] = self.ask(*args())
        for only in (("--top-k", "1"), ("--min-p", "1"), ("--sample-top-p", "1e-6")):
            [drawn] = self.ask(*args("--temperature", "9", "--seed", "3", *only))
            self.assertEqual(drawn["answer"], greedy["answer"], only)
        [drawn] = self.ask(*args("--temperature", "9", "--seed", "3"))
        self.assertNotEqual(drawn["answer"], greedy["answer"])
        for flag, wrong in (("--top-k", "-1"), ("--min-p", "1.5"), ("--frequency-penalty", "2.5"),
                            ("--presence-penalty", "-3"), ("--max-evidence", "0")):
            self.check_error(2, f"{flag}: {wrong} is not a", "ask-document", flag, wrong, "q")

    def test_penalties_change_an_answer(self):
        def words(*more):
            [answer] = self.ask(*more, "--temperature", "0", "--threads", "1", "--max-tokens",
                                "8", "What does the tenant of flat 3 pay?")
            return answer["answer"]
        for flag in ("--frequency-penalty", "--presence-penalty"):
            self.assertNotEqual(words(flag, "2"), words(flag, "-2"))

    def test_documents_that_are_not_there(self):
        self.check_error(3, "nothing", "ask-document", "--document", "nothing", "Who?")
        self.check_error(3, "store", "ask-document", "--store", self.path("none"), "Who?")
        self.check_error(2, "question", "ask-document", "")

    def test_several_documents_need_a_name(self):
        store = self.path("several")
        for name in ("a", "b"):
            self.check(0, "index-document", "--store", store, "--progress", "none",
                       self.write(name, make_text(1000) + name))
        self.check_error(2, "a.*b", "ask-document", "--store", store, "Who?")

    def test_loop_with_follow_up_and_new(self):
        lines = f"{self.QUESTION}\n\nAnd flat 8?\n/new\n{self.QUESTION}\r\n".encode()
        answers = self.ask("--max-tokens", "8", stdin=lines)
        self.assertEqual(len(answers), 3)
        for answer in answers:
            self.check_answer(answer)
        self.assertEqual(answers[0]["answer"], answers[2]["answer"])

    def test_loop_without_terminal_prints_no_prompt(self):
        out, err = self.check(0, "ask-document", "--max-tokens", "4",
                              stdin=self.QUESTION.encode())  # no newline at the end
        self.assertEqual(err, "")
        self.assertIn("of the document", out)

    def test_prompt_on_a_terminal(self):
        process, terminal = self.on_terminal("ask-document", "--max-tokens", "4")
        self.read_until(terminal, b"> $")
        os.write(terminal, b"Who pays?\n")
        self.read_until(terminal, rb"(?s)of the document.*\n> $")
        os.write(terminal, b"/new\n")
        self.read_until(terminal, b"> $")
        os.write(terminal, b"\x04")
        self.assertEqual(process.wait(TIMEOUT), 0)

    def test_questions_file(self):
        path = self.write("questions.jsonl",
                          '{"question": "Who repairs the roof?", "answer": "The owner"}\n\n'
                          f'{{"question": "{self.QUESTION}", "note": 1}}\n')
        answers = self.ask("--max-tokens", "8", "--questions", path)
        self.assertEqual([a["question"] for a in answers], ["Who repairs the roof?", self.QUESTION])
        self.assertEqual([a.get("expected") for a in answers], ["The owner", None])
        [alone] = self.ask("--max-tokens", "8", self.QUESTION)
        self.assertEqual(answers[1]["answer"], alone["answer"])  # each in a conversation of its own
        out, _ = self.check(0, "ask-document", "--max-tokens", "8", "--questions", path)
        self.assertIn("? Who repairs the roof?\n", out)
        self.assertIn("expected: The owner\n", out)

    def test_questions_at_the_same_time_get_the_same_answers(self):
        words = ["roof", "rent", "garden", "keys", "notice", "repairs", "heating", "owner", "tenant",
                 "deposit", "pets", "cellar", "windows", "water", "stairs", "parking", "taxes"]
        questions = [f"Who pays for the {word}?" for word in words]
        questions[5] = "Who pays? " * 4000  # too long for the model
        path = self.write("many.txt", "\n".join(questions) + "\n")
        ask = ("ask-document", "--json", "--max-tokens", "12", "--temperature", "0.7",
               "--questions", path)

        def answers(*flags):
            status, out, err = self.run_tool(*ask, *flags)
            self.assertEqual(status, 2, err)
            self.assertIn("many.txt:6: ", err)
            self.assertEqual(err.count("\n"), 1)
            return [(a["question"], a["answer"], [p["begin"] for p in a["evidence"]])
                    for a in map(json.loads, out.splitlines())]

        in_turn = answers("--parallel", "1")
        self.assertEqual([question for question, _, _ in in_turn],
                         [q.strip() for i, q in enumerate(questions) if i != 5])
        for flags in ((), ("--parallel", "3"), ("--max-ram", "16MiB")):  # the last: not all at a time
            self.assertEqual(answers(*flags), in_turn, flags)
        out, _ = self.check(2, "ask-document", "--max-tokens", "12", "--temperature", "0.7",
                            "--questions", path)
        asked = [line[2:] for line in out.splitlines() if line.startswith("? ")]
        self.assertEqual(asked, [q.strip() for q in questions])
        self.check_error(2, "parallel", "ask-document", "--questions", path, "--parallel", "0")

    def test_ctrl_c_ends_questions_at_the_same_time(self):
        path = self.write("long.txt", f"{self.QUESTION}\n" * 8)
        process = self.popen("ask-document", *self.LONG, "--questions", path)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual((process.returncode, err), (130, b""))
        self.assertLessEqual(out.count(b"? "), 1)

    def test_a_questions_file_of_plain_lines(self):
        path = self.path("plain.txt")
        pathlib.Path(path).write_bytes(b"\xef\xbb\xbfWho repairs the roof?\r\n\r\n  %s \r\n"
                                       % self.QUESTION.encode())
        answers = self.ask("--max-tokens", "2", "--questions", path)
        self.assertEqual([a["question"] for a in answers], ["Who repairs the roof?", self.QUESTION])
        pathlib.Path(path).write_bytes("Who?\n".encode("utf-16"))
        self.check_error(2, "UTF-16", "ask-document", "--questions", path)

    def test_malformed_questions_are_found_before_any_is_asked(self):
        good = '{"question": "Who?"}\n'
        for bad in ("{", '{"question": 1}', '{"answer": "x"}', '["question"]', '{"question": ""}',
                    '{"question": "x", "answer": 1}', '{"question": "x"} x'):
            path = self.write("bad.jsonl", good + good + bad + "\n" + good)
            self.check_error(2, r"bad\.jsonl:3: ", "ask-document", "--questions", path)
        self.check_error(3, "missing", "ask-document", "--questions", self.path("missing"))

    LONG = ("--temperature", "10", "--max-tokens", "900")  # a babble that does not soon end

    def test_ctrl_c_ends_an_answer(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143))[:1 if IS_WINE else 2]:
            process = self.popen("ask-document", *self.LONG, self.QUESTION)
            said = self.read_until(process.stdout, b".")
            process.send_signal(number)
            start = time.monotonic()
            out, err = process.communicate(timeout=TIMEOUT)
            self.assertLess(time.monotonic() - start, 5)
            self.assertEqual((process.returncode, err), (status, b""))
            self.assertTrue((said + out).endswith(b"\n"))
            self.assertNotIn(b"of the document", out)

    def test_ctrl_c_in_the_loop_goes_back_to_the_prompt(self):
        process = self.popen("ask-document", *self.LONG)
        process.stdin.write(self.QUESTION.encode() + b"\n")
        process.stdin.flush()
        self.read_until(process.stdout, b".")
        process.send_signal(signal.SIGINT)
        process.stdin.write(b"/new\n")
        out, err = process.communicate(self.QUESTION.encode() + b"\n", timeout=TIMEOUT)
        self.assertEqual((process.returncode, err), (0, b""))
        self.assertEqual(out.count(b"of the document"), 1)

    def test_ctrl_c_at_the_prompt_quits(self):
        process, terminal = self.on_terminal("ask-document")
        self.read_until(terminal, b"> $")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(TIMEOUT), 130)

    @unittest.skipIf(IS_WINE, "Windows has no SIGPIPE")
    def test_a_reader_that_goes_away_is_no_error(self):
        for args in ([*self.LONG, self.QUESTION], ["--json", "--max-tokens", "2", self.QUESTION]):
            read_end, write_end = os.pipe()
            os.close(read_end)
            try:
                _, err = self.check(141, "ask-document", *args, stdout=write_end)
            finally:
                os.close(write_end)
            self.assertEqual(err, "")


class NamesTest(ToolsTest):
    """Each test has a store and a folder of its own."""

    def setUp(self):
        self.home = tempfile.mkdtemp(dir=self.folder.name)
        self.flags = ("--store", os.path.join(self.home, "store"))

    def put(self, name, text):
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text.encode())
        return path

    def index(self, *args, **options):
        out, _ = self.check(0, "index-document", *self.flags, "--json", "--progress", "none", *args,
                            **options)
        return json.loads(out)

    def names(self):
        out, _ = self.check(0, "lectern-store", *self.flags, "--json", "list")
        return sorted([name["name"] for name in document["names"]]
                      for document in json.loads(out)["documents"])

    def asked(self, document, **options):
        """The id of the document that this text stands for, and what is said about it."""
        out, err = self.check(0, "ask-document", *self.flags, "--json", "--max-tokens", "1",
                              "--document", document, "Who?", **options)
        return json.loads(out)["document"], err

    def remove(self, *args, status=0):
        return self.check(status, "lectern-store", *self.flags, "remove", "--yes", *args)

    def test_two_files_of_a_name_both_stay(self):
        first = self.index(self.put("2024/invoice.txt", "twelve euros"))
        second = self.index(self.put("2025/invoice.txt", "thirteen euros"))
        self.assertEqual((first["name"], second["name"]), ("invoice.txt", "2025/invoice.txt"))
        self.assertIn('as "invoice.txt" is ' + first["source"], second["note"])
        third = self.index(self.put("old/2025/invoice.txt", "fourteen euros"))
        self.assertEqual(third["name"], "old/2025/invoice.txt")
        for name, report in [("invoice.txt", first), ("2024/invoice.txt", first),
                             ("2025/invoice.txt", second), ("old/2025/invoice.txt", third),
                             (os.path.join(self.home, "2025/invoice.txt"), second)]:
            self.assertEqual(self.asked(name)[0], report["document"], name)
        _, said = self.asked("invoice.txt")
        for report in (second, third):
            self.assertIn('"%s" (%s)' % (report["name"], report["source"]), said)
        # Where the file of that name is another one, nobody guesses.
        self.check_error(2, 'which "invoice.txt".*2025/invoice.txt', "ask-document", *self.flags,
                         "--document", "invoice.txt", "Who?", cwd=os.path.join(self.home, "2025"))
        self.remove("invoice.txt")
        self.check_error(2, "2025/invoice.txt.*old/2025/invoice.txt", "ask-document", *self.flags,
                         "--document", "invoice.txt", "Who?")

    def test_a_copy_is_another_name(self):
        lease = self.put("lease.txt", "Mara repairs the roof.")
        first = self.index(lease)
        copy = self.index(self.put("zz.txt", "Mara repairs the roof."))
        self.assertTrue(copy["existed"])
        self.assertEqual((copy["document"], copy["name"]), (first["document"], "zz.txt"))
        out, _ = self.remove("zz.txt")
        self.assertIn("the document stays", out)
        self.assertEqual(self.names(), [["lease.txt"]])
        self.index(os.path.join(self.home, "zz.txt"))
        out, _ = self.check(0, "lectern-store", *self.flags, "--json", "remove", "--yes",
                            first["document"])
        self.assertEqual(json.loads(out), {"removed": first["document"], "document_gone": True,
                                           "names": ["lease.txt", "zz.txt"], "left": []})
        self.assertEqual(self.names(), [])

    def test_a_changed_file_is_the_next_version(self):
        reports = [self.index(self.put("log.txt", f"reads {i}")) for i in range(3)]
        self.assertEqual([report["replaced"] for report in reports],
                         [None, reports[0]["document"], reports[1]["document"]])
        self.assertEqual(self.names(), [["log.txt"]])
        self.assertEqual(os.listdir(os.path.join(self.flags[1], "docs")), [reports[2]["document"]])
        out, _ = self.check(0, "index-document", *self.flags, "--progress", "none",
                            self.put("log.txt", "reads 4"))
        self.assertIn(reports[2]["document"] + " (the version", out)
        kept = self.index("--keep-versions", self.put("log.txt", "reads 5"))
        self.assertIn("stays, as document " + kept["replaced"], kept["note"])
        self.assertEqual(self.asked(kept["replaced"])[0], kept["replaced"])

    def test_unicode_forms_of_a_name_are_one(self):
        nfd, nfc = "Cafe\u0301.txt", "Caf\u00e9.txt"
        report = self.index(self.put(nfd, "It is open."))
        self.assertEqual(report["name"], nfc)
        for name in (nfd, nfc):
            self.assertEqual(self.asked(name)[0], report["document"])
        self.remove(nfd)
        self.assertEqual(self.names(), [])

    @unittest.skipIf(IS_WINE, "links of POSIX are none on Windows")
    def test_ways_to_write_a_path(self):
        text = self.put("a b/our lease.txt", "Mara repairs the roof.")
        report = self.index(text)
        self.assertEqual(report["name"], "our lease.txt")
        os.symlink(text, os.path.join(self.home, "current"))
        os.symlink("a b", os.path.join(self.home, "link"))
        for path in ("./a b//our lease.txt", "a b/../a b/our lease.txt", "link/our lease.txt"):
            again = self.index(path, cwd=self.home)
            self.assertEqual((again["existed"], again["source"]), (True, report["source"]), path)
            self.assertEqual(self.asked(path, cwd=self.home)[0], report["document"])
        self.assertEqual(self.names(), [["our lease.txt"]])
        self.assertEqual(self.index("current", cwd=self.home)["name"], "current")
        self.put("a b/our lease.txt", "Ada repairs the roof.")
        changed = self.index("current", cwd=self.home)
        self.assertEqual(changed["replaced"], report["document"])
        self.assertEqual(self.names(), [["current", "our lease.txt"]])

    @unittest.skipIf(IS_WINE, "names of files are UTF-16 on Windows")
    def test_a_name_that_is_not_utf8(self):
        path = os.fsdecode(os.fsencode(self.home) + b"/caf\xe9.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("It is open.")
        report = self.index(path)
        self.assertEqual(report["name"], "caf\ufffd.txt")
        self.assertTrue(self.index(path)["existed"])
        self.assertEqual(self.asked(path)[0], report["document"])

    def test_a_name_that_is_given_is_taken(self):
        first = self.index("--name", "contract", self.put("v1.txt", "one"))
        second = self.index("--name", "contract", self.put("v2.txt", "two"))
        self.assertIn('which is named "v1.txt" now', second["note"])
        self.assertEqual(self.names(), [["contract"], ["v1.txt"]])
        self.assertEqual(self.asked("contract")[0], second["document"])
        self.assertEqual(self.asked("v1.txt")[0], first["document"])
        piped = self.index("--name", "v1.txt", "-", stdin=b"three")
        self.assertEqual(piped["name"], "v1.txt (2)")
        again = self.index("--name", "v1.txt", "-", stdin=b"four")
        self.assertEqual((again["name"], again["replaced"]), ("v1.txt (2)", piped["document"]))

    def test_a_bundle_takes_no_name_from_another_document(self):
        mine = self.index(self.put("lease.txt", "Mara repairs the roof."))
        other = ("--store", os.path.join(self.home, "other"))
        self.check(0, "index-document", *other, "--progress", "none",
                   self.put("b/lease.txt", "Ada repairs the roof."))
        bundle = os.path.join(self.home, "lease.lectern")
        self.check(0, "lectern-store", *other, "export", "lease.txt", bundle)
        out, err = self.check(0, "lectern-store", *self.flags, "import", bundle)
        self.assertIn("imported lease.txt (2)", out)
        self.assertIn('named "lease.txt (2)", as "lease.txt" is', err)
        self.assertEqual(self.asked("lease.txt")[0], mine["document"])

    def test_a_document_that_fills_the_context_is_indexed_in_parts(self):
        model = os.path.join(self.home, "model")
        reader = json.loads(self.check(0, "lectern-store", *self.flags, "--json", "show",
                                       self.index(self.lease)["document"])[0])["model"]
        shutil.copytree(reader.removeprefix("Z:"), model)
        with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        text = self.put("long.txt", self.text)
        flags = (*self.flags, "--model", model)

        def set_positions(positions):
            config["max_position_embeddings"] = positions
            with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)

        out, _ = self.check(0, "index-document", *self.flags, "--json", "--estimate", text)
        set_positions(json.loads(out)["tokens"] + 2)  # no room for a question
        out, _ = self.check(0, "index-document", *flags, "--json", "--estimate", text)
        estimated = json.loads(out)["tokens"]
        out, _ = self.check(0, "index-document", *flags, "--progress", "none", text)
        self.assertRegex(out, r"^indexed long\.txt, [0-9,]+ tokens in [2-9] parts, ")
        out, _ = self.check(0, "index-document", *flags, "--json", "--progress", "none", text)
        report = json.loads(out)
        self.assertTrue(report["existed"])
        self.assertEqual(report["tokens"], estimated)
        out, _ = self.check(0, "lectern-store", *self.flags, "list")
        self.assertRegex(out, r"tokens in [2-9] parts .* long\.txt\n")
        self.assertEqual(len(out.splitlines()), 2, "the lease and the long text")
        out, _ = self.check(0, "ask-document", *self.flags, "--document", "long.txt", "--json",
                            "Who designed the bridge?")
        answer = json.loads(out)
        self.assertTrue(answer["parts"]["asked"])
        for passage in answer["evidence"]:
            shown = self.text.encode()[passage["begin"]:passage["end"]].decode()
            self.assertEqual(shown, passage["text"])
        out, _ = self.check(0, "ask-document", *self.flags, "--document", "long.txt",
                            "Who designed the bridge?")
        self.assertRegex(out, r"asked [1-4] of its [2-9] parts")
        self.check(0, "lectern-store", *self.flags, "verify")
        set_positions(100)
        self.check_error(2, "no room for a part", "index-document", *flags, "--progress", "none",
                         self.put("other.txt", "Another text. " + self.text))


class FileSystemTest(ToolsTest):
    """On a file system of its own; needs the right to mount one."""

    def mount(self, size):
        folder = self.path("mount-" + self.id().split(".")[-1])
        os.makedirs(folder, exist_ok=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
                          capture_output=True, check=False).returncode != 0:
            self.skipTest("no right to mount a file system")
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        return folder

    def test_full_disk_is_found_before_any_work(self):
        store = self.mount("18m") + "/store"
        small = self.write("small.txt", "A short note. Nothing else is in it.")
        flags = ("--store", store, "--progress", "none")
        self.check(0, "index-document", *flags, small)
        self.check_error(5, "MiB are free; free some or give another --store", "index-document",
                         *flags, self.write("large.txt", "The road was long. " * 3000))
        out, _ = self.check(0, "lectern-store", "--store", store, "--json", "list")
        self.assertEqual([d["name"] for d in json.loads(out)["documents"]], ["small.txt"])
        self.check(0, "lectern-store", "--store", store, "verify", "--full")
        self.check(0, "ask-document", "--store", store, "--max-tokens", "2", "What is in it?")

    def test_read_only_store_answers_and_refuses_changes(self):
        folder = self.mount("60m")
        flags = ("--store", folder + "/store", "--progress", "none")
        self.check(0, "index-document", *flags, self.lease)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        self.check(0, "ask-document", *flags[:2], "--max-tokens", "2", "Who?")
        out, _ = self.check(0, "index-document", *flags, "--json", self.lease)
        self.assertTrue(json.loads(out)["existed"])
        other = self.write("other.txt", "Another note that is not there yet.")
        self.check_error(1, "(Read-only|denied).*give another --store", "index-document", *flags, other)
        self.check_error(1, "(Read-only|denied)", "lectern-store", *flags[:2], "remove", "--yes", "lease.txt")
        self.check(0, "lectern-store", *flags[:2], "verify", "--full")


class StoreTest(ToolsTest):
    def setUp(self):
        self.store_flags = ("--store", self.path(self.id().split(".")[-1]))
        out, _ = self.check(0, "index-document", *self.store_flags, "--json", "--progress", "none",
                            self.lease)
        self.report = json.loads(out)

    def test_verify_finds_a_flipped_byte(self):
        for args in ([], ["--full"], ["lease.txt"]):
            out, _ = self.check(0, "lectern-store", *self.store_flags, "verify", *args)
            self.assertEqual(out, "no damage found\n")
        shards = [os.path.join(folder, name) for folder, _, names in os.walk(self.store_flags[1])
                  for name in names if name.startswith("layer-") and name.endswith(".shard")]
        if not shards:
            self.skipTest("the store has no shards")
        with open(shards[0], "r+b") as file:
            file.seek(os.path.getsize(shards[0]) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        out, _ = self.check(6, "lectern-store", *self.store_flags, "--json", "verify", "--full")
        [damage] = json.loads(out)["damaged"]
        self.assertEqual((damage["name"], damage["code"]), ("lease.txt", "checksum_mismatch"))
        out, _ = self.check(6, "lectern-store", *self.store_flags, "verify", "--full")
        self.assertTrue(out.startswith("lease.txt: "), out)

    def test_remove_asks_first(self):
        self.check_error(2, "--yes", "lectern-store", *self.store_flags, "remove", "lease.txt")
        process, terminal = self.on_terminal("lectern-store", *self.store_flags, "remove",
                                             "lease.txt")
        self.read_until(terminal, rb"\[y/N\] $")
        os.write(terminal, b"n\n")
        self.assertEqual(process.wait(TIMEOUT), 1)
        out, _ = self.check(0, "lectern-store", *self.store_flags, "remove", "--yes", "lease.txt")
        self.assertEqual(out, "removed lease.txt\n")
        out, _ = self.check(0, "lectern-store", *self.store_flags, "--json", "list")
        self.assertEqual(json.loads(out), {"documents": []})

    def test_a_document_travels_as_one_file(self):
        bundle, other = self.path("lease.lectern"), ("--store", self.path("imported"))
        self.check(0, "lectern-store", *self.store_flags, "export", "lease.txt", bundle)
        self.check_error(2, "already", "lectern-store", *self.store_flags, "export", "lease.txt",
                         bundle)
        out, _ = self.check(0, "lectern-store", *other, "import", bundle, "--name", "copy")
        self.assertRegex(out, r"^imported copy, [\d,]+ tokens\n$")
        out, _ = self.check(0, "lectern-store", *other, "--json", "import", bundle)
        self.assertEqual(json.loads(out), {"document": self.report["document"], "name": "copy",
                                           "existed": True, "note": None})
        out, _ = self.check(0, "lectern-store", *other, "import", bundle)
        self.assertTrue(out.startswith("already there: copy, "), out)
        self.check(0, "lectern-store", *other, "verify", "--full")
        ask = ("ask-document", "--json", "--max-tokens", "8", "What is in it?")
        first, second = (json.loads(self.check(0, *ask, *flags)[0])
                         for flags in (self.store_flags, other))
        for key in ("answer", "evidence", "kv"):
            self.assertEqual(first[key], second[key])

    def test_gc_and_recover_say_what_they_did(self):
        docs = os.path.join(self.store_flags[1], "docs")
        kept = self.path("kept")
        shutil.copytree(docs, kept)
        self.check(0, "lectern-store", *self.store_flags, "remove", "--yes", "lease.txt")
        shutil.copytree(kept, docs, dirs_exist_ok=True)
        out, _ = self.check(0, "lectern-store", *self.store_flags, "gc")
        self.assertEqual(out, "removed 0 document generations and 0 temporary files\n"
                              "not in the catalog: 1 document; lectern-store recover takes up what "
                              "is whole\n")
        out, _ = self.check(0, "lectern-store", *self.store_flags, "recover")
        self.assertEqual(out, "recovered lease.txt\n")
        out, _ = self.check(0, "lectern-store", *self.store_flags, "recover")
        self.assertEqual(out, "nothing to recover\n")

    def test_gc_of_a_store_without_catalog_leaves_its_documents(self):
        os.remove(os.path.join(self.store_flags[1], "catalog.db"))
        out, _ = self.check(0, "lectern-store", *self.store_flags, "gc")
        self.assertIn("not in the catalog: 1 document", out)
        out, _ = self.check(0, "lectern-store", *self.store_flags, "recover")
        self.assertEqual(out, "recovered lease.txt\n")

    def test_recover_says_what_it_refused(self):
        store = self.store_flags[1]
        os.remove(os.path.join(store, "catalog.db"))
        directory = os.path.join(store, "docs", self.report["document"],
                                 str(self.report["generation"]))
        os.truncate(os.path.join(directory, "layer-000.shard"), 4096)
        out, _ = self.check(6, "lectern-store", *self.store_flags, "recover")
        self.assertTrue(out.startswith(f"refused {told(directory)}: "), out)
        self.assertIn("layer-000.shard", out)
        out, _ = self.check(6, "lectern-store", *self.store_flags, "--json", "recover")
        [refused] = json.loads(out)["refused"]
        self.assertEqual((refused["directory"], refused["code"]), (told(directory), "truncated"))

    def test_a_lost_catalog_is_rebuilt_and_a_sealed_store_refuses_changes(self):
        store = self.store_flags[1]
        os.remove(os.path.join(store, "catalog.db"))
        out, _ = self.check(0, "lectern-store", *self.store_flags, "--json", "recover")
        recovered = json.loads(out)
        self.assertEqual([d["name"] for d in recovered["documents"]], ["lease.txt"])
        self.assertEqual(recovered["refused"], [])
        self.check(0, "ask-document", *self.store_flags, "--max-tokens", "2", "What is in it?")
        out, _ = self.check(0, "lectern-store", *self.store_flags, "--json", "gc")
        self.assertEqual(json.loads(out),
                         {"generations": 0, "files": 0, "in_use": 0, "unknown": []})
        self.check(0, "lectern-store", *self.store_flags, "seal")
        self.check_error(1, "SEALED", "lectern-store", *self.store_flags, "remove", "--yes",
                         "lease.txt")
        self.check(0, "lectern-store", *self.store_flags, "verify", "--full")


class ClusteredStoreTest(ToolsTest):
    TEXT_BYTES = 9000

    setUp = StoreTest.setUp

    def test_list_and_show(self):
        out, _ = self.check(0, "lectern-store", *self.store_flags, "--json", "list")
        [document] = json.loads(out)["documents"]
        self.assertEqual((document["document"], document["name"], document["state"]),
                         (self.report["document"], "lease.txt", "ready"))
        self.assertEqual(document["tokens"], self.report["tokens"])
        out, _ = self.check(0, "lectern-store", "list", *self.store_flags)
        self.assertRegex(out, r"^[0-9a-f]{32}  .* tokens  .*  ready  lease\.txt\n$")
        for name in ("lease.txt", self.report["document"]):
            out, _ = self.check(0, "lectern-store", *self.store_flags, "show", "--json", name)
            details = json.loads(out)
            self.assertEqual(details["document"], self.report["document"])
            self.assertTrue(details["shards"])
            self.assertEqual(sum(shard["bytes"] for shard in details["shards"]),
                             details["bytes_on_disk"])
        out, _ = self.check(0, "lectern-store", *self.store_flags, "show", "lease.txt")
        self.assertIn("name         lease.txt\n", out)
        self.assertIn("plan         uniform over layers, global over heads\n", out)
        self.assertRegex(out, r"\n {6}0  0\.\d{4}  [-\d.]+ +[\d.]+\n")
        self.assertRegex(out, r"\nkv budget    0\.\d+ \(auto: predicted divergence [\d.e-]+ nats a token, limit 0\.01\)\n")
        plan = details["plan"]
        self.assertTrue(plan["kv_budget_auto"])
        self.assertEqual(plan["max_divergence"], 0.01)
        self.assertLessEqual(plan["divergence"], 0.01)
        self.assertEqual((plan["layer_budget"], plan["head_budget"], plan["stats"]),
                         ("uniform", "global", "window"))
        for layer in plan["layers"]:
            # The document is so short that the least a step reads is near the whole budget.
            self.assertAlmostEqual(layer["share"], plan["kv_budget"], delta=0.01)
            self.assertIsNone(layer["heads"])
            self.assertLessEqual(abs(layer["cosine"]), 1)
        self.check_error(3, "nothing", "lectern-store", *self.store_flags, "show", "nothing")

    def test_plan(self):
        self.check_error(2, "uniform, pyramid", "lectern-store", *self.store_flags, "plan",
                         "lease.txt", "--layer-budget", "cone")
        out, _ = self.check(0, "lectern-store", *self.store_flags, "plan", "lease.txt",
                            "--layer-budget", "pyramid", "--kv-budget", "0.4")
        self.assertEqual(out, "changed the plan of lease.txt\n")
        self.check_error(2, "--stats full", "lectern-store", *self.store_flags, "plan",
                         "lease.txt", "--head-budget", "kv-compress-full")
        self.check_error(3, "config.json", "lectern-store", *self.store_flags, "plan",
                         "lease.txt", "--kv-budget", "0.5", "--model", self.path("no-model"))
        out, _ = self.check(0, "ask-document", *self.store_flags, "--json", "--max-tokens", "2",
                            "Who repairs the roof?")
        kv = json.loads(out)["kv"]
        self.assertEqual((kv["budget"], kv["layer_budget"], kv["head_budget"]),
                         (0.4, "pyramid", "global"))


if __name__ == "__main__":
    if not os.access(os.path.join(BIN, "index-document"), os.X_OK):
        sys.exit("LECTERN_BIN does not name the folder of the built tools")
    unittest.main()
