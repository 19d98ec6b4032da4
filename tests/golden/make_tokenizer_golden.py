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
and removal of extra white space, which the bundled tokenizer does not have. tokenizer_marks.model
is a BPE model like Gemma's: marks, tags of HTML and runs of line breaks and spaces are user-defined
pieces. What Lectern makes control tokens of is left out of the vocabulary that its cases are
encoded with, which changes nothing where a text has none of them.
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
MARKED = HERE / "tokenizer_marks.model"
MARKS = ["<start_of_turn>", "<end_of_turn>", "<mask>", "<unused0>", "[@BOS@]", "<s>"]
KEPT = ["\n", "\n\n", "\n\n\n", "▁▁", "▁▁▁", "<table>", "</td>", "<h1>"]

TEXTS = [
    "", " ", "  ", "\n", "\t", "a", " a", "a ", "Hello world", " Hello  world ", "hello\r\nworld\r\n",
    "The quick brown fox jumps over the lazy dog.", "line one\n\nline two\n", "x\x00y\x00",
    "\x00", "naïve café", "😀", "a😀b😀😀", "🇩🇪 👩‍👩‍👧", "日本語のテキスト", "Ünïcödé ① ﬁ Å ｆｕｌｌ",
    "<s>hi</s>", "<unk><0x41>", "[INST] <<SYS>> [/INST]", "<|im_start|>user", "▁a▁", "\ufeffbom",
    "<start_of_turn>model\nYes.<end_of_turn>\n", "<start_of_turn", "<<start_of_turn>>", "[@BOS@]",
    "<mask><unused0></s><bos>", "<table><tr><td>a</td>", "<h1>\n\n\n\n  two   three    four",
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


def processors(proto):
    """-> for the beginning of a text, and for its continuation."""
    begin = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    later = pb.ModelProto()
    later.CopyFrom(proto)
    later.normalizer_spec.add_dummy_prefix = False
    return begin, sentencepiece.SentencePieceProcessor(model_proto=later.SerializeToString())


def without_marks(proto):
    """-> the model without MARKS, and what its ids are in the whole one."""
    left = pb.ModelProto()
    left.CopyFrom(proto)
    del left.pieces[:]
    ids = [i for i, piece in enumerate(proto.pieces) if not (piece.type == 4 and piece.piece in MARKS)]
    left.pieces.extend(proto.pieces[i] for i in ids)
    return left, ids


def describe(path):
    proto = pb.ModelProto.FromString(path.read_bytes())
    whole = processors(proto)
    begin = whole[0]
    left, ids_of_left = without_marks(proto)
    cases = []
    for text in TEXTS + list(random_texts()):
        for processor, exact in zip(processors(left), whole):
            ids, ranges = byte_ranges(processor, text)
            ids = [ids_of_left[i] for i in ids]
            if len(left.pieces) == len(proto.pieces) or not any(mark in text for mark in MARKS):
                assert (ids, ranges) == byte_ranges(exact, text), text
            cases.append({"text": text, "continuation": exact is not begin, "ids": ids,
                          "ranges": ranges})
    anchor = begin.piece_to_id("e") if begin.piece_to_id("e") != begin.unk_id() else 5
    pieces = []
    for i in range(begin.vocab_size()):
        if begin.is_byte(i):
            pieces.append(None)
            continue
        if len(left.pieces) != len(proto.pieces) and i not in ids_of_left:
            pieces.append("")
            continue
        between = begin.decode([anchor, i, anchor])
        around = begin.decode([anchor])
        pieces.append(between[len(around):len(between) - len(around)])
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


def train_marked():
    rng = random.Random(4)
    words = "the of bridge and table to in turn start model is was that it user at be this".split()
    lines = "\n".join("".join(rng.choice(words) + rng.choice([" ", ", ", "<", ">_"]) for _ in range(12))
                      for _ in range(400))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "text.txt").write_text(lines)
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text.txt"), model_prefix=str(folder / "m"), vocab_size=390,
            model_type="bpe", byte_fallback=True, user_defined_symbols=MARKS + KEPT,
            pad_id=0, eos_id=1, bos_id=2, unk_id=3, bos_piece="<bos>", eos_piece="<eos>",
            normalization_rule_name="identity", add_dummy_prefix=False,
            remove_extra_whitespaces=False, minloglevel=2)
        proto = pb.ModelProto.FromString((folder / "m.model").read_bytes())
    proto.trainer_spec.ClearField("input")  # where it was made
    proto.trainer_spec.ClearField("model_prefix")
    MARKED.write_bytes(proto.SerializeToString())


def main():
    train_unigram()
    train_marked()
    golden = [describe(BUNDLED), describe(UNIGRAM), describe(MARKED)]
    out = HERE / "tokenizer_golden.json"
    out.write_text(json.dumps(golden, separators=(",", ":"), sort_keys=True) + "\n")
    print(out, out.stat().st_size, UNIGRAM.stat().st_size)


if __name__ == "__main__":
    main()
