#!/usr/bin/env python3
"""Checks the questions of questions/*.jsonl against their texts and each other.

  check_questions.py [--texts FOLDER] [QUESTIONS.jsonl...]

FOLDER is what `package_texts.py fetch` wrote. Each line but the first is a question:
  question   in the words of somebody who has not seen the sentence that states the answer
  answer     short, as the text has it where it can be
  answers    all strings of which one must be in a right answer; the first is `answer`
  kind       "fact", or "absent": nothing in the text answers it, and `answer` says so
  passages   byte ranges of the sentences, lines or rows that state it: one, or several that are needed
             together; none of an absent one
Prints a line a fault and, at the end, counts. Exits 1 if there is a fault.
"""
import argparse
import collections
import json
import pathlib
import re
import sys

import package_texts

ABSENT = "The document does not say."
LONGEST_ANSWER, LONGEST_PASSAGE = 120, 900


def plain(text):
    """Words alone: white space, case and the marks of Markdown are no difference."""
    return re.sub(r"[\s`*_|]+", " ", text).strip().lower()


def faults(question, text):
    """Yields what is wrong with a question, as sentences; nothing where it is right. Stops at a
    fault that makes later checks meaningless. text: bytes."""
    if set(question) != {"question", "answer", "answers", "kind", "passages"}:
        yield f"fields {sorted(question)}"
        return
    words, passages = question["question"], question["passages"]
    if not words.strip() or not question["answers"] or question["answers"][0] != question["answer"]:
        yield "an empty question, or answers that do not begin with the answer"
    if question["kind"] == "absent":
        if question["answer"] != ABSENT or passages:
            yield "an absent one with an answer or passages"
        return
    if question["kind"] != "fact" or not passages:
        yield "no fact, or one without passages"
        return
    stated = ""
    for passage in passages:
        begin, end = passage["begin"], passage["end"]
        if not 0 <= begin < end <= len(text) or end - begin > LONGEST_PASSAGE:
            yield f"range {begin} to {end}"
            return
        try:
            stated += " " + text[begin:end].decode()
        except UnicodeDecodeError:
            yield f"range {begin} to {end} cuts a character"
            return
        if text[begin:begin + 1].isspace() or text[end - 1:end].isspace():
            yield f"range {begin} to {end} begins or ends with white space"
    if len(question["answer"]) > LONGEST_ANSWER:
        yield "a long answer"
    if not any(plain(answer) in plain(stated) for answer in question["answers"]):
        yield f"no answer of {question['answers']} in its passages: {plain(stated)[:200]!r}"
    if any(plain(answer) in plain(words) for answer in question["answers"]):
        yield "an answer that stands in the question"
    # Five words in a row of the passage: the question was copied.
    tokens = re.findall(r"\w+", words.lower())
    source = " ".join(re.findall(r"\w+", stated.lower()))
    if any(f" {' '.join(tokens[i:i + 6])} " in f" {source} " for i in range(len(tokens) - 5)):
        yield "six words in a row that are the passage's"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=pathlib.Path,
                        default=pathlib.Path.home() / ".cache/lectern-reader/texts")
    parser.add_argument("questions", type=pathlib.Path, nargs="*")
    options = parser.parse_args()
    counts, seen, bad = collections.Counter(), {}, 0
    for path in options.questions or sorted(package_texts.QUESTIONS.glob("*.jsonl")):
        text = (options.texts / (path.stem + ".txt")).read_bytes()
        counts["documents"] += 1
        counts["bytes"] += len(text)
        for number, line in enumerate(path.read_text().splitlines()[1:], 2):
            try:
                question = json.loads(line)
            except ValueError as error:
                print(f"{path.name}:{number}: {error}")
                bad += 1
                continue
            found = list(faults(question, text))
            key = plain(question.get("question", ""))
            if key in seen:
                found.append(f"the question of {seen[key]}")
            seen[key] = f"{path.name}:{number}"
            for fault in found:
                print(f"{path.name}:{number}: {fault}: {question.get('question', '')}")
            bad += bool(found)
            counts[question.get("kind", "?")] += 1
            counts["several passages"] += len(question.get("passages", [])) > 1
    print(", ".join(f"{count} {name}" for name, count in counts.items()) + f", {bad} faulty")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
