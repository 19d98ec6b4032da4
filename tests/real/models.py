#!/usr/bin/env python3
"""Released models as their users meet them, with no flag but --model: the doctor, an index, questions,
a follow-up, the server, an index that was killed; tokens and an answer beside llama.cpp's.

    models.py [--verbose] [SmolLM2] [Gemma3]

LECTERN_BIN          folder of the built tools
LECTERN_REAL_DIR     folder of the models
LECTERN_REAL_SKIP    why they could not be fetched; every case is skipped
LECTERN_REAL_TABLE   file for the table of what was measured
Standard library only. goldens.json holds llama.cpp's tokens and answers; make_goldens.py writes it.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import server_test  # its Server

BIN = pathlib.Path(os.environ.get("LECTERN_BIN", ""))
FOLDER = pathlib.Path(os.environ.get("LECTERN_REAL_DIR", ""))
SKIP = os.environ.get("LECTERN_REAL_SKIP", "")
TEXT = HERE / "lighthouse.txt"
LONG_TEXT, LONG_BYTES = HERE.parents[1] / "store/FORMAT.md", 12000
QUESTIONS = ["Who built the lighthouse?", "When was that?"]
OF_THE_MACHINE = {"instructions", "gpu", "threads", "blas", "memory", "disk", "pdf", "reader"}
MAX_TOKENS = ("--max-tokens", "32")
measured = {}  # of each model: column → what it says


class RealModel:
    """The cases; a class of a model adds its file. They share one store and one server."""

    FILE = ""

    @classmethod
    def setUpClass(cls):
        cls.server = None
        cls.folder = tempfile.TemporaryDirectory(prefix="lectern-real-")
        cls.store = os.path.join(cls.folder.name, "store")
        cls.model = str(FOLDER / cls.FILE)
        cls.golden = json.loads((HERE / "goldens.json").read_text())[cls.__name__]
        cls.row = measured.setdefault(cls.__name__, {})
        cls.indexed = None if SKIP else cls.run_tool("index-document", "--json", "--progress", "none",
                                                     "--model", cls.model, TEXT)

    @classmethod
    def tearDownClass(cls):
        if cls.server:
            cls.server.stop()
        cls.folder.cleanup()

    def setUp(self):
        if SKIP:
            self.skipTest(SKIP)
        self.assertEqual(self.indexed.returncode, 0, self.indexed.stderr)
        self.report = json.loads(self.indexed.stdout)

    @classmethod
    def environment(cls):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("LECTERN_", "XDG_"))}
        return {**env, "HOME": cls.folder.name}

    @classmethod
    def command(cls, tool, *arguments, store=None):
        return [BIN / tool, *(() if tool == "lectern-doctor" else ("--store", store or cls.store)),
                *arguments]

    @classmethod
    def run_tool(cls, tool, *arguments, store=None, stdin=""):
        return subprocess.run(cls.command(tool, *arguments, store=store), env=cls.environment(),
                              input=stdin, capture_output=True, text=True, timeout=600)

    def check(self, tool, *arguments, **options):
        """Runs a tool that has to end well; returns stdout."""
        done = self.run_tool(tool, *arguments, **options)
        self.assertEqual(done.returncode, 0, f"{tool} {arguments}\n{done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, *arguments, **options):
        out = self.check("ask-document", "--json", *MAX_TOKENS, *arguments, **options)
        return [json.loads(line) for line in out.splitlines()]

    def served(self):
        cls = type(self)
        if cls.server is None:
            cls.server = server_test.Server(self.store)
        return cls.server

    def test_the_doctor_finds_nothing_wrong(self):
        found = json.loads(self.check("lectern-doctor", "--json", "--model", self.model))["findings"]
        of_model = {f["name"]: f for f in found if f["name"] not in OF_THE_MACHINE}
        self.assertIn("kernel test", of_model)
        self.row["doctor"] = ", ".join(f"{n}: {f['verdict']}" for n, f in of_model.items()
                                       if f["verdict"] != "ok") or "nothing to say"
        kernel = of_model["kernel test"]["values"]
        if "error" in kernel:
            self.row["kernel test: error (limit)"] = f"{kernel['error']:.2g} ({kernel['limit']:.2g})"
        for finding in of_model.values():
            with self.subTest(finding["name"]):
                self.assertEqual(finding["verdict"], "ok", finding["text"])

    def test_the_index_has_llama_cpps_tokens(self):
        self.row["index"] = f"{self.report['tokens']:,} tokens, {self.report['seconds']['total']:.1f} s"
        self.assertEqual(self.report["tokens"], self.golden["document_tokens"])
        self.check("lectern-store", "verify", "--full")

    def test_tokens_are_llama_cpps(self):
        for text, ids in self.golden["tokens"].items():
            status, _, body = self.served().call("POST", "/tokenize", {"content": text})
            self.assertEqual((status, body.get("tokens")), (200, ids), repr(text))

    def test_an_exact_answer_begins_as_llama_cpps(self):
        """Both greedy; as far as llama.cpp's choice is clear."""
        answers = [self.ask("--exact", self.golden["question"])[0] for _ in range(2)]
        self.row["exact answer"] = f"{answers[1]['timings_ms']['total']:.0f} ms"
        self.assertEqual(answers[0]["answer"], answers[1]["answer"])
        self.assertEqual(answers[0]["kv"]["rule"], "exact")
        said, wanted = answers[0]["answer"].strip(), self.golden["answer"].strip()
        self.assertTrue(wanted)
        self.assertTrue(said.startswith(wanted) or said and wanted.startswith(said),
                        f"{said!r} is not {wanted!r}")

    def test_answers_are_repeatable(self):
        first, second, third = (self.ask("--threads", threads, QUESTIONS[0])[0]
                                for threads in ("2", "2", "1"))
        self.row["sparse answer"] = f"{second['timings_ms']['total']:.0f} ms"
        self.assertTrue(first["answer"].strip())
        self.assertEqual(first["answer"], second["answer"])
        self.assertEqual(first["answer"], third["answer"])
        self.assertEqual(first["evidence"], third["evidence"])
        text = TEXT.read_bytes()
        for passage in first["evidence"]:
            self.assertEqual(text[passage["begin"]:passage["end"]].decode(), passage["text"])

    def test_a_follow_up_in_the_loop_and_at_the_server(self):
        loop = self.ask("--exact", stdin="\n".join(QUESTIONS) + "\n")
        self.assertEqual(len(loop), 2)
        session, served = "new", []
        for question in QUESTIONS:
            status, _, body = self.served().ask(question=question, session=session, exact=True,
                                                max_tokens=int(MAX_TOKENS[1]))
            self.assertEqual(status, 200, body)
            session = body["session"]
            served.append(body)
        for ours, theirs in zip(loop, served):
            self.assertTrue(ours["answer"].strip())
            self.assertEqual(ours["answer"], theirs["answer"])
        self.assertGreater(loop[1]["kv"]["session_rows"], loop[0]["kv"]["session_rows"])
        self.row["follow-up"] = f"{loop[1]['timings_ms']['total']:.0f} ms"

    def test_chat_completions_of_the_server(self):
        def complete(*turns):
            status, _, body = self.served().call("POST", "/v1/chat/completions", {
                "model": TEXT.name, "kv_budget": 1, "max_tokens": int(MAX_TOKENS[1]),
                "messages": [{"role": "user" if i % 2 == 0 else "assistant", "content": turn}
                             for i, turn in enumerate(turns)]})
            self.assertEqual(status, 200, body)
            return body["choices"][0]["message"]["content"]
        answer = complete(QUESTIONS[0])
        self.assertEqual(answer, self.ask("--exact", QUESTIONS[0])[0]["answer"])
        self.assertTrue(complete(QUESTIONS[0], answer, QUESTIONS[1]).strip())

    def test_an_index_goes_on_after_a_kill(self):
        store = os.path.join(self.folder.name, "killed")
        text = os.path.join(self.folder.name, "long.txt")
        pathlib.Path(text).write_bytes(LONG_TEXT.read_bytes()[:LONG_BYTES])
        arguments = ("--progress", "none", "--model", self.model, text)
        process = subprocess.Popen(self.command("index-document", *arguments, store=store),
                                   env=self.environment(), stdout=subprocess.DEVNULL)
        # Work is kept every half a minute, and when the prefill is done. A store's first run keeps
        # some in tmp/ before, while it finds the heads of its model.
        while process.poll() is None and not list(
                pathlib.Path(store, "docs").rglob("checkpoint")):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        self.assertEqual(process.wait(), -signal.SIGKILL, "it ended before it could be killed")
        done = self.run_tool("index-document", *arguments, store=store)
        self.assertEqual(done.returncode, 0, done.stderr)
        went_on = re.search(r"continued an interrupted run after ([\d,]+) tokens", done.stderr)
        self.assertTrue(went_on, done.stdout + done.stderr)
        total = re.search(r"([\d,]+) tokens", done.stdout).group(1)
        self.row["killed, went on"] = f"after {went_on.group(1)} of {total} tokens"
        self.check("lectern-store", "verify", "--full", store=store)
        self.assertTrue(self.ask("What is Lectern?", store=store)[0]["answer"].strip())


class SmolLM2(RealModel, unittest.TestCase):
    FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

    def test_it_is_the_default_reader_once_it_is_fetched(self):
        cache = pathlib.Path(self.folder.name, ".cache/lectern")  # HOME is this folder
        cache.mkdir(parents=True)
        self.addCleanup(shutil.rmtree, cache)
        (cache / self.FILE).symlink_to(self.model)
        store = os.path.join(self.folder.name, "default")
        handbook = HERE.parents[1] / "tools/demo/handbook.txt"
        text = os.path.join(self.folder.name, "fees.txt")  # short, for the time that it takes
        pathlib.Path(text).write_bytes(handbook.read_bytes()[:6000])
        done = self.run_tool("index-document", "--progress", "none", text, store=store)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("with Lectern's adapter", done.stderr)
        [answer] = self.ask("On which days is the lending counter open?", store=store)
        self.assertRegex(answer["kv"]["rule"], "^words")  # for which the adapter asks
        self.row["default reader"] = answer["answer"]


class Gemma3(RealModel, unittest.TestCase):
    FILE = "gemma-3-270m-q4_k_m.gguf"


def table():
    columns = list(dict.fromkeys(column for row in measured.values() for column in row))
    lines = [["model", *columns]] + [[name, *(row.get(c, "–") for c in columns)]
                                     for name, row in measured.items() if row]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tearDownModule():
    if os.environ.get("LECTERN_REAL_TABLE") and any(measured.values()):
        pathlib.Path(os.environ["LECTERN_REAL_TABLE"]).write_text(table())


if __name__ == "__main__":
    unittest.main()
