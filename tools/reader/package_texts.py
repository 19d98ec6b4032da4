#!/usr/bin/env python3
"""Texts of real documents for training: files of Debian packages, as plain text.

  package_texts.py add PACKAGE FILE NAME [--section HEADING] [--most BYTES]
      writes questions/PACKAGE--NAME.jsonl with its first line alone, and prints the text with the
      byte at which each line begins
  package_texts.py show QUESTIONS.jsonl          prints the text in the same way
  package_texts.py fetch [QUESTIONS.jsonl...]    writes the texts of all into --texts

FILE is the path of a regular file in PACKAGE (no leading slash). The first line of a file of
questions names its document: package, version, file, the range of the text and its SHA-256. The text
itself is not kept in this repository. A text that is not the recorded one any more (another version
of the package) is skipped, which is said on stderr; with `fetch` exit status 1.

Archives are fetched by `apt-get download` into --cache. Man pages are laid out by man-db and groff.
"""
import argparse
import gzip
import hashlib
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
QUESTIONS = HERE / "questions"
HOME = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "lectern-reader"
BLOCKS = {"p", "div", "section", "article", "ul", "ol", "dl", "dt", "dd", "li", "table", "tr", "pre",
          "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "title", "hr", "figure", "para", "screen",
          "item", "steps", "note", "simpara", "programlisting", "listitem", "page", "info", "br"}
VERBATIM = {"pre", "screen", "programlisting", "code-block"}
HIDDEN = {"script", "style", "head", "nav", "desc", "credit", "license", "revision", "link", "footer"}
VOID = {"br", "hr", "img", "input", "meta", "link", "col", "wbr", "area", "base"}
HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6, "title": 2}


class Markup(html.parser.HTMLParser):
    """HTML, Mallard or DocBook as paragraphs, headings, list items and rows of tables."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.blocks, self.line, self.hidden, self.verbatim, self.lead = [], "", [], 0, ""
        self.cells = None

    def end_block(self):
        text = self.line if self.verbatim else re.sub(r"\s+", " ", self.line).strip()
        if text.strip():
            self.blocks.append((self.lead, text.strip("\n")))
            self.lead = ""
        self.line = ""

    def handle_starttag(self, tag, attributes):
        if self.hidden:
            if tag not in VOID:
                self.hidden.append(tag)
            return
        if tag in HIDDEN:
            if tag not in VOID:
                self.hidden.append(tag)
            return
        if tag in ("td", "th", "entry"):
            if self.line.strip():
                self.line += " | "
            return
        if tag in BLOCKS and not (self.cells and tag != "tr"):
            self.end_block()
        if tag == "tr":
            self.cells = True
        if tag in HEADINGS:
            self.lead = "#" * HEADINGS[tag] + " "
        elif tag in ("li", "listitem", "item"):
            self.lead = "- "
        if tag in VERBATIM:
            self.verbatim += 1

    def handle_endtag(self, tag):
        if self.hidden:
            if tag in self.hidden:
                while self.hidden.pop() != tag:
                    pass
            return
        if tag == "tr":
            self.cells = None
        if tag in BLOCKS and not self.cells:
            self.end_block()
            if tag in HEADINGS:
                self.lead = ""
        if tag in VERBATIM and self.verbatim:
            self.verbatim -= 1

    def handle_data(self, data):
        if not self.hidden:
            self.line += data

    def text(self):
        self.end_block()
        out = ""
        for lead, block in self.blocks:
            out += ("\n" if lead == "- " and out.endswith("\n") else "\n\n" if out else "") + lead + block
        return out + "\n"


def from_markup(data):
    """The text of HTML, Mallard or DocBook (bytes)."""
    parser = Markup()
    parser.feed(data.decode("utf-8", "replace"))
    parser.close()
    return parser.text()


def from_man(data, path):
    """The text of a man page. Writes a file beside `path`; CalledProcessError where man fails."""
    page = path.with_suffix(".page")
    page.write_bytes(data)
    text = subprocess.run(["man", "--no-hyphenation", "--no-justification", "-l", str(page)],
                          env={**os.environ, "MANWIDTH": "78", "LC_ALL": "C.UTF-8", "MANROFFSEQ": "",
                               "PAGER": "cat", "MANPAGER": "cat"},
                          capture_output=True, check=True).stdout.decode()
    return re.sub(".\b", "", text)


def converted(path):
    """The text of a file, by its name and content: man page, markup or plain, also behind .gz. It
    has no white space at line ends, no two empty lines in a row, and ends with a newline."""
    data = path.read_bytes()
    name = path.name
    if name.endswith(".gz"):
        data, name = gzip.decompress(data), name[:-3]
    if re.search(r"\.[1-9][a-z]*$", name) and (b".SH" in data or b".Sh" in data):
        text = from_man(data, path)
    elif re.search(r"\.(x?html?|xml|page|docbook)$", name):
        text = from_markup(data)
    else:
        text = data.decode("utf-8", "replace")
    text = text.replace("\r\n", "\n").replace("\f", "\n")
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def unpacked(cache, package):
    """The folder that the package's archive was unpacked into, and its version. Fetches the archive
    where `cache` does not have it; CalledProcessError where apt-get or dpkg-deb fails."""
    folder = cache / package
    if not (folder / "version").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "-q", "download", package], cwd=folder, check=True, capture_output=True)
        [archive] = folder.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(archive), str(folder / "root")], check=True)
        version = subprocess.run(["dpkg-deb", "-f", str(archive), "Version"], check=True,
                                 capture_output=True, text=True).stdout.strip()
        archive.unlink()
        (folder / "version").write_text(version)
    return folder / "root", (folder / "version").read_text()


def document(path):
    """The first line of a file of questions: the record of its document."""
    return json.loads(path.read_text().split("\n", 1)[0])


def text_of(cache, record):
    """The text as bytes, and the package's version. It may be another one than the recorded: the
    hash is not checked. Errors of unpacked(); OSError where the package has no such file."""
    root, version = unpacked(cache, record["package"])
    whole = converted(root / record["file"]).encode()
    return whole[record["begin"]:record["end"]], version


def show(text):
    """Prints a text with the byte at which each line begins."""
    at = 0
    for line in text.splitlines(keepends=True):
        print(f"{at:6} {line.decode()}", end="")
        at += len(line)


def add(options):
    """The command add. Exits with a message where the section is not in the file, or the questions
    are there already."""
    root, version = unpacked(options.cache, options.package)
    whole = converted(root / options.file).encode()
    begin = 0
    if options.section:
        begin = whole.find(options.section.encode())
        if begin < 0:
            sys.exit(f"{options.file} has no {options.section!r}")
        begin = whole.rfind(b"\n", 0, begin) + 1
    end = len(whole)
    if end - begin > options.most:  # whole paragraphs
        end = max(whole.rfind(b"\n\n", begin, begin + options.most), begin) + 1
    text = whole[begin:end]
    record = {"package": options.package, "version": version, "file": options.file, "begin": begin,
              "end": end, "sha256": hashlib.sha256(text).hexdigest()}
    path = QUESTIONS / f"{options.package}--{options.name}.jsonl"
    if path.exists():
        sys.exit(f"{path} is there")
    path.write_text(json.dumps(record) + "\n")
    show(text)


def fetch(options):
    """The command fetch. Returns the exit status: 1 if a text was skipped."""
    options.texts.mkdir(parents=True, exist_ok=True)
    changed = 0
    for path in options.questions or sorted(QUESTIONS.glob("*.jsonl")):
        record = document(path)
        try:
            text, version = text_of(options.cache, record)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{path.name}: SKIPPED: {error}", file=sys.stderr)
            changed += 1
            continue
        if hashlib.sha256(text).hexdigest() != record["sha256"]:
            print(f"{path.name}: SKIPPED: its text is another one in {record['package']} {version}",
                  file=sys.stderr)
            changed += 1
            continue
        (options.texts / (path.stem + ".txt")).write_bytes(text)
    return 1 if changed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=pathlib.Path, default=HOME / "packages")
    parser.add_argument("--texts", type=pathlib.Path, default=HOME / "texts")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("add")
    command.add_argument("package")
    command.add_argument("file")
    command.add_argument("name")
    command.add_argument("--section", help="a line of the text: it begins there")
    command.add_argument("--most", type=int, default=9000, help="bytes of text")
    commands.add_parser("show").add_argument("questions", type=pathlib.Path)
    commands.add_parser("fetch").add_argument("questions", type=pathlib.Path, nargs="*")
    options = parser.parse_args()
    if options.command == "add":
        return add(options)
    if options.command == "fetch":
        return fetch(options)
    show(text_of(options.cache, document(options.questions))[0])


if __name__ == "__main__":
    sys.exit(main())
