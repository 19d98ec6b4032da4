#!/usr/bin/env python3
"""Makes tests/golden/bpe: small byte-level BPE vocabularies, and what PyPI's tokenizers says.

Run by hand, from anywhere; nothing in the build calls it:

    pip install tokenizers
    python3 tests/golden/make_bpe_golden.py                        the committed files
    python3 tests/golden/make_bpe_golden.py FOLDER --strings 100000 --pieces 8000 --seed 2
                                                                   for tests/full.sh tokenizers

Made with tokenizers 0.23.3. FAMILY.json is a tokenizer.json as the family's published ones are
written (normalizer, pre-tokenizer, post-processor, added tokens), with a vocabulary trained here on
text in many scripts. FAMILY.cases has, for every text: its length and UTF-8 bytes, the number of
tokens, and for every token its id, its first byte less that of the token before, and its length in
bytes; all numbers are LEB128.

Added tokens are taken out before the texts are encoded: no text of a document becomes one. A token
of a part of a character has all of it, as in tokenizers. Where NFC changes a text, the tokens of a
changed stretch have all of the stretch: tokenizers leaves bytes out there, and its range must lie
within ours.

Left out, and counted in the last line, are texts with characters that came to Unicode after this
Python's version (14 in Debian 12, as in its PCRE2) and are no longer unassigned to tokenizers, and
texts whose NFC has changed since version 9, which tokenizers has.
"""

import argparse
import json
import pathlib
import random
import sysconfig
import unicodedata

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent

# The patterns as published.
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT_4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior, invert=invert),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def family(pre_tokenizer, marks, **more):
    return {"pre_tokenizer": pre_tokenizer, "marks": marks, "first": False, "ignore_merges": False,
            "nfc": False, "bos": None, "pairs": False} | more


# `first`: the added tokens are the first of the vocabulary, too. `pairs`: merges are lists of two.
FAMILIES = {
    "gpt2": family(byte_level(), ["<|endoftext|>"]),
    "llama3": family(split(LLAMA3), ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                                     "<|end_header_id|>", "<|eot_id|>"],
                     ignore_merges=True, bos="<|begin_of_text|>"),
    "llama3_removed": family(split(LLAMA3, "removed", True), ["<|endoftext|>", "<|im_end|>"]),
    "qwen2": family(split(QWEN2), ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>"],
                    nfc=True),
    "tekken": family(split(TEKKEN), ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"],
                     ignore_merges=True, bos="<s>", first=True, pairs=True),
    "smollm": family(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                              byte_level()]),
                     ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], first=True, pairs=True),
    "gpt_4o": family(split(GPT_4O), ["<|endoftext|>", "<|end|>"], pairs=True),
}

SCRIPTS = [  # ranges of letters
    (0x61, 0x7A), (0x61, 0x7A), (0x41, 0x5A), (0xC0, 0x17F), (0x1E00, 0x1EF9), (0x370, 0x3FF),
    (0x400, 0x45F), (0x531, 0x586), (0x5D0, 0x5EA), (0x620, 0x64A), (0x710, 0x72F), (0x780, 0x7A5),
    (0x905, 0x94D), (0x985, 0x9CD), (0xA05, 0xA4D), (0xB85, 0xBCD), (0xC05, 0xC4D), (0xD05, 0xD4D),
    (0xE01, 0xE4E), (0xE81, 0xECD), (0xF40, 0xF7E), (0x1000, 0x103E), (0x10D0, 0x10F0),
    (0x1200, 0x135A), (0x13A0, 0x13F4), (0x1780, 0x17D2), (0x1820, 0x1878), (0x3041, 0x3096),
    (0x30A1, 0x30FA), (0x4E00, 0x4FFF), (0x4E00, 0x9FFF), (0xAC00, 0xB000), (0xAC00, 0xD7A3),
    (0x1100, 0x11FF), (0x10330, 0x1034A), (0x1D400, 0x1D7FF), (0x1F300, 0x1F64F), (0x20000, 0x20200),
    (0x2190, 0x22FF), (0xFF01, 0xFF5E), (0x660, 0x669), (0x966, 0x96F), (0x30, 0x39), (0x2460, 0x2490),
    (0x2160, 0x2188)]
SPACES = ([" "] * 12 + ["\n"] * 4 + list("\t\r\v\f") +
          ["\r\n", "  ", "\n\n", "\x85", "\xa0", "\u1680", "\u180e", "\u2003", "\u2028", "\u2029",
           "\u200b", "\u202f", "\u205f", "\u3000", "\ufeff", "\x1c", "\x1f", "\0"])
ODD = ["'s", "'S", "'ſ", "'ll", "'LL", "'Ll", "'re", "'VE", "'d", "'m", "'T", "’s", "don't", "I'LL",
       "ß", "ŉ", "ﬆ", "K", "ﬁ", "Ǆ", "ǅ", "ʰ", "ª", "ſ", "İ", "ı", "<|endoftext|>", "<s>", "[INST]",
       "<|im_end|>", "<|eot_id|>", "/", "//", "http://", "...", "_", "-", "--", "1234567", "12", "²",
       "½", "Ⅷ", "٣", "e\u0301", "\u0301", "a\u0323\u0307", "a\u0307\u0323", "\u212b", "\u0958",
       "\u0344", "\u1100\u1161\u11a8", "각", "\u09c7\u09be", "か\u3099", "👩‍👩‍👧", "🇩🇪", "\u200d", "�", "\x7f",
       "\U0010ffff", "\ue000", "\U000e0001"]


class Texts:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        words = [[self.word(s) for _ in range(150)] for s in SCRIPTS]
        self.words = words
        folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
        self.lines = [line for name in ("argparse", "ast", "decimal", "difflib", "inspect", "random")
                      for line in (folder / f"{name}.py").read_text().splitlines(keepends=True)]

    def word(self, script):
        return "".join(chr(self.rng.randint(*script)) for _ in range(self.rng.randint(1, 9)))

    def common(self, words):  # the first are the most frequent
        return words[min(int(self.rng.expovariate(0.04)), len(words) - 1)]

    def sentence(self):
        words = self.rng.choice(self.words)
        text = " ".join(self.common(words) for _ in range(self.rng.randint(1, 12)))
        return text + self.rng.choice([".", "", "!\n", "…", "? "])

    def line(self):
        return self.rng.choice(self.lines)

    def mixture(self):
        return "".join(self.rng.choice([self.rng.choice(SPACES), self.rng.choice(ODD),
                                        self.common(self.rng.choice(self.words))])
                       for _ in range(self.rng.randint(1, 14)))

    def spaces(self):
        return "".join(self.rng.choice(SPACES + ["a", "1", "."])
                       for _ in range(self.rng.randint(1, 20)))

    def bytes(self):
        data = bytes(self.rng.choice([self.rng.randrange(256), self.rng.randrange(32, 127)])
                     for _ in range(self.rng.randint(0, 40)))
        return data.decode(errors="replace")

    def broken(self):
        data = bytearray((self.line() + self.sentence() + self.mixture()).encode()[:120])
        for _ in range(self.rng.randint(1, 6)):
            data[self.rng.randrange(len(data))] = self.rng.randrange(256)
        return bytes(data).decode(errors="replace")

    def points(self):
        top = self.rng.choice([0x250, 0x3000, 0xFFFF, 0x1FFFF, 0x10FFFF])
        points = (self.rng.randint(0, top) for _ in range(self.rng.randint(1, 16)))
        return "".join(chr(p) for p in points if not 0xD800 <= p <= 0xDFFF)

    def decomposed(self):
        text = unicodedata.normalize("NFD", self.sentence())
        marks = [chr(self.rng.randint(0x300, 0x36F)) for _ in range(self.rng.randint(0, 4))]
        for mark in marks:
            at = self.rng.randint(0, len(text))
            text = text[:at] + mark + text[at:]
        return text

    def any(self):
        return self.rng.choice([self.sentence, self.line, self.mixture, self.spaces, self.bytes,
                                self.broken, self.points, self.decomposed])()

    def strings(self, count):
        """-> texts on which all agree what Unicode is, and how many others there were."""
        missing = "".join(c for c in map(chr, range(0x110000)) if unicodedata.category(c) == "Cn")
        known = pre_tokenizers.Split(Regex(r"\p{Cn}+"), "removed").pre_tokenize_str(missing)
        newer = set("".join(text for text, _ in known))
        nfc = normalizers.NFC()
        strings, left_out = [], 0
        while len(strings) < count:
            text = self.any()
            if newer.isdisjoint(text) and nfc.normalize_str(text) == unicodedata.normalize("NFC", text):
                strings.append(text)
            else:
                left_out += 1
        return strings, left_out

    def corpus(self, count):
        return [self.rng.choice([self.sentence, self.sentence, self.line, self.line, self.mixture])()
                for _ in range(count)]


def train(of, pieces, corpus):
    """-> tokenizer.json as an object."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = of["pre_tokenizer"]
    tokenizer.decoder = decoders.ByteLevel()
    if of["nfc"]:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=pieces, show_progress=False, special_tokens=of["marks"] if of["first"] else [],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens(of["marks"])
    root = json.loads(tokenizer.to_str())
    for token in root["added_tokens"]:  # as Qwen's
        token["special"] = token["content"] != "<tool_call>"
    model = root["model"]
    model["ignore_merges"] = of["ignore_merges"]
    if of["ignore_merges"]:  # pieces that only the whole word leads to
        model["merges"] = [m for i, m in enumerate(model["merges"]) if i % 5 != 4]
    if not of["pairs"]:
        model["merges"] = [" ".join(m) for m in model["merges"]]
    trim = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    root["post_processor"] = trim
    if of["bos"]:
        bos = {"SpecialToken": {"id": of["bos"], "type_id": 0}}
        sequence = [{"Sequence": {"id": i, "type_id": k}} for k, i in enumerate("AB")]
        ids = [t["id"] for t in root["added_tokens"] if t["content"] == of["bos"]]
        root["post_processor"] = {"type": "Sequence", "processors": [
            trim, {"type": "TemplateProcessing", "single": [bos, sequence[0]],
                   "pair": [bos, sequence[0], bos, sequence[1]],
                   "special_tokens": {of["bos"]: {"id": of["bos"], "ids": ids,
                                                  "tokens": [of["bos"]]}}}]}
    return root


def starts_stretch(c):
    point = ord(c)
    jamo = 0x1160 <= point <= 0x11FF
    return point < 0x300 or not (jamo or unicodedata.category(c)[0] == "M")


def composed_ranges(text, pieces, nfc):
    """Byte ranges in `text` of `pieces` (lengths in bytes) of its normalised form."""
    origin = []  # of every byte of the normalised text: the range of what it comes from
    at, i = 0, 0
    while i < len(text):
        j = i + 1
        while j < len(text) and not starts_stretch(text[j]):
            j += 1
        new, old = nfc.normalize_str(text[i:j]), text[i:j]
        if new == old:
            for c in old:
                size = len(c.encode())
                origin += [(at, at + size)] * size
                at += size
        else:
            size = len(old.encode())
            origin += [(at, at + size)] * len(new.encode())
            at += size
        i = j
    ranges, done = [], 0
    for size in pieces:
        ranges.append((origin[done][0], origin[done + size - 1][1]))
        done += size
    assert done == len(origin), text
    return ranges


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def record(text, ids, ranges):
    data = text.encode()
    out = varint(len(data)) + data + varint(len(ids))
    before = 0
    for i, (begin, end) in zip(ids, ranges):
        out += varint(i) + varint(begin - before) + varint(end - begin)
        before = begin
    return out


def case(text, encoding, nfc):
    offsets = [0]
    for c in text:
        offsets.append(offsets[-1] + len(c.encode()))
    ranges = [(offsets[a], offsets[b]) for a, b in encoding.offsets]
    if nfc:  # every character of a token's text is one byte
        wide = composed_ranges(text, [len(t) for t in encoding.tokens], nfc)
        for (a, b), (c, d) in zip(ranges, wide):
            assert c <= a and b <= d, (text, ranges, wide)
        if nfc.normalize_str(text) == text:
            assert ranges == wide, (text, ranges, wide)
        ranges = wide
    return record(text, encoding.ids, ranges)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=HERE / "bpe")
    parser.add_argument("--strings", type=int, default=480)
    parser.add_argument("--pieces", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    texts = Texts(args.seed)
    corpus = texts.corpus(6000)
    strings, left_out = texts.strings(args.strings)
    for name, of in FAMILIES.items():
        root = train(of, args.pieces, corpus)
        text = json.dumps(root, ensure_ascii=False, separators=(",", ":"))
        (args.folder / f"{name}.json").write_text(text + "\n")
        root["added_tokens"], root["post_processor"] = [], None
        oracle = Tokenizer.from_str(json.dumps(root))
        nfc = normalizers.NFC() if of["nfc"] else None
        encodings = oracle.encode_batch(strings, add_special_tokens=False)
        (args.folder / f"{name}.cases").write_bytes(
            b"".join(case(t, e, nfc) for t, e in zip(strings, encodings)))
        print(name, len(root["model"]["vocab"]), sum(len(e.ids) for e in encodings),
              (args.folder / f"{name}.cases").stat().st_size)
    print(f"{left_out} texts left out, Unicode {unicodedata.unidata_version}")


if __name__ == "__main__":
    main()
