#!/usr/bin/env python3
"""How often a model answers questions about real texts rightly, through Lectern's own tools.

  measure_answers.py ask --bin BUILD/tools --model MODEL [--adapter DIR] --out OUT.jsonl [--set SET]
                         [--seed N] [--texts DIR] [--store DIR] [--facts N] [--absent N] [--documents N]
                         [-- FLAGS OF ask-document...]
  measure_answers.py table OUT.jsonl...      counts, one row a file
  measure_answers.py curve OUT.jsonl...      what each threshold of the refusal (refuse_at) would do

SET: "held-out", the texts that no adapter was trained on (the default), or "train", the others.
Neighbours among them are joined to documents of about 20,000 bytes. Of each text, N facts and N
questions that it does not answer are drawn by the seed; all, unless given. A fact is right if an
accepted string is in the answer (judging.py); its passage is right if the first one shown overlaps
one that states it.

A curve needs answers that were asked with `--refuse-at 1`: then the model's own answer is known
beside the probability of its refusal, which decides alone. Where decoding came to a refusal that a
threshold does not allow, the fact counts as not answered rightly, though the answer instead of it
may be right. "Best" is by Youden's J, the share of absent questions that are refused less the share
of the facts; chosen on each half of the documents and counted on the other half, too.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import judging
import package_texts

DOCUMENT_BYTES = 20000
THRESHOLDS = (.01, .02, .03, .05, .07, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1.01)


def texts_of(a):
    """(name, text, questions) of each text of the set whose recorded text is there."""
    found = []
    for path in sorted(package_texts.QUESTIONS.glob("*.jsonl")):
        record, *questions = [json.loads(line) for line in path.read_text().splitlines()]
        if judging.is_held_out(record["package"]) != (a.set == "held-out"):
            continue
        file = a.texts / (path.stem + ".txt")
        text = file.read_bytes() if file.exists() else b""
        if hashlib.sha256(text).hexdigest() != record["sha256"]:
            print(f"{path.name}: SKIPPED: its text is not there; package_texts.py fetch brings it", file=sys.stderr)
            continue
        drawn = []
        for kind, most in (("fact", a.facts), ("absent", a.absent)):
            of_kind = [q for q in questions if q["kind"] == kind]
            r = random.Random(f"{a.seed}/{path.stem}/{kind}")
            drawn += of_kind if most is None else r.sample(of_kind, min(most, len(of_kind)))
        found.append((path.stem, text, drawn))
    return found


def joined(texts):
    """[(name, text, questions)]: neighbours joined, their passages moved."""
    documents = []
    for name, text, questions in texts:
        if documents and len(documents[-1][1]) + len(text) <= DOCUMENT_BYTES:
            before_name, before, asked = documents.pop()
            before += b"\n\n"
        else:
            before_name, before, asked = name, b"", []
        moved = [{**q, "passages": [{"begin": p["begin"] + len(before), "end": p["end"] + len(before)}
                                    for p in q["passages"]]} for q in questions]
        documents.append((before_name, before + text, asked + moved))
    return documents


def run(a, tool, *arguments):
    """The JSON objects that a tool of Lectern's prints, one a line. Exits where it fails."""
    command = [str(a.bin / tool), "--store", str(a.store), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={k: v for k, v in os.environ.items() if not k.startswith("LECTERN_")})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def ask(a):
    documents = joined(texts_of(a))
    random.Random(a.seed).shuffle(documents)
    with tempfile.TemporaryDirectory() as folder, a.out.open("w") as out:
        folder = pathlib.Path(folder)
        a.store = a.store or folder / "store"
        for name, text, questions in documents[:a.documents]:
            file, lines = folder / f"{name}.txt", folder / "questions.jsonl"
            file.write_bytes(text)
            lines.write_text("".join(json.dumps({"question": q["question"]}) + "\n" for q in questions))
            adapter = ["--adapter", str(a.adapter)] if a.adapter else []
            run(a, "index-document", "--model", str(a.model), *adapter, "--progress", "none", "--json",
                "--name", name, str(file))
            said = run(a, "ask-document", "--document", name, "--questions", str(lines), "--parallel", "1",
                       "--json", *a.flags)
            assert len(said) == len(questions), f"{name}: {len(said)} answers to {len(questions)} questions"
            for q, answer in zip(questions, said):
                answer.pop("attention", None)
                out.write(json.dumps({"document": name, "asked": q, "said": answer}) + "\n")
            out.flush()


def passage_is_right(line):
    evidence = line["said"]["evidence"][:1]
    return any(p["begin"] < e["end"] and e["begin"] < p["end"]
               for e in evidence for p in line["asked"]["passages"])


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def outcome(line, threshold=None):
    """(right, refused) of a line, as it was asked or with another threshold."""
    said = line["said"]["answer"]
    probability = line["said"].get("refusal_probability")
    is_known = threshold is not None and threshold <= 1 and probability is not None
    refused = probability >= threshold if is_known else judging.is_refusal(said)
    absent = line["asked"]["kind"] == "absent"
    return refused if absent else not refused and judging.is_right(line["asked"], said), refused


def counts(lines, threshold=None):
    """facts, right, wrongly refused, absent, refused of these lines"""
    facts = [outcome(x, threshold) for x in lines if x["asked"]["kind"] == "fact"]
    absent = [outcome(x, threshold) for x in lines if x["asked"]["kind"] == "absent"]
    return (len(facts), sum(r for r, _ in facts), sum(f for _, f in facts), len(absent),
            sum(f for _, f in absent))


def table(paths):
    print("| | facts | right | wrongly refused | first passage right | of the right answers | absent | refused | ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for path in paths:
        lines = read(path)
        facts, right, wrong, absent, refused = counts(lines)
        of_facts = [x for x in lines if x["asked"]["kind"] == "fact"]
        shown = sum(map(passage_is_right, of_facts))
        of_right = sum(passage_is_right(x) for x in of_facts if outcome(x)[0])
        times = sorted(x["said"]["timings_ms"]["total"] for x in lines)
        print(f"| {path.stem} | {facts} | {right} | {wrong} | {shown} | {of_right} of {right} | {absent} | {refused} | "
              f"{times[len(times) // 2]:.0f} |")


def best_threshold(lines):
    """The one of the highest J; among equals the highest."""
    def worth(threshold):
        facts, _, wrong, absent, refused = counts(lines, threshold)
        return refused / max(absent, 1) - wrong / max(facts, 1), threshold
    return max(THRESHOLDS, key=worth)


def curve(paths):
    lines = [line for path in paths for line in read(path)]
    print("| refuse_at | right facts | facts wrongly refused | absent refused |\n|---|---|---|---|")
    for threshold in THRESHOLDS:
        facts, right, wrong, absent, refused = counts(lines, threshold)
        print(f"| {threshold if threshold <= 1 else 'off'} | {right} of {facts} | {wrong} ({100 * wrong / facts:.1f} %) | "
              f"{refused} of {absent} ({100 * refused / absent:.1f} %) |")
    print(f"\nbest: {best_threshold(lines)}")
    names = sorted({x["document"] for x in lines})
    for begin in (0, 1):
        mine = set(names[begin::2])
        here = [x for x in lines if x["document"] in mine]
        there = [x for x in lines if x["document"] not in mine]
        threshold = best_threshold(here)
        facts, right, wrong, absent, refused = counts(there, threshold)
        print(f"\nchosen on {len(here)} questions: {threshold}; on the other {len(there)}: {right} of {facts} facts right, "
              f"{wrong} wrongly refused ({100 * wrong / facts:.1f} %), {refused} of {absent} absent refused "
              f"({100 * refused / absent:.1f} %)")


def main():
    arguments, flags = sys.argv[1:], []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, flags = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    asks = commands.add_parser("ask")
    asks.add_argument("--bin", type=pathlib.Path, required=True)
    asks.add_argument("--model", type=pathlib.Path, required=True)
    asks.add_argument("--adapter", type=pathlib.Path)
    asks.add_argument("--out", type=pathlib.Path, required=True)
    asks.add_argument("--set", choices=("held-out", "train"), default="held-out")
    asks.add_argument("--seed", type=int, default=1)
    asks.add_argument("--texts", type=pathlib.Path, default=package_texts.HOME / "texts")
    asks.add_argument("--store", type=pathlib.Path, help="kept, so that documents are indexed once")
    for name in ("facts", "absent", "documents"):
        asks.add_argument("--" + name, type=int)
    for name in ("table", "curve"):
        commands.add_parser(name).add_argument("files", type=pathlib.Path, nargs="+")
    a = parser.parse_args(arguments)
    if a.command == "ask":
        a.flags = flags
        ask(a)
    else:
        (table if a.command == "table" else curve)(a.files)


if __name__ == "__main__":
    main()
