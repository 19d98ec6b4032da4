#!/usr/bin/env python3
"""Counts what ranks read and send when they ask a document together: strong and weak scaling.

    rank_scaling.py --bin BUILD --work DIR [--tokens N] [--weak N] [--ranks N…]

Makes the model T of make_models.py (needs numpy) in DIR/model, documents of --tokens tokens (default:
1,000,000) and of --weak tokens a rank (default: 65,536) in DIR, and asks each by mpirun with every
number of ranks, at budgets of 0.1 and 1. A question has 64 tokens, its answer 8. Prints two tables in
Markdown. Counts do not depend on the machine, and two cores could not show times.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Keys and values of most tokens repeat those of the first ones, with noise (ask_bench).
PREFILLED = 4096
QUESTION = "Which of the committees that the text names met in the hall by the river, and on what day? " * 3
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def index(arguments, tokens):
    store = arguments.work / str(tokens)
    if not (store / "catalog.db").exists():
        subprocess.run([arguments.bin / "tests/bench/ask_bench", "index", arguments.work / "model", store, "stored",
                        str(tokens), str(PREFILLED)], check=True, stdout=subprocess.DEVNULL)
    return store


def ask(arguments, store, ranks, budget):
    """The answer's JSON, with what each rank read."""
    done = subprocess.run(
        ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), arguments.bin / "tools/ask-document",
         "--threads", "1", "--store", store, "--model", arguments.work / "model", "--kv-budget", str(budget),
         "--max-tokens", "8", "--lookup-decoding", "off", "--json", QUESTION],
        check=True, stdout=subprocess.PIPE, env=ENVIRONMENT, text=True)
    return json.loads(done.stdout)


def mebibytes(count):
    return f"{count / (1 << 20):,.1f}"


def row(arguments, tokens, ranks, budget):
    answer = ask(arguments, index(arguments, tokens), ranks, budget)
    read = [rank["bytes_read"] for rank in answer.get("ranks", [{"bytes_read": answer["kv"]["bytes_read"]}])]
    passes = max(1, answer["tokens"]["answer"])  # of the question, and of each token but the last
    messages, sent = answer.get("rank_messages", 0), answer.get("rank_message_bytes", 0)
    print(f"| {tokens:,} | {ranks} | {budget} | {mebibytes(max(read))} | {mebibytes(min(read))} | "
          f"{mebibytes(sum(read))} | {messages / passes / 2:.1f} | {sent / passes / 2 / 1024:,.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--weak", type=int, default=65536)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    arguments = parser.parse_args()
    arguments.bin, arguments.work = arguments.bin.resolve(), arguments.work.resolve()
    model = arguments.work / "model"
    if not (model / "config.json").exists():
        model.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, HERE / "make_models.py", "T", model, "--no-gguf"], check=True)
    head = ("| tokens | ranks | budget | most read by a rank, MiB | least, MiB | all, MiB | meetings a layer | "
            "KiB sent by the first rank a layer |\n|---|---|---|---|---|---|---|---|")
    print("Strong scaling: one document.\n\n" + head)
    for budget in (0.1, 1):
        for ranks in arguments.ranks:
            row(arguments, arguments.tokens, ranks, budget)
    print("\nWeak scaling: a document as long as there are ranks.\n\n" + head)
    for ranks in arguments.ranks:
        row(arguments, arguments.weak * ranks, ranks, 0.1)


if __name__ == "__main__":
    main()
