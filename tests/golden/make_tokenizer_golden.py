#!/usr/bin/env python3
"""Makes tokenizer_golden.json and tokenizer_unigram.model: what Python's sentencepiece says.

Run by hand, from anywhere; nothing in the build calls it:

    pip install sentencepiece protobuf
    python3 tests/golden/make_tokenizer_golden.py

Made with sentencepiece 0.2.3. tokenizer_golden.json is a list of models; each has `path` (from the
repository's root), `vocab_size`, `bos`, `eos`, `pieces` (text that every id decodes to between two
others) and `cases`: `text`, `continuation` (dummy prefix switched off), `ids` and `ranges` (byte
offsets; the pieces of one byte-fallback character all have the character's).

tokenizer_unigram.model is a small unigram model with a precompiled charsmap, user-defined pieces
and removal of extra white space, which the bundled tokenizer does not have.
"""

import json
import pathlib
import random
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUNDLED = ROOT / "tools/reader/model/tokenizer.model"
UNIGRAM = HERE / "tokenizer_unigram.model"

TEXTS = [
    "", " ", "  ", "\n", "\t", "a", " a", "a ", "Hello world", " Hello  world ", "hello\r\nworld\r\n",
    "The quick brown fox jumps over the lazy dog.", "line one\n\nline two\n", "x\x00y\x00",
    "\x00", "naïve café", "😀", "a😀b😀😀", "🇩🇪 👩‍👩‍👧", "日本語のテキスト", "Ünïcödé ① ﬁ Å ｆｕｌｌ",
    "<s>hi</s>", "<unk><0x41>", "[INST] <<SYS>> [/INST]", "<|im_start|>user", "▁a▁", "\ufeffbom",
    "\u200bzero\u00a0width", "3.14159, -42; (a+b)*c", "don't can't it's", "\U0010ffff\ue000", "�",
    "a" * 300, "ab" * 100 + "é", "    four spaces", "\x1b[31m\x7f", "é" * 40,
]


def random_texts():
    rng = random.Random(7)
    alphabets = [range(32, 127), range(0, 0x250), range(0x3040, 0x3100), range(0x1F300, 0x1F650),
                 [32, 10, 97, 101, 0x2581, 0xFB01, 0x2460]]
    for _ in range(60):
        alphabet = rng.choice(alphabets)
        yield "".join(chr(rng.choice(alphabet)) for _ in range(rng.randrange(1, 40)))


def byte_ranges(processor, text):
    """Byte range of each piece; a byte-fallback group takes the range of its last piece."""
    pieces = processor.encode(text, return_type="proto").pieces
    ranges = [[p.begin, p.end] for p in pieces]
    if ranges:  # white space that was removed at the ends
        ranges[0][0] = 0
        ranges[-1][1] = len(text.encode())
    i = 0
    while i < len(pieces):
        size = 1
        if processor.is_byte(pieces[i].id):
            lead = int(pieces[i].piece[3:5], 16)
            size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        for j in range(i, i + size):
            ranges[j] = [ranges[i][0], ranges[i + size - 1][1]]
        i += size
    return [p.id for p in pieces], ranges


def describe(path):
    proto = pb.ModelProto.FromString(path.read_bytes())
    begin = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    proto.normalizer_spec.add_dummy_prefix = False
    later = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    cases = []
    for text in TEXTS + list(random_texts()):
        for continuation in (False, True):
            ids, ranges = byte_ranges(later if continuation else begin, text)
            cases.append({"text": text, "continuation": continuation, "ids": ids,
                          "ranges": ranges})
    anchor = begin.piece_to_id("e") if begin.piece_to_id("e") != begin.unk_id() else 5
    pieces = []
    for i in range(begin.vocab_size()):
        if begin.is_byte(i):
            pieces.append(None)
            continue
        whole = begin.decode([anchor, i, anchor])
        around = begin.decode([anchor])
        pieces.append(whole[len(around):len(whole) - len(around)])
    return {"path": str(path.relative_to(ROOT)), "vocab_size": begin.vocab_size(),
            "bos": begin.bos_id(), "eos": begin.eos_id(), "pieces": pieces, "cases": cases}


def train_unigram():
    rng = random.Random(3)
    words = "the of and a to in is was that it for on with as his they at be this from".split()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = folder / "text.txt"
        text.write_text("\n".join(" ".join(rng.choices(words, k=12)) for _ in range(400)))
        rules = folder / "rules.tsv"
        # fi ligature, circled one, full-width a, zero-width space (removed), no-break space, CR LF
        rules.write_text("FB01\t66 69\n2460\t31\nFF41\t61\n200B\t\nA0\t20\nD A\t20\nA\t20\n"
                         "C5\t41 30A\nFDFA\t635 644 649 20 627 644 644 647\n")
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=str(folder / "m"), vocab_size=90, model_type="unigram",
            normalization_rule_tsv=str(rules), user_defined_symbols=["@@", "@@@", "ing"],
            hard_vocab_limit=False, minloglevel=2)
        UNIGRAM.write_bytes((folder / "m.model").read_bytes())


def main():
    train_unigram()
    golden = [describe(BUNDLED), describe(UNIGRAM)]
    out = HERE / "tokenizer_golden.json"
    out.write_text(json.dumps(golden, separators=(",", ":"), sort_keys=True) + "\n")
    print(out, out.stat().st_size, UNIGRAM.stat().st_size)


if __name__ == "__main__":
    main()
