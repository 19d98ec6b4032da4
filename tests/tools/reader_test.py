#!/usr/bin/env python3
"""The generator of the reader's documents: what it says of itself holds; and how answers about real
texts are counted. Standard library only."""

import json
import pathlib
import random
import re
import sys
import tempfile
import unittest

READER = pathlib.Path(__file__).resolve().parents[2] / "tools/reader"
sys.path.insert(0, str(READER))

import documents  # noqa: E402
import facts  # noqa: E402
import generate  # noqa: E402
import measure_answers  # noqa: E402

TASKS = ("facts", "needle", "variable", "words")


def make(seed, size=4000, count=30, task="facts", **options):
    return documents.make_document(random.Random(seed), size, count, documents.Options(**options),
                                   task)


def invented(text):
    """The invented words of a text: no word of the wordings, tables and fillers."""
    return set(re.findall(r"[A-Za-z]+", text)) - known_words()


_known = set()


def known_words():
    if not _known:
        source = "".join((READER / name).read_text() for name in ("facts.py", "documents.py"))
        for word in re.findall(r"[A-Za-z]+", source):
            _known.update((word, word.lower(), word.capitalize()))
        # The amounts' units, made plural or not, and labels such as VA-957 or VAR QGK.
        _known.update(documents.KEYS)
    return _known


def matches(wordings):
    """One pattern for wordings, their parts standing for anything."""
    parts = []
    for w in wordings:
        literal = re.split(r"\{[a-zA-Z]\}", w)
        parts.append(".+".join(re.escape(p) for p in literal))
    return re.compile("^(?:" + "|".join(parts) + ")$")


class ReaderTest(unittest.TestCase):
    def test_the_same_arguments_give_the_same_bytes(self):
        for task in TASKS:
            with self.subTest(task):
                a, b = make(5, task=task), make(5, task=task)
                self.assertEqual(a.text(), b.text())
                self.assertEqual([(q.text, q.answer()) for q in a.questions],
                                 [(q.text, q.answer()) for q in b.questions])
                self.assertNotEqual(a.text(), make(6, task=task).text())

    def test_names_of_the_splits_are_disjoint(self):
        r = random.Random(1)
        for _ in range(3000):
            for split in ("train", "eval"):
                name = facts.invent(r, split, r.choice([1, 2]))
                self.assertEqual(facts.is_held_out(name), split == "eval", name)

    def test_documents_hold_only_names_of_their_split(self):
        for split in ("train", "eval"):
            seen = 0
            for seed in range(20):
                d = make(seed, split=split)
                for name in invented(d.text()):
                    if len(name) <= 3:       # labels and codes
                        continue
                    seen += 1
                    self.assertEqual(facts.is_held_out(name), split == "eval", name)
            self.assertGreater(seen, 500)

    def test_wordings_of_the_splits_are_disjoint(self):
        tables = [facts.STATEMENTS, facts.CORRECTIONS, facts.ABSENCES, facts.ADDITIONS,
                  facts.LEADS, facts.QUESTIONS, facts.QUESTION_LEADS, facts.MULTI_QUESTIONS,
                  facts.INNER]
        for _, attributes in facts.DOMAINS.values():
            for a in attributes:
                tables += [a.statements, a.questions]
                self.assertGreaterEqual(len(a.statements["train"]), 3, a.nouns)
                self.assertGreaterEqual(len(a.questions["train"]), 3, a.nouns)
        for table in tables:
            self.assertTrue(table["train"])
            self.assertTrue(table["eval"])
            self.assertFalse(set(table["train"]) & set(table["eval"]), table)
        self.assertFalse(set(documents.VERBS["train"]) & set(documents.VERBS["eval"]))

    def test_questions_use_the_wordings_of_their_split(self):
        patterns = {}
        for split in ("train", "eval"):
            allowed = list(facts.QUESTIONS[split]) + facts.MULTI_QUESTIONS[split]
            for _, attributes in facts.DOMAINS.values():
                for a in attributes:
                    allowed += a.questions[split]
            allowed += [lead.replace("{s}", w[0].lower() + w[1:])
                        for lead in facts.QUESTION_LEADS[split] for w in allowed]
            pattern = patterns[split] = matches(allowed)
            for seed in range(10):
                for q in make(seed, wordings=split).questions:
                    self.assertRegex(q.text, pattern)
        # The patterns tell the splits apart, if not in every single question.
        for split, other in (("train", "eval"), ("eval", "train")):
            asked = [q.text for seed in range(10) for q in make(seed, wordings=split).questions]
            strangers = sum(not patterns[other].match(text) for text in asked)
            self.assertGreater(strangers, 0.3 * len(asked))

    def test_passages_state_the_answers(self):
        kinds = set()
        for task in TASKS:
            for seed in range(30):
                d = make(seed, task=task)
                text = d.text()
                self.assertTrue(text.isascii())
                for q in d.questions:
                    kinds.add(q.kind)
                    ranges = d.byte_ranges(q)
                    self.assertEqual(ranges, sorted(ranges))
                    if q.kind == "refusal":
                        self.assertEqual((q.answer(), ranges), (facts.NOT_STATED, []))
                        continue
                    passages = [text[b:e] for b, e in ranges]
                    self.assertTrue(all(p == p.strip() and p for p in passages), passages)
                    if q.answer() == facts.NONE:
                        continue
                    for value, _ in q.answers:
                        self.assertTrue(any(value.lower() in p.lower() for p in passages),
                                        (value, passages))
        self.assertEqual(kinds, set(documents.KINDS))

    def test_answers_are_the_only_ones(self):
        """No question is asked twice with different answers."""
        for seed in range(60):
            answers = {}
            for q in make(seed, size=9000, count=90, hard=0.7).questions:
                self.assertEqual(answers.setdefault(q.text, q.answer()), q.answer(), q.text)

    def test_refused_entities_have_no_such_fact(self):
        """A refused question about a named entity is answered nowhere else."""
        for seed in range(40):
            d = make(seed, count=60, size=6000)
            asked = {q.text for q in d.questions if q.kind != "refusal"}
            for q in d.questions:
                if q.kind == "refusal":
                    self.assertNotIn(q.text, asked)

    def test_size_is_kept(self):
        for size in (1500, 6000, 40000):
            text = make(3, size=size, count=10).text()
            self.assertLess(abs(len(text) - size), 250)

    def test_near_duplicates_share_a_word(self):
        r = random.Random(4)
        groups = documents.make_facts(r, 200, documents.Options(hard=1.0))
        shared = 0
        for before, group in zip(groups, groups[1:]):
            shared += bool(set(before[0].entity.split()) & set(group[0].entity.split()))
        self.assertGreater(shared, 0.6 * len(groups))

    def test_command_line_writes_what_it_promises(self):
        with tempfile.TemporaryDirectory() as folder:
            sys.argv = ["generate.py", "--out", folder, "--name", "x", "--questions", "5",
                        "--kinds", "fact", "two_hop"]
            generate.main()
            text = pathlib.Path(folder, "x.txt").read_text()
            lines = [json.loads(line) for line in
                     pathlib.Path(folder, "x.jsonl").read_text().splitlines()]
            self.assertEqual(len(lines), 5)
            for line in lines:
                self.assertIn(line["kind"], ("fact", "two_hop"))
                for p in line["passages"]:
                    self.assertTrue(text[p["begin"]:p["end"]].strip())


def line(kind, said, probability, document="a", accepted=("nine",)):
    """A line as measure_answers.py ask writes it."""
    return {"document": document, "asked": {"kind": kind, "answers": list(accepted), "passages": []},
            "said": {"answer": said, "refusal_probability": probability}}


class MeasureTest(unittest.TestCase):
    REFUSAL = "The document does not say."

    def test_passages_move_with_their_texts(self):
        size = measure_answers.DOCUMENT_BYTES // 3
        texts = []
        for n in range(4):
            text = (f"Gate {n} shuts at nine. " + "x" * size).encode()
            texts.append((f"t{n}", text, [{"question": f"{n}?", "passages": [{"begin": 0, "end": 21}]}]))
        documents = measure_answers.joined(texts)
        self.assertEqual([name for name, _, _ in documents], ["t0", "t2"])
        for _, text, questions in documents:
            self.assertLessEqual(len(text), measure_answers.DOCUMENT_BYTES)
            for q in questions:
                [p] = q["passages"]
                self.assertEqual(text[p["begin"]:p["end"]].decode(), f"Gate {q['question'][:-1]} shuts at nine.")

    def test_a_threshold_refuses_what_is_as_likely(self):
        lines = [line("fact", "At nine.", 0.1), line("fact", "At nine.", 0.4), line("fact", "At ten.", 0.4),
                 line("fact", self.REFUSAL, 0.9), line("fact", self.REFUSAL, 0.05), line("absent", "At nine.", 0.5),
                 line("absent", self.REFUSAL, 0.05), line("absent", "At nine.", 0.01)]
        self.assertEqual(measure_answers.counts(lines), (5, 2, 2, 3, 1))
        # A refusal that decoding came to counts where its probability reaches the threshold, only there.
        self.assertEqual(measure_answers.counts(lines, 0.4), (5, 1, 3, 3, 1))
        self.assertEqual(measure_answers.counts(lines, 0.01), (5, 0, 5, 3, 3))
        self.assertEqual(measure_answers.counts(lines, 1.01), (5, 2, 2, 3, 1))  # off
        # A model without a refusal has no probability of it.
        self.assertEqual(measure_answers.counts([line("fact", "At nine.", None)], 0.01)[:3], (1, 1, 0))

    def test_the_best_threshold_weighs_both_shares(self):
        # Ten facts at 0.2 to 0.29. From 0.25 on half of them are refused, from 0.3 on none.
        facts = [line("fact", "At nine.", 0.2 + n / 100) for n in range(10)]
        absent = [line("absent", "At nine.", p) for p in (0.26, 0.285, 0.5, 0.6)]
        self.assertEqual(measure_answers.best_threshold(facts + absent), 0.5)
        self.assertEqual(measure_answers.best_threshold(facts + absent[:2]), 0.25)


if __name__ == "__main__":
    unittest.main()
