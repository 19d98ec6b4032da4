#!/usr/bin/env python3
"""Trains the reader's SentencePiece vocabulary on generated text and on english.py.

    tokenizer.py OUT.model

BPE with byte fallback, digits apart, the text as it is (no normalisation). The line break is left
to the bytes: a piece never crosses one. The same packages give the same file.
"""

import io
import random
import sys

import sentencepiece

import documents
import english

VOCABULARY = 2048


def corpus(count=6000):
    """Yields the lines that the vocabulary is trained on, from `count` documents; some are
    empty."""
    r = random.Random(7)
    for i in range(count):
        task = r.choices(["facts", "needle", "variable", "words"], [85, 8, 4, 3])[0]
        document = documents.make_document(r, 900, 12, documents.Options(), task,
                                           other_filler=english.filler("train", 0.2))
        for line in document.text().split("\n"):
            yield line.strip()
        for question in document.questions:
            # A line has a blank put before it; "(" leaves pieces without one for line beginnings.
            yield "(Question: " + question.text
            yield question.answer()
    for split in ("train", "eval"):
        for line in english.sentences(split):
            yield line
            yield "(" + line


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: tokenizer.py OUT.model")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for line in corpus() if line), model_writer=model,
        vocab_size=VOCABULARY, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        add_dummy_prefix=True, character_coverage=1.0, unk_id=0, bos_id=1, eos_id=2, pad_id=-1,
        num_threads=1, max_sentencepiece_length=12, minloglevel=2)
    with open(sys.argv[1], "wb") as out:
        out.write(model.getvalue())


if __name__ == "__main__":
    main()
