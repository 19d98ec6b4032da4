#!/usr/bin/env python3
"""lectern-evaluate on one document: its figures stand in the order that theory gives them.

LECTERN_BIN         folder of the built tools
LECTERN_TEST_MODEL  model folder to index with
Standard library only.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/reader"))

import generate  # noqa: E402

BIN = pathlib.Path(os.environ["LECTERN_BIN"])
MODEL = os.environ["LECTERN_TEST_MODEL"]
MODES = ["default", "no-tail", "no-codes", "oracle", "paper-1", "paper-2"]


def evaluate(folder, *arguments):
    return subprocess.run(
        [BIN / "lectern-evaluate", "--store", f"{folder}/store", "--model", MODEL, *arguments],
        capture_output=True, text=True, timeout=600)


class EvaluateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lectern-evaluate-")
        folder = pathlib.Path(cls.folder.name)
        text, lines = generate.make(generate.arguments(
            ["--out", "unused", "--bytes", "16000", "--facts", "30", "--questions", "5"]))
        (folder / "manual.txt").write_text(text)
        cls.questions = folder / "manual.jsonl"
        cls.questions.write_text("".join(json.dumps(line) + "\n" for line in lines))
        # The files come right after a list, which must not swallow them.
        cls.done = evaluate(folder, "--json-file", f"{folder}/out.json", "--budgets", "0.2,0.1",
                            "--modes", ",".join(MODES), "--answers", "default,paper-1",
                            str(cls.questions))
        assert cls.done.returncode == 0, cls.done.stderr
        rows = json.loads((folder / "out.json").read_text())
        cls.rows = {(row["method"], row["budget"]): row for row in rows}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_method_has_a_row_for_every_budget(self):
        self.assertEqual(set(self.rows), {(m, b) for m in MODES for b in (0.1, 0.2)})
        self.assertEqual(self.done.stdout.count("\n"), 2 + len(self.rows))

    def test_nobody_reads_more_than_the_budget(self):
        for (method, budget), row in self.rows.items():
            self.assertGreater(row["read"], 0.9 * budget, method)
            # Thresholds of the paper's way and whole clusters meet it only in the mean.
            slack = 1.06 if method.startswith("paper") or method == "no-codes" else 1.0
            self.assertLessEqual(row["read"], slack * budget + 1e-4, method)

    def test_more_is_better(self):
        for method in MODES:
            more, less = self.rows[method, 0.2], self.rows[method, 0.1]
            self.assertLess(more["error, mean"], less["error, mean"], method)
            self.assertGreater(more["mass recalled"], less["mass recalled"], method)

    def test_nobody_recalls_more_than_the_oracle(self):
        for (method, budget), row in self.rows.items():
            self.assertLessEqual(row["mass recalled"],
                                 self.rows["oracle", budget]["mass recalled"] + 1e-4, method)

    def test_what_drops_the_rest_is_worse_than_the_oracle(self):
        for budget in (0.1, 0.2):
            for method in ("no-tail", "paper-1", "paper-2"):
                self.assertGreater(self.rows[method, budget]["error, mean"],
                                   self.rows["oracle", budget]["error, mean"], method)

    def test_we_beat_the_paper_at_equal_bytes(self):
        for budget in (0.1, 0.2):
            ours = self.rows["default", budget]["error, mean"]
            for method in ("paper-1", "paper-2"):
                self.assertLess(ours, self.rows[method, budget]["error, mean"], method)

    def test_answers_are_counted(self):
        for method in ("default", "paper-1"):
            row = self.rows[method, 0.2]
            self.assertEqual(row["questions"], 5)
            self.assertGreaterEqual(row["same %"], 0)
            self.assertGreaterEqual(row["KL, mean"], 0)
        self.assertIsNone(self.rows["oracle", 0.2]["questions"])

    def test_a_missing_document_is_named(self):
        missing = pathlib.Path(self.folder.name, "other.jsonl")
        missing.write_text(self.questions.read_text())
        done = evaluate(self.folder.name, str(missing))
        self.assertEqual(done.returncode, 3)
        self.assertIn('"other"', done.stderr)

    def test_a_document_without_clusters_is_refused(self):
        short = pathlib.Path(self.folder.name, "short.jsonl")
        short.write_text(self.questions.read_text())
        short.with_suffix(".txt").write_text("The ship Jasho carries marble.\n")
        done = evaluate(self.folder.name, str(short))
        self.assertEqual(done.returncode, 2)
        self.assertIn("no clusters", done.stderr)

    def test_bad_arguments_are_refused(self):
        for arguments in (["--budgets", "1.5"], ["--budgets", "1"], ["--calibration", "0"], ["--modes", "best"], ["--answers", "oracle"]):
            done = evaluate(self.folder.name, *arguments, str(self.questions))
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(arguments[0], done.stderr)


if __name__ == "__main__":
    unittest.main()
