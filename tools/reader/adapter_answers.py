#!/usr/bin/env python3
"""Answers of a model with an adapter, greedy, in PyTorch: how often they are right.

  adapter_answers.py --base MODEL.gguf [--adapter FOLDER] [--show] [QUESTIONS.jsonl...]

Without files: the questions of the held-out packages. A file's text is the recorded one in --texts, or
FILE.txt beside a file that records none. A fact is right if an accepted string is in the answer; an
absent question, if the answer begins with "The document does not".
"""

import argparse
import json
import pathlib

import numpy as np
import torch

import adapter_data
import adapter_network
import package_texts
from judging import is_held_out, is_refusal, is_right

MOST_TOKENS = 40
BATCH = 40  # questions that are answered together


@torch.no_grad()
def read_document(network, rows, device="cpu"):
    """Keys and values of the rows of an adapter_data.Text."""
    past = []
    network(torch.from_numpy(rows.ids).to(device), torch.arange(rows.rows, device=device), keep=past)
    return past


@torch.no_grad()
def answers(network, tokens, past, questions, visible, dtype, device="cpu"):
    """The answers' texts. past: of read_document; visible: for each question, the rows it sees."""
    said = []
    for first in range(0, len(questions), BATCH):
        part = slice(first, first + BATCH)
        said += answer_batch(network, tokens, past, questions[part], visible[part], dtype, device)
    return said


def answer_batch(network, tokens, past, questions, visible, dtype, device):
    """answers() of questions that are asked together. Ends when every answer has ended or has
    MOST_TOKENS tokens; `past` stays as it is."""
    asked = [adapter_data.Question(tokens.question(q["question"]), [], v, None, "")
             for q, v in zip(questions, visible)]
    document = past[0][0].shape[1]
    positions = torch.arange(document)
    pack = adapter_data.Pack(torch.zeros(document, dtype=torch.long).numpy(), positions.numpy(), asked)
    ids, positions, _, block = pack.tensors(device)
    kept = []
    hidden = network(ids[document:], positions[document:], mask=pack.mask(block, dtype), past=past, keep=kept)
    ends = torch.tensor([len(q.prompt) for q in asked], device=device).cumsum(0) - 1
    seen = torch.from_numpy(np.stack(visible)).to(device)
    said = [[] for _ in asked]
    running = list(range(len(asked)))
    at = positions[document:][ends]
    chosen = network.logits(hidden[ends]).argmax(-1)
    for _ in range(MOST_TOKENS):
        for i, token in zip(running, chosen.tolist()):
            said[i].append(token)
        still = [n for n, i in enumerate(running) if said[i][-1] != tokens.end]
        if not still:
            break
        running = [running[n] for n in still]
        at = at[torch.tensor(still, device=device)] + 1
        numbers = torch.tensor(running, device=device)
        block = torch.cat([block, numbers])
        allowed = torch.cat([seen[numbers], block[None] == numbers[:, None]], 1)
        past, kept = kept, []
        hidden = network(torch.tensor([said[i][-1] for i in running], device=device), at,
                         mask=adapter_data.as_mask(allowed, dtype), past=past, keep=kept)
        chosen = network.logits(hidden).argmax(-1)
    return [tokens.text(s).strip() for s in said]


def judge(network, tokens, documents, dtype, device="cpu", num=12, say=None, ways=("dense", "focused")):
    """{way: counts} over documents, asked with all rows seen and with those of `num` sentences."""
    counts = {way: dict.fromkeys(("facts", "right", "refused_facts", "absent", "refused"), 0) for way in ways}
    for document in documents:
        rows = adapter_data.Text(tokens, document.text)
        past = read_document(network, rows, device)
        for way, count in counts.items():
            visible = [rows.focused(q["question"], num) if way == "focused" else
                       np.ones(rows.rows, bool) for q in document.questions]
            said = answers(network, tokens, past, document.questions, visible, dtype, device)
            for q, answer in zip(document.questions, said):
                right = is_right(q, answer)
                if q["kind"] == "absent":
                    count["absent"] += 1
                    count["refused"] += right
                else:
                    count["facts"] += 1
                    count["right"] += right
                    count["refused_facts"] += is_refusal(answer)
                if say:
                    say(f"{way} {'+' if right else '-'} {q['question']} | {q['answer']} | {answer}")
    return counts


def shares(counts):
    """{way: counts and percents} of the counts of judge(); None where there is nothing to count."""
    per = lambda part, whole: round(100 * part / whole, 1) if whole else None
    return {way: {"facts": c["facts"], "right": per(c["right"], c["facts"]),
                  "facts_refused": per(c["refused_facts"], c["facts"]),
                  "absent": c["absent"], "absent_refused": per(c["refused"], c["absent"])}
            for way, c in counts.items()}


def read(path, texts):
    """An adapter_data.Document of a file of questions; see the top of the file. An empty file is an
    error (IndexError), a text that is missing OSError; the recorded hash is not checked."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    beside = path.with_suffix(".txt")
    if "sha256" not in lines[0]:
        return adapter_data.Document(path.stem, "", beside.read_bytes(),
                                     [q for q in lines if q["kind"] in ("fact", "absent")])
    return adapter_data.Document(path.stem, lines[0]["package"],
                                 (texts / (path.stem + ".txt")).read_bytes(), lines[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=pathlib.Path, required=True)
    parser.add_argument("--adapter", type=pathlib.Path)
    parser.add_argument("--texts", type=pathlib.Path, default=package_texts.HOME / "texts")
    parser.add_argument("--sentences", type=int, default=12, help="that focused reading chooses")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print every answer")
    parser.add_argument("questions", type=pathlib.Path, nargs="*")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16
    tokens = adapter_data.Tokens.read(options.base)
    network = adapter_network.load(options.base, dtype).to(device)
    if options.adapter:
        network.load_adapter(adapter_network.read_adapter(options.adapter))
    if options.questions:
        documents = [read(path, options.texts) for path in options.questions]
    else:
        documents = [d for d in adapter_data.documents(package_texts.QUESTIONS, options.texts)
                     if is_held_out(d.package)]
    say = (lambda line: print(line, flush=True)) if options.show else None
    print(json.dumps(shares(judge(network, tokens, documents, dtype, device, options.sentences, say))))


if __name__ == "__main__":
    main()
