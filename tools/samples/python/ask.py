#!/usr/bin/env python3
"""Indexes a text file and asks about it: ask.py MODEL STORE FILE QUESTION"""
import pathlib
import sys

import lectern


class Meter:
    """One line on stderr, rewritten; where that is no terminal, a line for each stage."""
    stage = ""

    def __call__(self, progress: lectern.Progress) -> None:
        if sys.stderr.isatty():
            print(f"\r{progress.stage} {progress.done}/{progress.total}\033[K", end="",
                  file=sys.stderr, flush=True)
        elif progress.stage != self.stage:
            print(progress.stage, file=sys.stderr)
        self.stage = progress.stage

    def done(self) -> None:
        if self.stage and sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def main(model: str, store: str, file: str, question: str) -> None:
    with lectern.Engine(store, model) as engine:
        meter = Meter()
        report = engine.index(pathlib.Path(file).read_bytes(), on_progress=meter)
        meter.done()
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
