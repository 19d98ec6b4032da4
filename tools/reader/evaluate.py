#!/usr/bin/env python3
"""How often the reader answers rightly, by length of the document and kind of question.

    evaluate.py --bin BUILD/tools [--model DIR] [--lengths 1024 4096 ...] [--wordings eval]
                [--questions 1000] [--documents N] [--kv-budget F | --focus MODE] [--adapter DIR] [--within]

Documents with names that the reader never saw, about 1 fact in 100 tokens (200 at most), near-
duplicate names, and questions of every kind, indexed and asked with Lectern's own tools, in exact
mode unless a budget or a focus is given (off: the automatic budget). An answer is right if it is the
expected text, whole; with --within, for models that say more, if it has the expected text, or
begins as a refusal where that is right. Prints a Markdown table, one row per length. `false refusals` are answers "The document does not say." to
questions that it does answer. 1,000 questions up to 16384 tokens: on many documents of one task
each, from 8192 tokens on 12 documents of all tasks; 200 on 5 such documents above. Unless told
otherwise.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import documents
import facts
import generate
import judging

# Share of the questions, and of a document that has all of them
TASKS = {"needle": 0.12, "variable": 0.05, "words": 0.03, "facts": 0.80}
BYTES_PER_TOKEN = 3.9
LONG = 8192                # tokens above which a few documents have all tasks in them


def run(a, tool, *arguments):
    """Runs a tool of Lectern's and returns the JSON objects of its stdout, one a line. Exits with
    the tool's message where it fails. LECTERN_MODEL does not count."""
    command = [str(a.bin / tool), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={k: v for k, v in os.environ.items() if k != "LECTERN_MODEL"})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def make(a, length, tasks, num_questions, seed, folder):
    """A document with a part for each task, the last of which gets the questions that are missing
    -> text, questions"""
    text, lines = "", []
    whole = sum(TASKS[task] for task in tasks)
    for task in tasks:
        share = TASKS[task] / whole
        at_most = num_questions - len(lines)
        if task != tasks[-1]:
            at_most = min(at_most, round(num_questions * share))
        options = generate.arguments([
            "--bytes", str(int(length * BYTES_PER_TOKEN * share)), "--task", task,
            "--facts", str(max(3, int(min(200, length // 100) * share))),
            "--questions", str(at_most), "--out", str(folder), "--seed", str(seed),
            "--wordings", a.wordings])
        part, asked = generate.make(options)
        text += "\n\n" if text else ""
        for line in asked:
            for passage in line["passages"]:
                passage["begin"] += len(text)      # text is ASCII, so characters are bytes
                passage["end"] += len(text)
        text += part
        lines += asked
    return text, lines


def documents_of(a, length, folder):
    """Yields text, questions until --questions questions were made, or --documents documents."""
    num_questions = a.questions or (200 if length > 16384 else 1000)
    seed = length * 1000
    if length > LONG or a.documents:
        # Every document has all tasks in it, and its part of the questions.
        count = a.documents or (5 if length > 16384 else 12)
        for seed in range(seed + 1, seed + count + 1):
            yield make(a, length, list(TASKS), -(-num_questions // count), seed, folder)
        return
    for task, share in TASKS.items():
        wanted = left = max(1, round(num_questions * share))
        while left > 0:
            seed += 1
            at_most = left if length <= 1024 else min(left, max(10, wanted * length // 65536))
            text, lines = make(a, length, [task], at_most, seed, folder)
            left -= len(lines)
            if lines:
                yield text, lines


def is_right(a, expected, answer):
    if not a.within:
        return answer == expected
    if expected == facts.NOT_STATED:
        return judging.is_refusal(answer)
    return expected.lower().rstrip(".") in answer.lower()


def measure(a, length, folder):
    """-> tokens, {kind: [right, asked]}, false refusals, questions with an answer"""
    right, tokens = collections.defaultdict(lambda: [0, 0]), []
    false_refusals = answerable = 0
    for number, (text, lines) in enumerate(documents_of(a, length, folder)):
        name = f"{length}-{number}"
        (folder / f"{name}.txt").write_text(text)
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        index = run(a, "index-document", "--store", str(folder / "store"), "--json",
                    "--progress", "none", "--yes", "--name", name, *a.of_model,
                    str(folder / f"{name}.txt"))[0]
        tokens.append(index["tokens"])
        mode = ["--kv-budget", str(a.kv_budget)] if a.kv_budget else \
            ["--focus", a.focus, "--max-tokens", "40"] if a.focus else ["--exact"]
        answers = run(a, "ask-document", "--store", str(folder / "store"), "--json",
                      "--document", name, "--questions", str(folder / f"{name}.jsonl"), *mode,
                      *(["--adapter", a.adapter] if a.adapter else []))
        run(a, "lectern-store", "--store", str(folder / "store"), "--json", "remove", "--yes", name)
        for line, answer in zip(lines, answers, strict=True):
            right[line["kind"]][0] += is_right(a, line["answer"], answer["answer"])
            right[line["kind"]][1] += 1
            if line["kind"] != "refusal":
                answerable += 1
                false_refusals += is_right(a, facts.NOT_STATED, answer["answer"])
    return sum(tokens) / len(tokens), right, false_refusals, answerable


def main():
    parser = argparse.ArgumentParser(description="Measures the reader; see the top of this file.")
    add = parser.add_argument
    add("--bin", type=pathlib.Path, required=True)
    add("--model")
    add("--lengths", type=int, nargs="+", default=[1024, 4096, 16384, 32768, 65536, 131072 - 1024])
    add("--questions", type=int)
    add("--documents", type=int)
    add("--wordings", choices=["train", "eval"], default="train")
    add("--kv-budget", type=float)
    add("--focus", choices=["off", "words", "only"])
    add("--adapter")
    add("--within", action="store_true")
    a = parser.parse_args()
    a.of_model = (["--model", a.model] if a.model else []) + \
        (["--adapter", a.adapter] if a.adapter else [])

    cell = lambda r: f"{100 * r[0] / r[1]:.1f} ({r[1]})" if r[1] else ""
    print("| tokens | all | " + " | ".join(k.replace("_", " ") for k in documents.KINDS) +
          " | false refusals |\n|" + "---|" * (len(documents.KINDS) + 3), flush=True)
    for length in a.lengths:
        with tempfile.TemporaryDirectory(prefix="lectern-evaluate-") as folder:
            tokens, right, false, answerable = measure(a, length, pathlib.Path(folder))
        every = [sum(r[0] for r in right.values()), sum(r[1] for r in right.values())]
        cells = [f"{tokens:,.0f}", cell(every)] + [cell(right[k]) for k in documents.KINDS] + \
            [f"{100 * false / answerable:.1f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
