#!/usr/bin/env python3
"""Whole real documents, with questions about parts of them, for lectern-evaluate:

    real_documents.py FOLDER [--most BYTES] [--from FOLDER] [NAME…]

Writes FOLDER/NAME.txt and FOLDER/NAME.jsonl. The texts come from Debian packages, which apt fetches
once (tools/reader/package_texts.py); the questions are those of tools/reader/questions, whose passages
are moved to where they stand in the whole file. `--most` cuts a text at the end of a paragraph, for
models that take less; questions about what is cut off are left out. `--from` takes every NAME.txt with
NAME.jsonl of a folder instead.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reader"))
import package_texts  # noqa: E402

# One a kind of text, by length from 5K to 30K tokens: manuals, questions and answers, release notes, a
# history, lists of options, a tutorial. Chosen by kind and length before anything was measured on them.
NAMES = ["valgrind--faq", "subversion--svn_1.10", "mdadm--faq", "debhelper--debhelper.7", "chrony--faq-sync",
         "borgbackup-doc--faq", "bowtie2--MANUAL", "haproxy--intro", "gnubg-data--allabout",
         "r-base-core--FAQ-R-and-S"]


def whole_text(record):
    """The whole text of a question file's document, as bytes. Fetches the package if it is not
    cached. Errors of package_texts.text_of."""
    text, _ = package_texts.text_of(package_texts.HOME / "packages", {**record, "begin": 0, "end": None})
    return text


def cut(text, most):
    """At most `most` bytes of a text (0: all), up to the end of a paragraph; without one, up to a
    whole character."""
    if most == 0 or len(text) <= most:
        return text
    end = text.rfind(b"\n\n", 0, most)
    return text[:end + 1] if end > 0 else text[:most].decode(errors="ignore").encode()


def moved(question, by, length):
    """The question with its passages in the whole text; None: one of them was cut off."""
    passages = [{"begin": p["begin"] + by, "end": p["end"] + by} for p in question.get("passages", [])]
    if any(p["end"] > length for p in passages):
        return None
    return {**question, "passages": passages}


def packaged(name):
    """Text, questions, and where their passages are counted from."""
    lines = (package_texts.QUESTIONS / f"{name}.jsonl").read_text().splitlines()
    record = json.loads(lines[0])
    return whole_text(record), [json.loads(line) for line in lines[1:]], record["begin"]


def in_folder(path):
    """The same as packaged() of a NAME.jsonl with its NAME.txt beside it; passages count from 0."""
    return path.with_suffix(".txt").read_bytes(), [json.loads(line) for line in path.open()], 0


def write(name, source, folder, most):
    """Writes NAME.txt and NAME.jsonl, over files that are there, and prints a line. source: of
    packaged() or in_folder()."""
    text, questions, begin = source
    text = cut(text, most)
    kept = [m for q in questions if (m := moved(q, begin, len(text)))]
    (folder / f"{name}.txt").write_bytes(text)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(q, ensure_ascii=False) + "\n" for q in kept))
    print(f"{name}: {len(text)} bytes, {len(kept)} questions")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--from", type=pathlib.Path, dest="source", help="a folder with texts and questions")
    parser.add_argument("--most", type=int, default=0, help="bytes of each text; 0: all")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    sources = ({path.stem: in_folder(path) for path in sorted(options.source.glob("*.jsonl"))}
               if options.source else {name: packaged(name) for name in options.names})
    for name, source in sources.items():
        write(name, source, options.folder, options.most)


if __name__ == "__main__":
    main()
