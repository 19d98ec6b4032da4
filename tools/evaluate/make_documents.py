#!/usr/bin/env python3
"""Writes the documents and questions of the table of lectern-evaluate:

    make_documents.py DIR [--lengths 8192 32768] [--documents 20] [--questions 50]

For each length (tokens of the reader's tokenizer, about) DIR/8k-01.txt with DIR/8k-01.jsonl and so
on, always the same bytes. Every document has the reader's tasks in it (facts of all kinds, lists,
answers over two facts, refusals) and RULER's synthetic ones (needles, variables, words), as
tools/reader/evaluate.py mixes them; the questions stand in a drawn order, so that the first ones of
a file are a sample of all. Standard library only.
"""

import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "reader"))

import evaluate  # noqa: E402


def main():
    """Writes the files into the folder, which it makes. Exits with a message at the first document
    that has fewer questions than asked for; the files before it stay."""
    parser = argparse.ArgumentParser(description="Writes documents and questions; see the top of "
                                     "this file.")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--lengths", type=int, nargs="+", default=[8192, 32768])
    parser.add_argument("--documents", type=int, default=20, help="of each length")
    parser.add_argument("--questions", type=int, default=50, help="of each document")
    a = parser.parse_args()
    a.wordings = "train"

    a.folder.mkdir(parents=True, exist_ok=True)
    for length in a.lengths:
        for number in range(1, a.documents + 1):
            # Other documents than those that the reader's own table is made of.
            seed = 100 * length + number
            text, lines = evaluate.make(a, length, list(evaluate.TASKS), a.questions, seed,
                                        a.folder)
            if len(lines) < a.questions:
                sys.exit(f"a document of {length} tokens has no more than {len(lines)} questions")
            random.Random(seed).shuffle(lines)
            path = a.folder / f"{length // 1024}k-{number:02}"
            path.with_suffix(".txt").write_text(text)
            path.with_suffix(".jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))


if __name__ == "__main__":
    main()
