#!/usr/bin/env python3
"""Markdown tables of what lectern-evaluate measured:

    table.py [--common] [--json FILE] RAW.jsonl...

Three tables of all files of raw results together: attention errors, answers, and their agreement
with exact mode by kind of question. `error` is the relative L2 error of a layer's attention output
per token where the document draws a tenth of the mass or more; `question` and `answer` are its
means over the tokens of each. The seed of the paper's lookup is, for each document, budget and
number of levels, the one of least mean error. `paper ÷` is how many times the error of the better
of the paper's two lookups is that of the row, over the questions that both were measured on;
`oracle ÷` the same with the oracle's. `read` is the share of the document's K and V bytes that a
layer reads in a step: mean, least, most; `on disk` the document's bytes, of those of the document
whole. `won, lost`: questions answered as exact mode does and not so by the shipped lookup (mode
default or uniform+global), and the other way round. A cell is empty where nothing was measured.
--common: in their place one table per length, of errors and answers over the questions alone that
all methods have at all budgets; its `read` is the mean over questions and answers.
--json FILE: the same figures. Standard library only.
"""

import argparse
import collections
import json
import math
import pathlib
import statistics

PAPER = ("paper-1", "paper-2")


def read(paths):
    """-> [lines of errors], [lines of answers]; each measurement once"""
    errors, answers = {}, {}
    for path in paths:
        for text in path.read_text().splitlines():
            line = json.loads(text)
            line["K"] = 2 ** round(math.log2(line["tokens"] / 1024))
            key = tuple(line[name] for name in ("document", "question", "mode", "seed", "budget"))
            (errors if "question_errors" in line else answers)[key] = line
    return list(errors.values()), list(answers.values())


def mean(values):
    """The mean; None of no values."""
    return statistics.fmean(values) if values else None


def errors_of(lines):
    """The errors of questions and of answers of all lines, in one list."""
    return [e for line in lines for e in line["question_errors"] + line["answer_errors"]]


def best_seeds(lines):
    """Only the lines of the seed of least mean error per document, mode and budget."""
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in lines:
        groups[line["document"], line["mode"], line["budget"]][line["seed"]].append(line)
    kept = []
    for seeds in groups.values():
        kept += min(seeds.values(), key=lambda group: mean(errors_of(group)) or 0)
    return kept


def by_row(lines):
    """-> {(K, mode, budget): [line]}"""
    rows = collections.defaultdict(list)
    for line in lines:
        rows[line["K"], line["mode"], line["budget"]].append(line)
    return rows


def ratio(other, lines):
    """Mean error of `other` by that of `lines`, over the questions that both have."""
    place = lambda line: (line["document"], line["question"])
    common = {place(line) for line in other} & {place(line) for line in lines}
    above, below = (mean(errors_of([line for line in group if place(line) in common]))
                    for group in (other, lines))
    return above / below if above is not None and below else None


def error_figures(rows, key):
    """The columns of one row of the table of errors. key: (K, mode, budget) of by_row(). A figure
    that was not measured is None."""
    length, mode, budget = key
    lines = rows[key]
    paper = [rows[length, p, budget] for p in PAPER if (length, p, budget) in rows]
    baseline = min(paper, key=lambda p: mean(errors_of(p)) or math.inf, default=[])
    steps = sum(line["layer_steps"] for line in lines)
    weighted = lambda name: sum(line[name] * line["layer_steps"] for line in lines) / steps
    return {"documents": len({line["document"] for line in lines}), "questions": len(lines),
            "error, mean": mean(errors_of(lines)),
            "median": statistics.median(errors_of(lines)) if errors_of(lines) else None,
            "question, mean": mean([e for line in lines for e in line["question_errors"]]),
            "answer, mean": mean([e for line in lines for e in line["answer_errors"]]),
            "paper ÷": ratio(baseline, lines),
            "oracle ÷": ratio(rows.get((length, "oracle", budget), []), lines),
            "mass recalled": weighted("recalled"), "read": weighted("read"),
            "read, least": min(line["read_least"] for line in lines),
            "read, most": max(line["read_most"] for line in lines)}


def share(lines, of):
    """Percent of the lines in which the member `of` is true; None of no lines."""
    return 100 * sum(line[of] for line in lines) / len(lines) if lines else None


def answer_figures(rows, key):
    """The columns of one row of the table of answers. key: (K, mode, budget) of by_row(). A figure
    that was not measured is None."""
    length, mode, budget = key
    lines = rows[key]
    place = lambda line: (line["document"], line["question"])
    same = {place(line): line["same"] for shipped in ("default", "uniform+global")
            for line in rows.get((length, shipped, budget), [])}
    both = [line for line in lines if place(line) in same]
    won = sum(line["same"] and not same[place(line)] for line in both)
    lost = sum(same[place(line)] and not line["same"] for line in both)
    exact_right = [line for line in lines if line["exact_right"]]
    facts = [line for line in lines if "first_passage" in line]
    return {"documents": len({line["document"] for line in lines}), "questions": len(lines),
            "exact right %": share(lines, "exact_right"), "right %": share(lines, "right"),
            "same %": share(lines, "same"), "same where right %": share(exact_right, "same"),
            "won, lost": f"{won}, {lost}" if both else None,
            "KL, mean": mean([line["kl"] for line in lines]),
            "KL, median": statistics.median(line["kl"] for line in lines),
            "read, question": mean([line["read_question"] for line in lines]),
            "read, answer": mean([line["read_answer"] for line in lines if "read_answer" in line]),
            "on disk": mean([line["on_disk"] for line in lines if "on_disk" in line]),
            "right facts": len(facts), "first passage %": share(facts, "first_passage"),
            "a passage of three %": share(facts, "any_passage")}


def kind_figures(lines, kinds):
    """same % of each kind, with the number of questions"""
    of = {kind: [line for line in lines if line["kind"] == kind] for kind in kinds}
    return {kind.replace("_", " "): f"{share(of[kind], 'same'):.1f} ({len(of[kind])})"
            if of[kind] else None for kind in kinds}


def with_all(lines):
    """Only the lines of the questions that every method of their length has at every budget."""
    rows = by_row(lines)
    place = lambda line: (line["document"], line["question"])
    common = {}
    for (length, _, _), row in rows.items():
        places = {place(line) for line in row}
        common[length] = common.get(length, places) & places
    return [line for line in lines if place(line) in common[line["K"]]]


def by_keep(key):
    """Large budgets first, of METHOD@KEEP those that keep most."""
    _, mode, budget = key
    keep = float(mode.split("@")[1].split(":")[0]) if "@" in mode else 1.0
    return -budget, -keep, mode


def common_tables(errors, answers):
    """-> {title: [row]}, one for each length"""
    of_errors, of_answers = by_row(with_all(best_seeds(errors))), by_row(with_all(answers))
    tables = {}
    for length in sorted({key[0] for key in of_answers}):
        rows = []
        for key in sorted((key for key in of_answers if key[0] == length), key=by_keep):
            found = answer_figures(of_answers, key)
            error = error_figures(of_errors, key) if key in of_errors else {}
            read = [line[name] for line in of_answers[key]
                    for name in ("read_question", "read_answer") if name in line]
            rows.append({"budget": str(key[2]), "method": key[1],
                         "error": error.get("error, mean"),
                         "mass recalled": error.get("mass recalled"),
                         **{name: found[name] for name in (
                             "same %", "same where right %", "right %", "won, lost", "KL, mean")},
                         "read": mean(read), "on disk": found["on disk"]})
        if all(row["on disk"] in (None, 1) for row in rows):
            for row in rows:
                del row["on disk"]
        title = (f"{length}K: {found['questions']} questions to {found['documents']} documents, "
                 f"{error.get('questions', 0)} of them for errors")
        tables[title] = rows
    return tables


def cell(name, value):
    """A cell of a table: "" for None, one decimal for percents and ratios, else four."""
    if value is None or isinstance(value, (str, int)):
        return "" if value is None else str(value)
    return f"{value:.{1 if '%' in name or '÷' in name else 4}f}"


def markdown(title, rows):
    """A table in Markdown with its title; "" of no rows. rows: dicts with the same members."""
    if not rows:
        return ""
    names = list(rows[0])
    lines = [f"**{title}**", "", "| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(cell(name, row[name]) for name in names) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def all_tables(errors, answers):
    """-> {title: [row]}"""
    head = lambda key: {"tokens": f"{key[0]}K", "method": key[1], "budget": str(key[2])}
    order = lambda key: (key[0], key[1], -key[2])
    of_errors, of_answers = by_row(best_seeds(errors)), by_row(answers)
    kinds = sorted({line["kind"] for line in answers})
    return {
        "Attention errors": [{**head(key), **error_figures(of_errors, key)}
                             for key in sorted(of_errors, key=order)],
        "Answers": [{**head(key), **answer_figures(of_answers, key)}
                    for key in sorted(of_answers, key=order)],
        "Answers the same as exact mode's, % (questions)": [
            {**head(key), **kind_figures(of_answers[key], kinds)}
            for key in sorted(of_answers, key=order)]}


def main():
    parser = argparse.ArgumentParser(description="Tables of what lectern-evaluate measured; see "
                                     "the top of this file.")
    parser.add_argument("raw", type=pathlib.Path, nargs="+")
    parser.add_argument("--common", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    a = parser.parse_args()

    errors, answers = read(a.raw)
    tables = common_tables(errors, answers) if a.common else all_tables(errors, answers)
    print("\n".join(filter(None, (markdown(*table) for table in tables.items()))), end="")
    if a.json:
        a.json.write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
