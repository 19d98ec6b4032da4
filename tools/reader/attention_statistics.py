#!/usr/bin/env python3
"""How each head of the reader attends to a document while it answers.

    attention_statistics.py [--model DIR] [--length 4096] [--documents 4] [--questions 24]

Prints a Markdown table, a row per layer and head, of means over the rows that predict answer tokens
of held-out questions: the mass on the document (without <s>), on <s> alone, the entropy of the
document's part in nats, and the share of the document's mass in the largest 1 % and 5 % of its keys
and in the largest 8. Needs PyTorch and sentencepiece.
"""

import argparse
import pathlib
import random

import torch

import documents
import network
import train


@torch.no_grad()
def collect(model, tokens, document, questions, sums):
    """Adds the figures of one document's questions to `sums` (layers, figures, heads). Returns the
    number of rows that were added: the answers' tokens."""
    ids = [train.BOS]
    for piece in document.pieces:
        ids += tokens.of_piece(piece.text)
    kept = model.prefill(torch.tensor(ids))
    s = model.shape
    group, size = s.heads // s.kv_heads, len(ids)
    for q in questions:
        prompt, answer = tokens.prompt(q.text), tokens.answer(q.answer())
        rows = torch.tensor(prompt + answer)
        asked = slice(len(prompt) - 1, len(rows) - 1)
        x = model.embed_tokens(rows)[None]
        positions = size + torch.arange(len(rows))[None]
        cos, sin = (t[:, None] for t in network.rope_tables(positions, s.theta))
        causal = torch.full((len(rows), len(rows)), float("-inf")).triu(1)
        for index, layer in enumerate(model.layers):
            q_rows, k, v = layer.qkv(x, cos, sin)
            keys = torch.cat([kept[index][0], k[0]], 1).repeat_interleave(group, 0)
            values = torch.cat([kept[index][1], v[0]], 1).repeat_interleave(group, 0)
            logits = q_rows[0] @ keys.transpose(1, 2) / network.HEAD_DIM ** 0.5
            logits[..., size:] += causal
            p = logits.softmax(-1)
            x = layer.finish(x, (p @ values)[None])
            inside = p[:, asked, 1:size].double()            # heads, answer rows, document keys
            mass = inside.sum(-1)
            share = inside / mass.clamp(min=1e-12)[..., None]
            ordered = share.sort(-1, descending=True).values.cumsum(-1)
            entropy = -(share * share.clamp(min=1e-30).log()).sum(-1)
            figures = torch.stack([mass, p[:, asked, 0].double(), entropy,
                                   ordered[..., size // 100], ordered[..., size // 20],
                                   ordered[..., 7]])
            sums[index] += figures.sum(-1)
    return sum(len(tokens.answer(q.answer())) for q in questions)


def main():
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description="Attention per head; see the top of this file.")
    parser.add_argument("--model", type=pathlib.Path, default=here / "model")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--documents", type=int, default=4)
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--seed", type=int, default=5)
    a = parser.parse_args()
    model = network.load(a.model)
    tokens = train.Tokens(a.model / "tokenizer.model")
    sums = torch.zeros(model.shape.layers, 6, model.shape.heads, dtype=torch.double)
    rows = 0
    for i in range(a.documents):
        r = random.Random(a.seed * 1000 + i)
        document = documents.make_document(
            r, a.length, a.length // 100, documents.Options(split="eval"),
            measure=lambda text: len(tokens.of_piece(text)))
        rows += collect(model, tokens, document, document.questions[:a.questions], sums)
    print("| layer | head | document | <s> | entropy | top 1 % | top 5 % | top 8 keys |\n"
          "|---|---|---|---|---|---|---|---|")
    for layer in range(model.shape.layers):
        for head in range(model.shape.heads):
            figures = (sums[layer, :, head] / rows).tolist()
            print(f"| {layer} | {head} | " + " | ".join(f"{x:.2f}" for x in figures) + " |")


if __name__ == "__main__":
    main()
