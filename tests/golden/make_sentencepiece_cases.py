#!/usr/bin/env python3
"""Makes SentencePiece vocabularies like those of published models, and what PyPI's sentencepiece
says of texts: for tests/full.sh tokenizers, in the form of make_bpe_golden.py.

    pip install sentencepiece protobuf tokenizers
    python3 tests/golden/make_sentencepiece_cases.py FOLDER --strings 100000 --pieces 8000 --seed 2

Left out, and counted, are texts of which a unigram model has two best segmentations, as ">" and
">>" or ">>" and ">" are of ">>>": versions of sentencepiece take one or the other.
"""

import argparse
import pathlib

import sentencepiece

from make_bpe_golden import Texts, record
from make_tokenizer_golden import KEPT, byte_ranges

PLAIN = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False,
         "byte_fallback": True}
FAMILIES = {
    "spm_llama": PLAIN | {"model_type": "bpe", "split_digits": True},
    "spm_gemma": PLAIN | {"model_type": "bpe", "add_dummy_prefix": False,
                          "user_defined_symbols": KEPT},
    "spm_unigram": PLAIN | {"model_type": "unigram"},
    "spm_nfkc": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc",
                 "remove_extra_whitespaces": True, "byte_fallback": True},
}


def is_tied(processor, text):
    best = processor.nbest_encode(text, nbest_size=2, return_type="proto").nbests
    return len(best) > 1 and abs(best[0].score - best[1].score) < 1e-4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--strings", type=int, default=110000)
    parser.add_argument("--pieces", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    texts = Texts(args.seed)
    corpus = args.folder / "corpus.txt"
    corpus.write_text("\n".join(texts.corpus(6000)), errors="replace")
    strings = [texts.any() for _ in range(args.strings)]
    for name, options in FAMILIES.items():
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=str(args.folder / name), vocab_size=args.pieces,
            character_coverage=0.98, hard_vocab_limit=False, minloglevel=2, **options)
        processor = sentencepiece.SentencePieceProcessor(str(args.folder / f"{name}.model"))
        tokens = left_out = 0
        with open(args.folder / f"{name}.cases", "wb") as cases:
            for text in strings:
                if options["model_type"] == "unigram" and is_tied(processor, text):
                    left_out += 1
                    continue
                ids, ranges = byte_ranges(processor, text)
                cases.write(record(text, ids, ranges))
                tokens += len(ids)
        print(f"{name}: {processor.vocab_size()} pieces, {tokens} tokens, {left_out} texts left out")


if __name__ == "__main__":
    main()
