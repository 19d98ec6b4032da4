#!/usr/bin/env python3
"""How questions to a long document, or to a collection, fared:

    asked_parts.py QUESTIONS ANSWERS [TEXT]

QUESTIONS is a file as `ask-document --questions` takes it, with "kind", "answers" and "passages" as
tools/reader/questions has them, offsets into the long text; ANSWERS has what `ask-document --json
--questions` printed. Where a collection was asked, "text" of a question is the name of the right
document without its ending. With TEXT, the long text, a line for each tenth of it. Prints in
Markdown: how many facts were answered right, how many wrongly refused, absent ones refused; whether
the right part was among the first one, two and four by words and after the answers, and among those
that were asked, and chosen; how many were asked; median and worst milliseconds.
"""
import json
import math
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/reader"))
import judging  # noqa: E402


def is_gold(question, asked):
    if "name" in asked:
        return pathlib.PurePath(asked["name"]).stem == question["text"]
    return any(asked["begin"] <= p["begin"] and p["end"] <= asked["end"]
               for p in question["passages"])


def support_rank(asked):
    """Higher is better: the one that was chosen, then as engine/asking/asked_sessions.cc weighs answers
    of models without a refusal, whose probability the answers do not tell."""
    return (asked["chosen"],
            math.log(max(asked["probability"], 1e-4)) + 0.61 * math.log(max(asked["support"], 0.02)))


def share(values):
    values = list(values)
    return f"{100 * sum(values) / len(values):.1f} %" if values else ""


def row(name, pairs):
    facts = [(q, a) for q, a in pairs if q["kind"] == "fact"]
    absent = [a for q, a in pairs if q["kind"] == "absent"]
    ranks, gold, chosen, counts = [], [], [], []
    for question, answer in facts:
        asked = (answer["collection"] or answer["parts"] or {"asked": []})["asked"]
        hits = [is_gold(question, one) for one in asked]
        order = sorted(range(len(asked)), key=lambda i: support_rank(asked[i]), reverse=True)
        by_words = hits.index(True) if True in hits else 99
        after = [hits[i] for i in order].index(True) if True in hits else 99
        ranks.append((by_words, after))
        gold.append(True in hits)
        chosen.append(any(h and one["chosen"] for h, one in zip(hits, asked)))
        counts.append(len(asked))
    if not facts:
        return
    right = sum(judging.is_right(q, a["answer"]) for q, a in facts)
    refused = sum(judging.is_refusal(a["answer"]) for _, a in facts)
    rejected = sum(judging.is_refusal(a["answer"]) for a in absent)
    times = [a["timings_ms"]["total"] for _, a in pairs]
    words = " / ".join(share(r[0] < n for r in ranks) for n in (1, 2, 4))
    after = " / ".join(share(r[1] < n for r in ranks) for n in (1, 2, 4))
    print(f"| {name} | {len(facts)} | {right} | {refused} | {rejected} of {len(absent)} | {words} | "
          f"{after} | {share(gold)} | {share(chosen)} | {statistics.mean(counts):.2f} | "
          f"{statistics.median(times):.0f}, {max(times):.0f} |")


def main(questions, answers, text=None):
    read = [[json.loads(line) for line in open(path, encoding="utf-8") if line.strip()]
            for path in (questions, answers)]
    pairs = list(zip(*read))
    print("| questions | facts | right | refused | absent refused | one / two / four by words | "
          "after the answers | asked | chosen | number asked | ms |")
    print("|---|---:|---:|---:|---:|---|---|---:|---:|---:|---|")
    row("all", pairs)
    if text:
        size = pathlib.Path(text).stat().st_size
        for tenth in range(10):
            row(f"tenth {tenth + 1}", [(q, a) for q, a in pairs if q["passages"] and
                                       q["passages"][0]["begin"] * 10 // size == tenth])


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
