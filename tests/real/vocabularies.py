#!/usr/bin/env python3
"""Real vocabularies beside their published tokens.

  vocabularies.py TOKENIZER_COMPARE FOLDER

FOLDER holds llama.cpp's vocabulary-only files, ggml-vocab-NAME.gguf, some of them with texts
(.inp) and the tokens that the model's own tokenizer makes of them (.out). Each file must load, and
each text must give its tokens. Vocabularies of BERT are left out: they are of no model that answers.
Prints a row of a table for each, differences to stderr. Exits 1 where any differs or does not load.
"""
import pathlib
import struct
import subprocess
import sys


class Tokenizer:
    """A tokenizer_compare --stream that is running."""

    def __init__(self, program, vocabulary):
        self.process = subprocess.Popen([program, "--stream", vocabulary], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def encode(self, text):
        """(ids, ranges, dropped bytes) of bytes, or None where the program is gone or refuses."""
        try:
            self.process.stdin.write(struct.pack("<I", len(text)) + text)
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        count = self._numbers(1)
        if not count or count[0] == 0xFFFFFFFF:
            return None
        dropped = self._numbers(1)[0]
        numbers = self._numbers(3 * count[0])
        return numbers[::3], list(zip(numbers[1::3], numbers[2::3])), dropped

    def close(self):
        """Ends the process; returns its stderr."""
        self.process.stdin.close()
        said = self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.wait()
        return said.strip()

    def _numbers(self, count):
        data = self.process.stdout.read(4 * count)
        return struct.unpack(f"<{len(data) // 4}I", data)


def range_fault(text, ranges):
    """Whether ranges ascend, cover the text and end between characters; what is wrong, or ""."""
    if not ranges:
        return ""
    inside = lambda at: at < len(text) and text[at] & 0xC0 == 0x80
    before = (0, 0)
    for begin, end in ranges:
        if begin < before[0] or end < before[1] or begin > before[1] or begin > end:
            return f"range {begin}, {end} after {before}"
        if inside(begin) or inside(end):
            return f"range {begin}, {end} cuts a character"
        before = (begin, end)
    return "" if before[1] == len(text) else f"ranges end at {before[1]} of {len(text)}"


def cases(path):
    """(text, ids) of a vocabulary's .inp and .out; none where they are missing."""
    texts, tokens = pathlib.Path(f"{path}.inp"), pathlib.Path(f"{path}.out")
    if not texts.exists() or not tokens.exists():
        return []
    parts = texts.read_bytes().split(b"\n__ggml_vocab_test__\n")
    lines = tokens.read_text().split("\n")
    return [(text, [int(word) for word in line.split()]) for text, line in zip(parts, lines)]


def compare(program, path):
    """(loads, cases, differences, what was assumed)"""
    tokenizer = Tokenizer(program, str(path))
    loads = tokenizer.encode(b"a b") is not None
    differences = 0
    wanted = cases(path) if loads else []
    for text, ids in wanted:
        made = tokenizer.encode(text)
        fault = "refused" if made is None else range_fault(text, made[1])
        if made is not None and list(made[0]) == ids and not fault:
            continue
        differences += 1
        print(f"{path.name}: {text!r}\n  wanted {ids}\n  got    {made and list(made[0])} {fault}",
              file=sys.stderr)
    return loads, len(wanted), differences, tokenizer.close()


def main():
    program, folder = sys.argv[1:]
    bad = 0
    print("| vocabulary | loads | cases | different | assumed |\n|---|---|---:|---:|---|")
    for path in sorted(pathlib.Path(folder).glob("ggml-vocab-*.gguf")):
        name = path.stem.removeprefix("ggml-vocab-")
        if "bert" in name:
            continue
        loads, count, differences, said = compare(program, path)
        bad += differences + (not loads)
        said = said.replace("\n", "; ")
        print(f"| {name} | {'yes' if loads else 'no'} | {count} | {differences} | {said} |")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
