#!/usr/bin/env python3
"""Tokens of real text beside llama.cpp's.

  tokens.py TOKENIZER_COMPARE GGUF... [--folder DIR]... [--tokens N] [--download DIR]

For each GGUF file (one without tensors will do), texts are taken until there are N tokens (default
1,000,000): hard strings, translations in more than 20 languages and manual pages of Debian packages
(apt-get download into DIR, a temporary folder by default), files of --folder, documents, Perl and
Python sources of this machine. Ids must be those of llama-cpp-python's tokenize without special
tokens; ranges must cover each text. Needs llama-cpp-python from PyPI.

Prints a row of a table for each file, and every kind of text on its own; differences go to stderr.
Exits 1 where there are any.
"""
import argparse
import gettext
import gzip
import pathlib
import random
import subprocess
import sys
import tempfile

from vocabularies import Tokenizer, range_fault

PACKAGES = ["iso-codes", "debian-faq", "manpages-de", "manpages-es", "manpages-fr", "manpages-ja",
            "manpages-pl", "manpages-ru", "manpages-uk", "manpages-zh"]
# Catalogues of languages that are written in scripts of their own, or with marks.
LANGUAGES = ["am", "ar", "bn", "cs", "da", "de", "el", "es", "et", "fa", "fi", "fr", "gu", "he",
             "hi", "hu", "hy", "is", "it", "ja", "ka", "kn", "ko", "lt", "lv", "ml", "mr", "pa",
             "pl", "pt_BR", "ro", "ru", "sr", "sv", "ta", "te", "th", "tr", "uk", "vi", "zh_CN"]


def download(folder):
    """The packages' files, unpacked in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("*.deb")):
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
    root = folder / "root"
    if not root.exists():
        for package in sorted(folder.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    return root


def hard_strings():
    """Control bytes, line ends, emoji, marks, runs: what tokenizers trip over."""
    rng = random.Random(34)
    controls = "".join(map(chr, range(32))) + "\x7f"
    pieces = [*controls, "\r\n", "\n\n", "\n\n\n\n", "\t\t", "  ", "    ", " " * 31, " " * 33,
              "\u00a0", "\u0085", "\u180e", "\u200b", "\u200d", "\u2028", "\u3000", "\ufeff", "\ufffd",
              "e\u0301", "\u0301", "\u0915\u093c", "\u1100\u1161\u11a8", "\ufb01", "\u212b", "😀",
              "👨\u200d👩\u200d👧\u200d👦", "🇩🇪", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
              "<b>", "</b>", "<table>", "<td>", "<s>", "</s>", "<0x0A>", "[1]", "\u2581", "1234567", "٣٤٥",
              "½", "²", "I'm", "we'Ll", "DON'T", "ÉCOLE", "straße", "日本語", "한국어", "ภาษาไทย",
              "\U00010ffff"[:1], "word", "Word", "camelCase", "snake_case", "3.14e-10", "...", "!!??"]
    texts = list(pieces) + [controls * 3, "".join(pieces), "\r\n".join(pieces), " ".join(pieces)]
    for _ in range(3000):
        texts.append("".join(rng.choice(pieces) for _ in range(rng.randrange(1, 40))))
    for _ in range(1000):
        points = [rng.choice([rng.randrange(1, 0x250), rng.randrange(0x250, 0xd800),
                              rng.randrange(0xe000, 0x110000)]) for _ in range(40)]
        texts.append("".join(map(chr, points)))
    return [text.encode() for text in texts]


def catalogues(root):
    """A text a language: its catalogue's messages."""
    for language in LANGUAGES:
        lines = []
        for path in sorted(root.glob(f"usr/share/locale/{language}/LC_MESSAGES/*.mo")):
            with open(path, "rb") as file:
                entries = gettext.GNUTranslations(file)._catalog.items()
            lines += [f"{key} = {value}" for key, value in entries if isinstance(key, str) and key]
        if lines:
            yield "\n".join(lines).encode()


def files(folder, patterns, limit=200_000):
    """The texts of files that are UTF-8, in order of their names, each once."""
    seen = set()
    for pattern in patterns:
        for path in sorted(folder.rglob(pattern)):
            if path.is_symlink() or not path.is_file():
                continue
            try:
                data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
                data = data[:limit].decode().encode()
            except (OSError, EOFError, UnicodeDecodeError):
                continue
            if data and hash(data) not in seen:
                seen.add(hash(data))
                yield data


def spread(texts, share):
    """Every nth text, so that many folders are seen; `share` of them."""
    return [text for i, text in enumerate(texts) if i % share == 0]


def corpus(folders, root):
    """(kind, texts) in the order in which they are taken."""
    share = pathlib.Path("/usr/share")
    yield "hard strings", hard_strings()
    yield "languages", list(catalogues(root))
    yield "manual pages", spread(files(root / "usr/share/man", ["*.gz"]), 40)
    yield "HTML", spread(files(root, ["*.html", "*.html.gz"]), 2)
    for folder in folders:
        yield folder.name, list(files(folder, ["*.txt", "*.html", "*.md"]))
    yield "documents", spread(files(share / "doc", ["copyright", "README*", "*.html"]), 10)
    yield "licences", list(files(share / "common-licenses", ["*"]))
    yield "Perl", spread(files(share / "perl", ["*.pm", "*.pod"]), 8)
    yield "Python", spread(files(pathlib.Path("/usr/lib/python3"), ["*.py"]), 12)
    yield "CRLF", [t.replace(b"\n", b"\r\n") for t in files(share / "common-licenses", ["*"])]


def first_difference(ours, theirs):
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            return i
    return min(len(ours), len(theirs))


class Comparison:
    def __init__(self, program, path):
        import llama_cpp
        self.reference = llama_cpp.Llama(model_path=path, vocab_only=True, verbose=False)
        self.tokenizer = Tokenizer(program, path)
        self.texts = self.tokens = self.bytes = self.different = self.dropped = 0

    def add(self, kind, text):
        theirs = self.reference.tokenize(text, add_bos=False, special=False)
        ours = self.tokenizer.encode(text)
        ids = list(ours[0]) if ours else []
        self.texts += 1
        self.tokens += len(theirs)
        self.bytes += len(text)
        self.dropped += ours[2] if ours else 0
        fault = "refused" if ours is None else range_fault(text, ours[1])
        if ids == theirs and not fault:
            return
        self.different += 1
        at = first_difference(ids, theirs)
        begin = ours[1][at][0] if ours and at < len(ours[1]) else 0
        print(f"{kind}: token {at} at byte {begin} {text[max(0, begin - 20):begin + 40]!r} {fault}\n"
              f"  llama.cpp {theirs[at:at + 8]}\n  ours      {ids[at:at + 8]}", file=sys.stderr)


def compare(program, path, texts, wanted):
    comparison = Comparison(program, path)
    name = pathlib.Path(path).name
    for kind, items in texts:
        before = comparison.texts, comparison.tokens, comparison.different
        for text in items:
            comparison.add(kind, text)
        made = [now - then for now, then in
                zip((comparison.texts, comparison.tokens, comparison.different), before)]
        print(f"| {name}: {kind} | {made[0]} | {made[1]:,} | {made[2]} | |", flush=True)
    print(f"| **{name}** | {comparison.texts} | {comparison.tokens:,} | {comparison.different} | "
          f"{comparison.dropped} |")
    if comparison.tokens < wanted:
        print(f"{name}: {comparison.tokens:,} tokens are fewer than {wanted:,}", file=sys.stderr)
    comparison.tokenizer.close()
    return comparison.different == 0 and comparison.tokens >= wanted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("gguf", nargs="+")
    parser.add_argument("--folder", action="append", type=pathlib.Path, default=[])
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--download", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = download(options.download or pathlib.Path(temporary))
        texts = list(corpus(options.folder, root))
    print("| texts of | texts | tokens | different | bytes without a piece |\n|---|---:|---:|---:|---:|")
    same = [compare(options.program, path, texts, options.tokens) for path in options.gguf]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
