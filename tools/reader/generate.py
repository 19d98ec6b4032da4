#!/usr/bin/env python3
"""Writes an invented document with facts in it, and questions about the facts.

    generate.py --bytes 12000 --facts 12 --questions 8 --seed 1 --out DIR --name NAME

DIR/NAME.txt is the document, DIR/NAME.jsonl has one question per line:

    {"question": ..., "answer": ..., "kind": ..., "passages": [{"begin": ..., "end": ...}, ...]}

with the byte ranges of the statements that answer it, in the order of the text; none where the
answer is that the document does not say. documents.py lists the tasks and kinds. The same
arguments give the same bytes. Names and sentences are those of --split eval unless told otherwise,
which the reader never saw in training; wordings are those of training, because what a reader can
do with wordings it never saw is a question of its own (--wordings eval).

Standard library only.
"""

import argparse
import json
import pathlib
import random

import documents


def make(a):
    """-> text, [line of the questions]"""
    r = random.Random(a.seed)
    o = documents.Options(split=a.split, wordings=a.wordings, hard=a.hard, linked=a.linked,
                          extras=a.extras, refusals=a.refusals, per_entity=a.per_entity,
                          blocks=a.blocks)
    document = documents.make_document(r, a.bytes, a.facts, o, a.task)
    text, lines = document.text(), []
    assert text.isascii()
    for q in document.questions:
        if a.kinds and q.kind not in a.kinds:
            continue
        ranges = document.byte_ranges(q)
        lines.append({"question": q.text, "answer": q.answer(), "kind": q.kind,
                      "passages": [{"begin": b, "end": e} for b, e in ranges]})
        if len(lines) == a.questions:
            break
    return text, lines


def arguments(given=None):
    """The options of the command line, or of the list `given`. Exits on a wrong one, as argparse
    does."""
    defaults = documents.Options()
    parser = argparse.ArgumentParser(description="Writes a document and questions about it; see "
                                     "the top of this file.")
    add = parser.add_argument
    add("--bytes", type=int, default=12000)
    add("--task", choices=documents.MAKERS, default="facts")
    add("--facts", type=int, default=12, help="facts or needles in the document")
    add("--questions", type=int, default=8, help="at most")
    add("--kinds", nargs="+", choices=documents.KINDS, help="of questions; all if not given")
    add("--seed", type=int, default=1)
    add("--out", type=pathlib.Path, required=True)
    add("--name", default="document")
    add("--split", choices=["train", "eval"], default="eval")
    add("--wordings", choices=["train", "eval"], default="train")
    add("--hard", type=float, default=defaults.hard,
        help="chance that an entity is made to look like another")
    add("--linked", type=float, default=defaults.linked,
        help="chance that a value is an entity with facts of its own")
    add("--extras", type=float, default=defaults.extras,
        help="share of facts with a second value, a correction or an absence")
    add("--refusals", type=float, default=defaults.refusals,
        help="questions without an answer, per fact")
    add("--blocks", type=float, default=defaults.blocks,
        help="chance that the facts of an entity stand together, as in a table or a list")
    add("--per-entity", type=int, default=defaults.per_entity, help="most facts of an entity")
    return parser.parse_args(given)


def main():
    a = arguments()
    text, lines = make(a)
    a.out.mkdir(parents=True, exist_ok=True)
    (a.out / f"{a.name}.txt").write_text(text)
    (a.out / f"{a.name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
