#!/usr/bin/env python3
"""Makes tests/golden/json: small tokenizer.json of many shapes, and what PyPI's tokenizers says.

Run by hand, from anywhere; nothing in the build calls it:

    pip install tokenizers sentencepiece
    python3 tests/golden/make_json_golden.py                       the committed files
    python3 tests/golden/make_json_golden.py FOLDER --strings 20000 --pieces 4000 --seed 2

Made with tokenizers 0.23.3. Each FAMILY.json is written as published files are (normalizer,
pre_tokenizer, model, added tokens), with a vocabulary trained here. FAMILY.cases is as
make_bpe_golden.py writes it, but all ranges are empty: where white space is removed or characters
change, tokenizers leaves bytes out that ours have.

Marks of a template are taken out before texts are encoded: no text of a document becomes one.
"""

import argparse
import base64
import json
import pathlib
from unicodedata import category

import sentencepiece
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizers import (AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers,
                        trainers)

from make_bpe_golden import GPT_4O, HERE, QWEN2, Texts, record

MARK = "\u2581"
CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
             r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)


def level(**more):
    return pre_tokenizers.ByteLevel(**({"add_prefix_space": False, "use_regex": False} | more))


def spaces(split, scheme):
    return pre_tokenizers.Metaspace(MARK, scheme, split)


def sequence(*steps):
    return pre_tokenizers.Sequence(list(steps))


RUNS = [AddedToken(text, normalized=False) for text in
        ["  ", "   ", "    ", "\n\n", "\n\n\n", "\t\t", "<b>", "</b>", "<table>", "<mark>"]]
WORDS = [AddedToken("the", single_word=True), AddedToken("def ", normalized=False),
         AddedToken("+", lstrip=True), AddedToken("self", rstrip=True, normalized=False),
         AddedToken("a b"), AddedToken("é", normalized=True)]
LLAMA = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
GEMMA = normalizers.Replace(" ", MARK)

# name: (normalizer, pre_tokenizer, kind, added tokens); kinds: "bytes" is byte-level BPE, "gaps"
# lacks half of the bytes, "text" is BPE with byte_fallback, "unknown" is BPE with an unknown piece,
# "unigram" and "unigram-bytes" as their names say.
FAMILIES = {
    "deepseek3": (None, sequence(split(r"\p{N}{1,3}"), split(CJK), split(DEEPSEEK3), level()),
                  "bytes", []),
    "bloom": (None, sequence(split(BLOOM), level()), "bytes", []),
    "prefix": (None, level(add_prefix_space=True, use_regex=True), "bytes", WORDS),
    "gaps": (None, sequence(split(QWEN2), level()), "gaps", []),
    "olmo": (normalizers.NFC(), level(use_regex=True), "bytes", RUNS),
    "starcoder": (None, sequence(pre_tokenizers.Digits(individual_digits=True),
                                 level(use_regex=True)), "bytes", []),
    "digits": (None, sequence(pre_tokenizers.Digits(individual_digits=False),
                              pre_tokenizers.Punctuation("contiguous"), level()), "bytes", []),
    "behaviors": (None, sequence(split("[0-9]", "merged_with_previous"), split(r"\p{Lu}",
                                 "merged_with_next"), split("[.,]+", "contiguous"),
                                 split(r"\p{P}", "removed"), split(r"\w+|[^\w\s]+", "removed", True),
                                 level()), "bytes", []),
    "groups": (None, sequence(split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(GPT_4O), level()),
               "bytes", []),
    "lower": (normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(),
                                    normalizers.Lowercase(), normalizers.Strip(),
                                    normalizers.Replace(Regex(r"\s+"), " ")]),
              sequence(pre_tokenizers.Whitespace(), level()), "bytes", []),
    "compatible": (normalizers.NFKC(), sequence(pre_tokenizers.WhitespaceSplit(),
                                                pre_tokenizers.Punctuation(), level()),
                   "bytes", []),
    "llama2": (LLAMA, None, "text", []),
    "gemma": (GEMMA, pre_tokenizers.Split(" ", "merged_with_previous"), "text", RUNS),
    "mistral": (None, spaces(False, "first"), "text", WORDS[1:4]),
    "metaspace": (normalizers.NFC(), spaces(True, "always"), "unknown", WORDS),
    "unigram": ("charsmap", spaces(True, "always"), "unigram", RUNS[4:]),
    "unigram_bytes": (GEMMA, None, "unigram-bytes", []),
}


def byte_pieces():
    return [f"<0x{byte:02X}>" for byte in range(256)]


def train_bpe(of, pieces, corpus):
    normalizer, pre_tokenizer, kind, _ = of
    tokenizer = Tokenizer(models.BPE())
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    elif kind != "bytes":  # else a word would be a whole text
        tokenizer.pre_tokenizer = spaces(True, "always")
    if normalizer:
        tokenizer.normalizer = normalizer
    if kind == "bytes" or kind == "gaps":
        more = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    else:
        more = {"limit_alphabet": min(300, pieces // 2), "special_tokens": ["<unk>", "<s>", "</s>"]}
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=pieces,
                                                              show_progress=False, **more))
    root = json.loads(tokenizer.to_str())
    if not pre_tokenizer:
        root["pre_tokenizer"] = None
    model = root["model"]
    if kind == "text":
        model |= {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
        for piece in byte_pieces():
            model["vocab"].setdefault(piece, len(model["vocab"]))
    if kind == "unknown":
        model |= {"unk_token": "<unk>", "fuse_unk": True}
    if kind == "gaps":
        used = {part for merge in model["merges"] for part in [*merge, "".join(merge)]}
        for piece in [p for p in model["vocab"] if len(p) == 1 and p not in used]:
            del model["vocab"][piece]
        model["vocab"] = {piece: i for i, piece in enumerate(model["vocab"])}
    return root


def train_unigram(of, pieces, corpus, folder):
    """SentencePiece's trainer: its charsmap is what published files have."""
    normalizer, pre_tokenizer, kind, _ = of
    has_bytes = kind == "unigram-bytes"
    rules = {"normalization_rule_name": "identity"}
    if normalizer == "charsmap":  # the published ones have some 60,000 rules
        changes = {"\u2460": "1", "\ufb01": "fi", "\t": " ", "\n": " ", "\r": " ", "\xa0": " ",
                   "\u3000": " ", "e\u0301": "\xe9", "\u212b": "\xc5", "\xbd": "1\u20442",
                   "\u1100\u1161": "\uac00", "\u200b": "", "\ufeff": "", "\x7f": ""}
        points = lambda text: " ".join(f"{ord(c):X}" for c in text)
        (folder / "rules.tsv").write_text("".join(f"{points(a)}\t{points(b)}\n"
                                                  for a, b in changes.items()))
        rules = {"normalization_rule_tsv": str(folder / "rules.tsv")}
    # A trainer of unigrams takes every character of its corpus for a piece.
    few = [line for line in corpus if all(c < "\u0600" for c in line)]
    (folder / "corpus.txt").write_text("\n".join(line.replace("\0", "") for line in few))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"), model_prefix=str(folder / "spm"), vocab_size=pieces + 500,
        model_type="unigram", byte_fallback=has_bytes, minloglevel=2, hard_vocab_limit=False,
        **rules,
        character_coverage=0.995)
    proto = ModelProto.FromString((folder / "spm.model").read_bytes())
    for name in ("corpus.txt", "rules.tsv", "spm.model", "spm.vocab"):
        (folder / name).unlink(missing_ok=True)
    root = json.loads(Tokenizer(models.Unigram()).to_str())
    if normalizer == "charsmap":
        charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
        root["normalizer"] = {"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": charsmap},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]}
    elif normalizer:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizer
        root["normalizer"] = json.loads(tokenizer.to_str())["normalizer"]
    if pre_tokenizer:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizer
        root["pre_tokenizer"] = json.loads(tokenizer.to_str())["pre_tokenizer"]
    root["model"] |= {"unk_id": 0, "byte_fallback": has_bytes,
                      "vocab": [[p.piece, round(p.score, 4)] for p in proto.pieces]}
    return root


def add_tokens(root, added):
    """The marks of the vocabulary, and `added`."""
    tokenizer = Tokenizer.from_str(json.dumps(root | {"added_tokens": []}))
    is_text = tokenizer.token_to_id("<unk>") is not None  # else they are pieces like others
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"] if is_text else [])
    tokenizer.add_tokens(added)
    tokenizer.add_special_tokens(["<|im_end|>"])  # last: without it the other ids stay
    return json.loads(tokenizer.to_str())


def is_mark(token):
    content = token["content"]
    is_tag = content in ("<b>", "</b>", "<table>")
    return token["special"] or (content[0] == "<" and content[-1] == ">" and not is_tag)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=HERE / "json")
    parser.add_argument("--strings", type=int, default=120)
    parser.add_argument("--pieces", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    texts = Texts(args.seed)
    corpus = texts.corpus(4000)
    plain, _ = texts.strings(args.strings)
    pieces = ["  ", "    ", "\n\n", "\n\n\n", "the", " the ", "+", " + ", "self", "self ", "def ",
              "a b", "<b>", "</b>", "<table>", "<mark>", "é", "e\u0301", "a", " ", "x", "\t\t"]
    strings = [t if i % 3 else t[:40] + "".join(texts.rng.choice(pieces) for _ in range(12)) + t[40:80]
               for i, t in enumerate(plain)]
    # tokenizers would find the vocabulary's pieces with these texts.
    strip = normalizers.StripAccents()  # whose Unicode is an old one
    newer = {c for c in map(chr, range(0x110000)) if category(c)[0] == "M" and strip.normalize_str(c)}
    strings = [text for text in strings if newer.isdisjoint(text)]
    marks = ("<s>", "</s>", "<unk>", "<|im_end|>")
    strings = [text for text in strings if not any(mark in text for mark in marks)]
    for name, of in FAMILIES.items():
        is_unigram = of[2].startswith("unigram")
        root = (train_unigram(of, args.pieces, corpus, args.folder) if is_unigram
                else train_bpe(of, args.pieces, corpus))
        root = add_tokens(root, of[3])
        text = json.dumps(root, ensure_ascii=False, separators=(",", ":"))
        (args.folder / f"{name}.json").write_text(text + "\n")
        root["added_tokens"] = [t for t in root["added_tokens"] if not is_mark(t)]
        oracle = Tokenizer.from_str(json.dumps(root))
        encodings = oracle.encode_batch(strings, add_special_tokens=False)
        (args.folder / f"{name}.cases").write_bytes(
            b"".join(record(t, e.ids, [(0, 0)] * len(e.ids)) for t, e in zip(strings, encodings)))
        print(name, len(root["model"]["vocab"]), sum(len(e.ids) for e in encodings),
              (args.folder / f"{name}.json").stat().st_size,
              (args.folder / f"{name}.cases").stat().st_size)


if __name__ == "__main__":
    main()
