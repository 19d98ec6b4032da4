#!/usr/bin/env python3
"""Lookup decoding beside decoding one by one: tokens in a second of the same answers.

    lookup_decoding.py --bin BUILD/tools --store DIR --document NAME [--questions FILE.jsonl]
                       [--copy] [--rounds 9] [--threads N] [-- FLAGS of ask-document]

Asks the questions of FILE (or, with --copy, tasks that have the answer quote the document) through
ask-document, all of them in one process, which decodes them with lookup decoding and then without
it, or first without and then with it, in turns. Answers must be the same. Prints a Markdown row: the
tokens in a second behind the first token, by the medians of the rounds of each question, with and
without; the median of the rounds' quotients, and in brackets the least and the largest; how many
tokens were proposed and accepted; and the quotient of whole answers, from question to end.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

COPY = ["Copy the first paragraph of the text word for word.",
        "Repeat the second paragraph of the text exactly as it is written.",
        "Quote the beginning of the text, word for word."]


def ask(args, questions, lookup):
    command = [f"{args.bin}/ask-document", "--store", args.store, "--document", args.document,
               "--questions", questions, "--parallel", "1", "--json",
               "--lookup-decoding", lookup]
    if args.threads:
        command += ["--threads", str(args.threads)]
    done = subprocess.run(command + args.flags, capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if not answers or any("answer" not in one for one in answers):
        sys.exit(done.stdout[-300:] + done.stderr)
    return answers


def decode_ms(answer):
    return answer["timings_ms"]["total"] - answer["timings_ms"]["first_token"]


def main():
    own, flags = sys.argv[1:], []
    if "--" in own:
        own, flags = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--document", required=True)
    parser.add_argument("--questions")
    parser.add_argument("--copy", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args(own)
    args.flags = flags
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "questions.jsonl")
        lines = [json.loads(line) for line in open(args.questions)] if args.questions else []
        texts = [line["question"] for line in lines if "question" in line] + COPY * args.copy
        path.write_text("".join(json.dumps({"question": text}) + "\n" for text in texts))
        rounds = []
        for number in range(args.rounds):
            order = ("auto", "off") if number % 2 == 0 else ("off", "auto")
            found = {lookup: ask(args, str(path), lookup) for lookup in order}
            same = [one["answer"] for one in found["auto"]] == [one["answer"] for one in found["off"]]
            if not same:
                sys.exit("the answers differ")
            rounds.append((found["auto"], found["off"]))
    # A question whose answer ends with its first token takes no step.
    steps = [max(0, one["tokens"]["answer"] - 1) for one in rounds[0][0]]

    def median_sum(which, time):
        return sum(statistics.median(time(one[which][i]) for one in rounds)
                   for i in range(len(steps)) if steps[i] > 0)

    def quotients(time):
        found = []
        for on, off in rounds:
            found.append(sum(time(off[i]) for i in range(len(steps)) if steps[i] > 0) /
                         sum(time(on[i]) for i in range(len(steps)) if steps[i] > 0))
        return found

    def total(answer):
        return answer["timings_ms"]["total"]

    tokens = sum(steps)
    ratio, whole = quotients(decode_ms), quotients(total)
    last = rounds[-1][0]
    print(f"| {args.document} | {len(steps)} | {tokens} "
          f"| {1000 * tokens / median_sum(1, decode_ms):.1f} "
          f"| {1000 * tokens / median_sum(0, decode_ms):.1f} "
          f"| {statistics.median(ratio):.2f} ({min(ratio):.2f} to {max(ratio):.2f}) "
          f"| {sum(one['tokens']['proposed'] for one in last)} "
          f"| {sum(one['tokens']['accepted'] for one in last)} "
          f"| {statistics.median(whole):.2f} |")


if __name__ == "__main__":
    main()
