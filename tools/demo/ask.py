#!/usr/bin/env python3
"""Asks a file of questions with `ask-document`, then again with `--exact`, and prints both side by side.

An answer is right if it is the expected one or has one of the question's "answers" in it, as whole
words, in capitals or not; one that is written "=eight" has to be the whole answer.
Standard library only.
"""

import argparse
import json
import re
import subprocess
import sys


def on_one_line(text):
    return " ".join(text.split())


def words(text):
    return on_one_line(text).lower().strip(" .")


def is_right(answer, question):
    if words(answer) == words(question["answer"]):
        return True
    for accepted in question.get("answers", []):
        if accepted.startswith("="):
            if words(answer) == words(accepted[1:]):
                return True
        elif re.search(r"(?<!\w)" + re.escape(words(accepted)) + r"(?!\w)", words(answer)):
            return True
    return False


def percent(share):
    return f"{100 * share:.1f} %"


def passage(answer):
    """The first passage, as ask-document prints it without --json."""
    if not answer["evidence"]:
        return ""
    first = answer["evidence"][0]
    if first["score"]:
        sure = percent(first["score"]) + " likely"
    else:
        sure = percent(first["mass"]) + " of the attention"
    nearest = "none is likely; the nearest: " if "no_evidence" in answer["warnings"] else ""
    text = on_one_line(first["text"])
    return f"{nearest}{sure}, bytes {first['begin']}-{first['end']}: \"{text}\""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", help='JSON lines: {"question": …, "answer": …, "answers": […]}')
    parser.add_argument("tool", help="ask-document")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="its options, where it is not --exact")
    arguments = parser.parse_args()
    with open(arguments.questions, encoding="utf-8") as file:
        questions = [json.loads(line) for line in file if line.strip()]

    def ask(*options):
        command = [arguments.tool, "--questions", arguments.questions, "--json", *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode or len(answers) != len(questions):
            sys.exit(f"{' '.join(command)}: exit status {done.returncode}")
        return answers

    answers, exact_answers = ask(*arguments.options), ask("--exact")
    num_right = num_exact_right = num_same = 0
    for question, answer, exact in zip(questions, answers, exact_answers):
        right, exact_right = (is_right(a["answer"], question) for a in (answer, exact))
        same = answer["answer"] == exact["answer"]
        num_right += right
        num_exact_right += exact_right
        num_same += same
        print("\nquestion ", question["question"])
        print("answer   ", on_one_line(answer["answer"]),
              " (right)" if right else f" (wrong: expected {question['answer']})")
        print("passage  ", passage(answer))
        print("exact    ", "the same" if same else (
            on_one_line(exact["answer"]) + ("  (right)" if exact_right else "  (wrong)")))

    def mean(phase):  # an answer of one token has no step of its own
        shares = [answer["kv"]["read_fraction_" + phase] for answer in answers]
        shares = [share for share in shares if share is not None and share >= 0]
        return percent(sum(shares) / len(shares)) if shares else "nothing"

    print(f"\n{num_right} of {len(questions)} right (exact mode: {num_exact_right}), {num_same} the same "
          f"as exact mode; read of the document: {mean('prefill')} of its keys and values per question, "
          f"{mean('decode')} per answer token")


if __name__ == "__main__":
    main()
