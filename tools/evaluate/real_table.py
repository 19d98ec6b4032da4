#!/usr/bin/env python3
"""Markdown tables of real models on real documents, from what lectern-evaluate measured (real.sh):

    real_table.py MODEL.jsonl…

A file's name is its model's. Five tables a model: errors of attention by document and budget (means over
the tokens of questions and of answers; `÷ oracle`, `÷ equal`, `÷ paper-2`: the default's by theirs, same
questions; `equal`: an oracle with the bytes that the default read); the same of budget policies;
teacher-forced answers (KL from exact mode in nats a token, over all tokens; `same`: tokens whose likeliest
is exact mode's; `answers`: whole answers that are exact mode's); the automatic budget (its size, what was
predicted, what came); and the document's end (perplexity against exact mode's). Standard library only.
"""

import collections
import json
import math
import pathlib
import statistics
import sys


OTHERS = ("oracle", "oracle-equal", "paper-2")


def read(path):
    """Lines by kind, each measurement once."""
    kinds = {"errors": {}, "answers": {}, "ends": {}}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        kind = ("errors" if "question_errors" in line else
                "ends" if "continuation_nats" in line else "answers")
        kinds[kind][tuple(line[k] for k in ("document", "question", "mode", "seed", "budget"))] = line
    return {kind: list(lines.values()) for kind, lines in kinds.items()}


def grouped(lines, *names):
    """{(values of the fields `names`): [line]}; with one name the key is a tuple, too."""
    groups = collections.defaultdict(list)
    for line in lines:
        groups[tuple(line[name] for name in names)].append(line)
    return groups


def mean(values):
    """The mean; None of no values."""
    return statistics.fmean(values) if values else None


def cell(value, form):
    """A cell of a table; a dash for None."""
    return "–" if value is None else form.format(value)


def table(title, names, rows):
    """Prints a table in Markdown; nothing where there are no rows. rows: lists of str."""
    if not rows:
        return
    print(f"\n**{title}**\n\n| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def ratio(lines, others, kind):
    """Mean error of `lines` by that of `others`, over the questions that both have."""
    common = {line["question"] for line in lines} & {line["question"] for line in others}
    above, below = (mean([e for line in group if line["question"] in common for e in line[kind]])
                    for group in (lines, others))
    return above / below if above is not None and below else None


def error_rows(lines):
    """Rows of the table of errors: each document at each budget by the default's mode, then the
    means of the ratios. Documents without a line of the default are left out."""
    by = grouped(lines, "document", "budget", "mode")
    rows, ratios = [], collections.defaultdict(list)
    for document, budget, mode in sorted(by, key=lambda key: (key[0], -key[1])):
        if mode != "default":
            continue
        own = by[document, budget, mode]
        row = [document, f"{budget:g}"]
        for kind in ("question_errors", "answer_errors"):
            row.append(cell(mean([e for line in own for e in line[kind]]), "{:.3f}"))
            for other in OTHERS:
                found = ratio(own, by.get((document, budget, other), []), kind)
                row.append(cell(found, "{:.2f}"))
                if found is not None:
                    ratios[budget, kind, other].append(found)
        rows.append(row)
    for budget in sorted({key[0] for key in ratios}, reverse=True):
        row = ["mean", f"{budget:g}"]
        for kind in ("question_errors", "answer_errors"):
            row.append("")
            row += [cell(mean(ratios[budget, kind, other]), "{:.2f}") for other in OTHERS]
        rows.append(row)
    return rows


def policy_rows(lines):
    """Rows of the table of policies: the mean, over documents, of each mode's error by the
    default's."""
    by = grouped(lines, "document", "budget", "mode")
    ratios = collections.defaultdict(list)
    for document, budget, mode in by:
        if "+" in mode and (document, budget, "default") in by:
            ratios[mode, budget].append([ratio(by[document, budget, mode], by[document, budget, "default"], kind)
                                         for kind in ("question_errors", "answer_errors")])
    return [[mode, f"{budget:g}"] + [cell(mean([r for r in of if r is not None]), "{:.2f}")
                                     for of in zip(*ratios[mode, budget])] + [str(len(ratios[mode, budget]))]
            for mode, budget in sorted(ratios, key=lambda key: (key[0], -key[1]))]


def forced(lines):
    """KL a token, share of same tokens, tokens, share of same answers."""
    values = [x for line in lines for x in line["kl_tokens"]]
    return (mean(values), sum(line["same_tokens"] for line in lines) / len(values), len(values),
            sum(line["same"] for line in lines) / len(lines))


def answer_rows(lines):
    """Rows of the table of answers at fixed budgets in the default mode, then mean and worst a
    budget."""
    by = grouped([line for line in lines if line["budget"] > 0 and line["mode"] == "default"],
                 "document", "budget")
    rows, figures = [], collections.defaultdict(list)
    for document, budget in sorted(by, key=lambda key: (key[0], -key[1])):
        kl, same, count, answers = forced(by[document, budget])
        figures[budget].append((kl, same, answers))
        rows.append([document, f"{budget:g}", f"{len(by[document, budget])}", f"{count}", f"{kl:.4f}",
                     f"{100 * same:.1f} %", f"{100 * answers:.0f} %"])
    for budget in sorted(figures, reverse=True):
        kl, same, answers = zip(*figures[budget])
        rows.append(["mean", f"{budget:g}", "", "", f"{mean(kl):.4f}", f"{100 * mean(same):.1f} %",
                     f"{100 * mean(answers):.0f} %"])
        rows.append(["worst", f"{budget:g}", "", "", f"{max(kl):.4f}", f"{100 * min(same):.1f} %",
                     f"{100 * min(answers):.0f} %"])
    return rows


def auto_rows(lines):
    """Rows of the table of the automatic budget (budget 0), then summaries; empty where none was
    measured."""
    by = grouped([line for line in lines if line["budget"] == 0], "document")
    rows, figures = [], []
    for (document,) in sorted(by):
        own = by[document,]
        kl, same, _, answers = forced(own)
        budget = own[0]["kv_budget"]
        figures.append((own[0]["tokens"], budget, kl, same, answers))
        rows.append([document, f"{own[0]['tokens']:,}", f"{budget:.3f}", cell(own[0]["predicted"], "{:.4f}"),
                     f"{kl:.4f}", f"{100 * same:.1f} %", f"{100 * answers:.0f} %"])
    if not figures:
        return []
    _, budgets, kls, sames, answers = zip(*figures)
    rows.append(["mean (budget: median)", "", f"{statistics.median(budgets):.3f}", "", f"{mean(kls):.4f}",
                 f"{100 * mean(sames):.1f} %", f"{100 * mean(answers):.0f} %"])
    rows.append(["worst", "", f"{max(budgets):.3f}", "", f"{max(kls):.4f}", f"{100 * min(sames):.1f} %",
                 f"{100 * min(answers):.0f} %"])
    long = [budget for tokens, budget, *_ in figures if tokens >= 16384]
    if long:
        rows.append(["median from 16K tokens on", "", f"{statistics.median(long):.3f}", "", "", "", ""])
    return rows


def end_rows(lines):
    """Rows of the table of the documents' ends, then mean and worst a budget."""
    rows, worse = [], collections.defaultdict(list)
    for line in sorted(lines, key=lambda line: (line["document"], -line["budget"])):
        more = 100 * (math.exp(line["continuation_nats"] - line["exact_nats"]) - 1)
        name = f"{line['budget']:g}" if line["budget"] else f"auto ({line['kv_budget']:.3f})"
        worse["auto" if not line["budget"] else name].append(more)
        rows.append([line["document"], name, f"{math.exp(line['exact_nats']):.2f}", f"{more:+.2f} %",
                     f"{line['kl']:.4f}", f"{100 * line['same']:.1f} %"])
    for name, values in worse.items():
        rows.append(["mean", name, "", f"{mean(values):+.2f} %", "", ""])
        rows.append(["worst", name, "", f"{max(values, key=abs):+.2f} %", "", ""])
    return rows


def main():
    """Prints the tables of each file; without one, exits with the usage."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for path in map(pathlib.Path, sys.argv[1:]):
        lines = read(path)
        table(f"{path.stem}: errors of attention",
              ["document", "budget"] + [name for kind in ("question", "answer")
                                        for name in (kind, "÷ oracle", "÷ equal", "÷ paper-2")],
              error_rows(lines["errors"]))
        table(f"{path.stem}: errors by budget policies (layers+heads), ÷ the default's",
              ["policies", "budget", "question", "answer", "documents"], policy_rows(lines["errors"]))
        table(f"{path.stem}: exact mode's own answers, teacher-forced",
              ["document", "budget", "questions", "tokens", "KL a token", "same token", "same answer"],
              answer_rows(lines["answers"]))
        table(f"{path.stem}: the automatic budget",
              ["document", "tokens", "budget", "predicted", "KL a token", "same token", "same answer"],
              auto_rows(lines["answers"]))
        table(f"{path.stem}: the document's last tokens, the rest as the document",
              ["document", "budget", "perplexity, exact", "at the budget", "KL a token", "same token"],
              end_rows(lines["ends"]))


if __name__ == "__main__":
    main()
