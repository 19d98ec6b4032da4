#!/usr/bin/env python3
"""Asks thousands of questions through the Python package, and prints how memory and threads stand:
a leak of the binding, of an answer or of a session would show as growth. Exits 1 where memory grows
by more than 8 MB over the last nine tenths of the questions, or threads or open files by any.

soak.py QUESTIONS MODEL [MEGABYTES]     the growth that is allowed, instead of 8"""
import gc
import os
import pathlib
import sys
import tempfile
import threading
import time

import lectern

TEXT = ("Ünal has two boats. The Douquouth committee meets in Stuxwick. Ann sings. 委员会在码头开会。 "
        "Quinces are sold in Osk on Tuesdays alone. ") * 3
MOST_GROWTH = 8e6  # bytes; an answer with its JSON has about 10 KB, so 10,000 that leak have 100 MB


def resident() -> int:
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


def main(count: int, model: str, most_growth: float) -> int:
    questions = ["Who has two boats?", "Where does the Douquouth committee meet?", "Who sings?"]
    with tempfile.TemporaryDirectory() as folder, lectern.Store(folder, model=model) as store:
        store.index_text(TEXT, name="towns")
        keep = store.open("towns")  # so that the document stays open
        token, first, begun = lectern.CancelToken(), (0, 0, 0), time.monotonic()
        for number in range(1, count + 1):
            question = questions[number % 3]
            with store.open("towns") as session:
                if number % 10 == 0:  # pieces, some of them forgotten
                    stream = session.stream(question, max_tokens=8)
                    next(stream)
                    if number % 20:
                        stream.answer
                    del stream
                elif number % 10 == 5:  # ended by a callback
                    session.ask(question, max_tokens=8, on_text=lambda _: False, cancel=token)
                else:
                    session.ask(question, max_tokens=8, cancel=token)
            if number % 100 == 0:
                store.cite("towns", "The committee meets in Stuxwick.", question=question)
                try:
                    store.open("nowhere")
                except lectern.NotFoundError:
                    pass
            if number == count // 10:
                time.sleep(0.5)  # threads of forgotten streams end
                first = resident(), threads(), files()
        seconds = time.monotonic() - begun
        time.sleep(0.5)
        last = resident(), threads(), files()
        keep.close()
        growth = last[0] - first[0]
        print(f"{count} questions in {seconds:.0f} s: memory {first[0] / 1e6:.1f} MB after a tenth, "
              f"{last[0] / 1e6:.1f} MB at the end ({growth / 1e6:+.2f}); threads {first[1]}, "
              f"{last[1]}; open files {first[2]}, {last[2]}; "
              f"Python's threads {threading.active_count()}")
        return int(growth > most_growth or last[1] > first[1] or last[2] > first[2])


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sys.exit(main(int(sys.argv[1]), sys.argv[2],
                  float(sys.argv[3]) * 1e6 if len(sys.argv) == 4 else MOST_GROWTH))
