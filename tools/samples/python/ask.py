#!/usr/bin/env python3
"""Indexes a text file and asks about it: ask.py MODEL STORE FILE QUESTION"""
import pathlib
import sys

import lectern


def show(progress: lectern.Progress) -> None:
    print(f"\r{progress.stage} {progress.done}/{progress.total}   ", end="", file=sys.stderr)


def main(model: str, store: str, file: str, question: str) -> None:
    with lectern.Engine(store, model) as engine:
        report = engine.index(pathlib.Path(file).read_bytes(), on_progress=show)
        print(file=sys.stderr)
        with engine.open(report["document"]) as session:
            answer = session.ask(question, on_text=lambda text: print(text, end="", flush=True))
    print()
    for passage in answer.evidence:
        print(f"[{passage.begin}:{passage.end}] {passage.text}")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except lectern.Error as error:
        sys.exit(f"{error.code}: {error}")
