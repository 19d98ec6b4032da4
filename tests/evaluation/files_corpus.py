#!/usr/bin/env python3
"""Compares the text of real and made files of every kind with their sources, or with other programs.

files_corpus.py BUILD WORK [--only real|made|questions] [--results FILE]
files_corpus.py BUILD WORK --documents FOLDER [--by-model N]

BUILD is a folder with built tools and ingested_text; WORK keeps downloads and made files. Three parts:
real       files of Debian packages, which files_corpus.txt names;
made       Lectern's own texts, turned into other formats by pandoc, LibreOffice, groff and iconv, and
           texts in eight other scripts (scripts/), by LibreOffice and, if it is installed, Chromium;
questions  ten documents as PDF, DOCX, HTML and text: does a question find the same passage in each?

Of each file the program measures
error      (substituted + missing + added words) / words of the reference, by diff;
order      share of the words that both have which stand in the same order;
rows       share of the reference's table rows whose cells stand in one line of ours, in order;
seconds and MB (largest resident size) of ingested_text and of the child that it starts.
The reference is the source where it is known: the text that a file was made from, or a text whose
encoding files_corpus.txt names. Else it is another program's text: PyMuPDF's for PDF, LibreOffice's
for sheets, slides, ODT and RTF, groff's for manual pages, Python's for mails, pandoc's for the
others. The columns' names that Lectern repeats in each row of a sheet do not count.

It needs pandoc, LibreOffice, groff, GNU time and pip; PyMuPDF it installs below WORK. The questions
are asked with the default reader, or the one that LECTERN_MODEL and LECTERN_ADAPTER name. With --results
it writes the tables to FILE, above the line KEPT, and leaves what stands below, the remarks by hand.

With --documents the part `questions` is asked about the texts NAME.txt of FOLDER, whose questions stand in
NAME.jsonl, one object a line with question and answer (kind absent: it has none); the model answers the first N of each document.
"""
import argparse
import collections
import csv
import datetime
import difflib
import email
import email.policy
import gzip
import hashlib
import html
import html.parser
import io
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import unicodedata
import zipfile

import pdf_text

REPO = pathlib.Path(__file__).resolve().parents[2]
LIST = pathlib.Path(__file__).with_suffix(".txt")
KEPT = "<!-- The lines above are written by tests/evaluation/files_corpus.py, those below by hand. -->"
PYMUPDF = "pymupdf==2.0"

# The languages of `scripts/`, and fonts of Debian packages for them.
FROM_RIGHT = ("ar", "fa", "he")
SCRIPT_FONTS = {"ar": "Amiri", "en": "Liberation Serif", "fa": "DejaVu Sans", "he": "David CLM", "hi": "Lohit Devanagari",
                "ja": "IPAGothic", "ko": "NanumGothic", "th": "Loma", "zh": "WenQuanYi Micro Hei"}
# Lectern's texts that other files are made from, with a question and an answer for the part
# `questions`.
SOURCES = {
    "tools/demo/handbook.txt": ("How long may I keep a ladder that I have borrowed?",
                                "A ladder may be kept for two days."),
    "README.md": ("How many parameters has the default model?",
                  "The default model has 135 million parameters."),
    "tools/USAGE.md": ("Where are indexed documents stored?",
                       "index-document stores what questions about a document need."),
    "engine/EMBEDDING.md": ("How does a program link the library with CMake?",
                            "A program finds the package lectern with CMake and links lectern."),
    "engine/GPU.md": ("Which version of nvcc does it need?", "It needs nvcc 12 or later."),
    "engine/MODELS.md": ("Which questions does a model without a template get?",
                         "A model without a template gets its questions as plain text."),
    "engine/README.md": ("How are codes scored?", "Codes are scored by table look-up."),
    "tools/demo/README.md": ("What does the demo ask?", "It asks eight questions about handbook.txt."),
    "tools/reader/README.md": ("What does the reader know?", "It knows invented English only."),
    "tools/server/README.md": ("How many answers are generated at the same time?",
                               "By default one answer is generated for each core, 4 to 16."),
    "tools/server/OPENAI.md": None,
    "tests/TRUST.md": None,
    "store/FORMAT.md": None,
}
FEW = ("tools/demo/handbook.txt", "README.md", "engine/GPU.md", "tools/server/OPENAI.md")

# A document of LibreOffice with a heading and a section in columns.
OASIS = "urn:oasis:names:tc:opendocument:xmlns:"
SECTION = (
    "<?xml version='1.0' encoding='UTF-8'?><office:document xmlns:office='" + OASIS + "office:1.0' xmlns:style='" + OASIS + "style:1.0' "
    "xmlns:text='" + OASIS + "text:1.0' xmlns:fo='" + OASIS + "xsl-fo-compatible:1.0' "
    "office:version='1.2' office:mimetype='application/vnd.oasis.opendocument.text'>"
    "<office:automatic-styles><style:style style:name='P' style:family='paragraph'>"
    "<style:paragraph-properties fo:margin-bottom='0.2cm'/></style:style>"
    "<style:style style:name='S' style:family='section'><style:section-properties "
    "text:dont-balance-text-columns='false'><style:columns fo:column-count='%d' "
    "fo:column-gap='0.5cm'/></style:section-properties></style:style></office:automatic-styles>"
    "<office:body><office:text><text:h text:outline-level='1'>%s</text:h>"
    "<text:section text:style-name='S' text:name='columns'>%s</text:section>"
    "</office:text></office:body></office:document>").replace("'", '"')

# Tutors of the package vim-runtime, and encodings to write them in.
ENCODED = {
    "tutor.ru.utf-8": ("koi8-r", "windows-1251", "iso-8859-5", "utf-16"),
    "tutor.ja.utf-8": ("shift_jis", "euc-jp", "iso-2022-jp", "utf-16le"),
    "tutor.zh_cn.utf-8": ("gb18030", "utf-32"),
    "tutor.zh_tw.utf-8": ("big5",),
    "tutor.ko.utf-8": ("euc-kr",),
    "tutor.el.utf-8": ("iso-8859-7",),
    "tutor.de.utf-8": ("windows-1252", "utf-16be"),
    "tutor.pl.utf-8": ("windows-1250", "iso-8859-2"),
}

Result = collections.namedtuple("Result", "part kind name words error order rows seconds megabytes")


# -- Words and rows ---------------------------------------------------------------------------------

CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"


POINTS = "\u0591-\u05bd\u05bf-\u05c7\u064b-\u065f\u0670"  # of Hebrew and Arabic


def words(text, has_points=False):
    """Words in small letters; each Chinese, Japanese or Korean character is a word of its own.

    Vowel points are left out, as in a search, unless `has_points` says that they count.
    """
    text = unicodedata.normalize("NFKC", text).replace("\u00ad", "").replace("\u200b", "")
    text = re.sub(r"(?<=[^\W\d_])[-\u2010]\n\s*(?=[^\W\d_])", "", text)
    if has_points:
        return re.findall("[%s]|(?:[^\\W_%s]|[%s])+" % (CJK, CJK, POINTS), text.lower())
    text = re.sub("[%s]" % POINTS, "", unicodedata.normalize("NFD", text))
    text = unicodedata.normalize("NFKC", text)
    return re.findall("[%s]|[^\\W_%s]+" % (CJK, CJK), text.lower())


def share_of_rows(rows, text):
    """Share of the rows whose cells stand in one line of the text, in order; None without rows."""
    lines = [" " + " ".join(words(line)) + " " for line in text.split("\n")]
    rows = [[" ".join(words(cell)) for cell in row] for row in rows]
    rows = [[cell for cell in row if cell] for row in rows]
    rows = [row for row in rows if len(row) >= 2]
    if not rows:
        return None

    def holds(line, row):
        at = 0
        for cell in row:
            at = line.find(" " + cell + " ", at)
            if at < 0:
                return False
            at += len(cell) + 1
        return True

    by_word = collections.defaultdict(list)  # the lines of a row's first word
    for line in lines:
        for word in set(line.split()):
            by_word[word].append(line)
    found = sum(any(holds(line, row) for line in by_word[row[0].split()[0]]) for row in rows)
    return found / len(rows)


def without_heads(text):
    """Sheets and CSV without the columns' names that Lectern repeats in front of each cell."""
    heads, lines = [], []
    for line in text.split("\n"):
        cells = line.split(" | ")
        named = [next((cell[len(head) + 2:] for head in heads if cell.startswith(head + ": ")), None)
                 for cell in cells]
        if not any(named):
            heads = sorted({*heads, *filter(None, cells)}, key=len, reverse=True)[:1000]
        lines.append(" | ".join(cell if name is None else name for cell, name in zip(cells, named)))
    return "\n".join(lines)


class Tables(html.parser.HTMLParser):
    """The rows of an HTML page's tables, each a list of cells."""

    def __init__(self, page):
        super().__init__()
        self.rows = []
        self.in_cell = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.in_cell = False

    def handle_data(self, data):
        if self.in_cell:
            self.rows[-1][-1] += data


# -- Other programs ---------------------------------------------------------------------------------

def run(*command, text_in=None):
    done = subprocess.run(command, input=text_in, capture_output=True, check=False, timeout=600)
    return done.stdout.decode("utf-8", "replace")


def pandoc(path, kind, to):
    return run("pandoc", "--wrap=none", "--from=" + kind, "--to=" + to, str(path))


def pandoc_texts(path, kind):
    return pandoc(path, kind, "plain"), Tables(pandoc(path, kind, "html")).rows


def libreoffice(paths, to, folder, reading=None):
    """Converts the files in one start of LibreOffice; those that it cannot read are not there."""
    paths = list(map(str, paths))
    with tempfile.TemporaryDirectory() as profile:
        run("soffice", "-env:UserInstallation=file://" + profile, "--headless",
            *(["--infilter=" + reading] if reading else []), "--convert-to", to,
            "--outdir", str(folder), *paths)


def sheet_rows(path):
    """The rows of all sheets, by LibreOffice."""
    with tempfile.TemporaryDirectory() as folder:
        libreoffice([path], "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,"
                    "false,-1", folder)
        files = sorted(pathlib.Path(folder).glob("*.csv"), key=lambda file: file.stat().st_mtime_ns)
        texts = [io.StringIO(file.read_text(), newline="") for file in files]
        return [row for text in texts for row in csv.reader(text)]


def libreoffice_text(path):
    with tempfile.TemporaryDirectory() as folder:
        libreoffice([path], "txt:Text (encoded):UTF8", folder)
        return "".join(file.read_text("utf-8-sig") for file in pathlib.Path(folder).glob("*.txt"))


def pdf_words(path):
    import pymupdf
    with pymupdf.open(path) as document:
        return "\n".join(page.get_text() for page in document)


def slides_text(path):
    with tempfile.TemporaryDirectory() as folder:
        libreoffice([path], "pdf", folder)
        pages = list(pathlib.Path(folder).glob("*.pdf"))
        return pdf_words(pages[0]) if pages else ""


def mail_text(path):
    message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    heads = ["%s: %s" % (name, message[name]) for name in ("Subject", "From", "To", "Cc", "Date")
             if message[name]]
    body = message.get_body(("plain", "html"))
    text = "" if body is None else body.get_content()
    if body is not None and body.get_content_subtype() == "html":
        text = run("pandoc", "--from=html", "--to=plain", "--wrap=none", text_in=text.encode())
    return "\n".join(heads) + "\n" + text


def separated_rows(path, separator):
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))


def joined(rows):
    return "\n".join(" ".join(row) for row in rows)


def reference_of(path, kind):
    """(text, table rows) of another program, or of the file itself where that is its source."""
    kind, _, encoding = kind.partition(":")
    if kind == "text":
        return path.read_bytes().decode(encoding or "utf-8", "replace"), []
    if kind.startswith("pdf"):
        return pdf_words(path), []
    if kind in ("xlsx", "ods"):
        rows = sheet_rows(path)
        return joined(rows), rows
    if kind in ("csv", "tsv"):
        rows = separated_rows(path, "," if kind == "csv" else "\t")
        return joined(rows), rows
    if kind in ("pptx", "odp"):
        return slides_text(path), []
    if kind == "eml":
        return mail_text(path), []
    if kind in ("man", "mdoc"):
        return run("groff", "-t", "-k", "-mandoc", "-Tutf8", "-P-cbou", "-rLL=200n",
                   text_in=gzip.decompress(path.read_bytes())), []
    if kind == "rtf":
        return libreoffice_text(path), []
    if kind == "odt":  # pandoc leaves out parts of some
        return libreoffice_text(path), Tables(pandoc(path, kind, "html")).rows
    if kind == "epub" and not pandoc(path, kind, "plain"):
        return pdf_words(path), []  # a book that pandoc refuses
    if kind == "markdown":
        return path.read_text(encoding="utf-8"), pandoc_texts(path, "gfm")[1]
    return pandoc_texts(path, kind)


# -- Files ------------------------------------------------------------------------------------------

def fetch_package(package, cache):
    """The folder with the package's files, or None. src:NAME is the upstream source of NAME."""
    folder = cache / package.replace(":", "-")
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory(dir=cache) as work:
        work = pathlib.Path(work)
        if package.startswith("src:"):
            fetch_source(package[4:], work, cache)
            found = [path for path in work.glob("*.orig.tar.*") if path.suffix != ".asc"]
            unpack = ["tar", "--strip-components=1", "-xf"]
            after = ["-C"]
        else:
            subprocess.run(["apt-get", "-q", "download", package], cwd=work, capture_output=True)
            found = list(work.glob("*.deb"))
            unpack, after = ["dpkg", "-x"], []
        if not found:
            return None
        out = work / "out"
        out.mkdir()
        subprocess.run(unpack + [str(found[0])] + after + [str(out)], check=True)
        out.rename(folder)
    return folder


def fetch_source(package, work, cache):
    """Downloads a source package; the lists of sources are kept apart from the system's."""
    lists, sources = cache / "lists", cache / "sources.list"
    options = ["-o", "Dir::Etc::sourcelist=%s" % sources, "-o", "Dir::Etc::sourceparts=-",
               "-o", "Dir::State::lists=%s" % lists]
    if not sources.exists():
        entries = run("apt-get", "indextargets", "--format",
                      "deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)",
                      "Identifier: Packages", "Component: main")
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        sources.write_text("\n".join(sorted(set(entries.splitlines()))) + "\n")
        subprocess.run(["apt-get", "-q", *options, "update"], capture_output=True)
    subprocess.run(["apt-get", "-q", *options, "source", "--download-only", package], cwd=work,
                   capture_output=True)


def real_files(work):
    """(path, kind, name) of the list's files; those that are missing are named."""
    cache = work / "packages"
    cache.mkdir(parents=True, exist_ok=True)
    missing = 0
    for line in LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        kind, package, inside = line.split()
        folder = fetch_package(package, cache)
        path = folder / inside if folder else cache / "none"
        if path.suffix == ".gz" and kind not in ("man", "mdoc") and path.exists():
            plain = path.with_suffix("")
            plain.write_bytes(gzip.decompress(path.read_bytes()))
            path = plain
        if not path.is_file():
            print("MISSING: %s of package %s" % (inside, package), file=sys.stderr)
            missing += 1
            continue
        yield path, kind, package + "/" + "/".join(path.parts[-2:])
    if missing:
        print("MISSING: %d files of %s" % (missing, LIST.name), file=sys.stderr)


def make(path, command, text_in=None):
    """Writes what the command prints, once."""
    if not path.exists():
        done = subprocess.run(command, input=text_in, capture_output=True, check=True)
        path.write_bytes(done.stdout)
    return path


def made_documents(folder):
    """(path, kind, name, source text, source rows) of Lectern's texts in other formats."""
    sources = []
    for name in SOURCES:
        stem = re.sub(r"\W", "-", name.rsplit(".", 1)[0])
        plain, rows = pandoc_texts(REPO / name, "gfm")
        sources.append((name, folder / stem, plain, rows))
        make(folder / (stem + ".md"), ["cat", str(REPO / name)])
        make(folder / (stem + ".txt"), ["cat"], plain.encode())
        for to in ["docx", "odt", "html", "epub", "rtf"] + ["pptx", "ipynb", "man", "ms"] * (name in FEW):
            target = folder / (stem + "." + to)
            if not target.exists():
                subprocess.run(["pandoc", "--from=gfm", "--to=" + to, "--standalone", "--output",
                                str(target), "--metadata", "title=" + stem, str(REPO / name)],
                               check=True, capture_output=True)
    for source, target in (("odt", "pdf"), ("pptx", "odp")):
        missing = [path for path in sorted(folder.glob("*." + source))
                   if not path.with_suffix("." + target).exists()]
        if missing:
            libreoffice(missing, target, folder)
    kinds = {"md": "markdown", "txt": "text", "pdf": "pdf: LibreOffice"}
    for name, stem, plain, rows in sources:
        titled = stem.name + "\n" + plain
        for kind in ("docx", "odt", "html", "epub", "rtf", "pdf", "md", "txt", "pptx", "odp", "ipynb",
                     "man"):
            made = stem.with_name(stem.name + "." + kind)
            if made.exists():
                text = plain if kind in ("txt", "ipynb") else titled
                text = (REPO / name).read_text() if kind == "md" else text
                yield made, kinds.get(kind, kind), made.name, text, [] if kind == "txt" else rows
        if name not in FEW:
            continue
        groff = ["groff", "-t", "-k", "-ms", "-Tpdf"]
        ms = stem.with_name(stem.name + ".ms").read_text()
        for kind, source in (("groff", ms), ("columns", re.sub(r"(?m)^\.(TL|LP|PP|SH)", r".2C\n.\1", ms,
                                                              count=1))):
            pdf = make(stem.with_name("%s-%s.pdf" % (stem.name, kind)), groff, source.encode())
            yield (pdf, "pdf: " + kind.replace("columns", "groff, two columns"), pdf.name, titled,
                   rows if kind == "groff" else [])


def made_encodings(work, folder):
    """vim's tutors, each in encodings of its language."""
    package = fetch_package("vim-runtime", work / "packages")
    for name, encodings in ENCODED.items():
        path = next(package.rglob(name), None) if package else None
        if path is None:
            print("MISSING: %s of package vim-runtime" % name, file=sys.stderr)
            continue
        for encoding in encodings:
            text = path.read_text(encoding="utf-8")
            text = text.encode(encoding, "ignore").decode(encoding)
            made = folder / ("%s.%s.txt" % (name.removesuffix(".utf-8"), encoding))
            made.write_bytes(text.encode(encoding))
            yield made, "text: other encodings", made.name, text, []


def script_page(language, text, columns, is_vertical):
    """HTML of a text of `scripts/`, whose first paragraph is its title."""
    title, *paragraphs = map(html.escape, text.strip().split("\n\n"))
    style = "html{writing-mode:vertical-rl}" if is_vertical else ""
    return ("<!doctype html><html lang=%s dir=%s><meta charset=utf-8><style>%s body{font:14px/1.6 %s;"
            "column-count:%d;column-gap:2em} h1{column-span:all} p{margin:.5em 0}</style><h1>%s</h1>%s</html>" %
            (language, "rtl" if language in FROM_RIGHT else "ltr", style, SCRIPT_FONTS[language], columns,
             title, "".join("<p>%s</p>" % paragraph for paragraph in paragraphs)))


def made_scripts(folder):
    """The texts of `scripts/` as PDF by LibreOffice, and by Chromium where it is installed."""
    chromium = shutil.which("chromium")
    for path in sorted((LIST.parent / "scripts").glob("*.txt")):
        language, text = path.stem.split("-")[0], path.read_text()
        kind = "right to left" if language in FROM_RIGHT else "other scripts"
        kinds = ["vowelled", "vowelled, with points"] if path.stem.endswith("vowelled") else [kind]
        page = folder / ("script-%s.html" % path.stem)
        page.write_text(script_page(language, text, 1, False))
        if not page.with_suffix(".pdf").exists():
            libreoffice([page], "odt:writer8", folder, "HTML (StarWriter)")
            libreoffice([page.with_suffix(".odt")], "pdf", folder)
        for kind in kinds:
            yield page.with_suffix(".pdf"), "pdf: LibreOffice, " + kind, page.stem + ".pdf", text, []
        for form in (1, 2, 3, "vertical")[:4 if language in ("ja", "zh") else 3]:
            name = page.with_name("%s-%s.html" % (page.stem, form))
            name.write_text(script_page(language, text, 1 if form == "vertical" else form,
                                        form == "vertical"))
            if chromium and not name.with_suffix(".pdf").exists():
                run(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
                    "--print-to-pdf=%s" % name.with_suffix(".pdf"), name.as_uri())
            for kind in kinds if chromium else []:
                yield (name.with_suffix(".pdf"),
                       "pdf: Chromium, " + ("vertical" if form == "vertical" else kind),
                       name.stem + ".pdf", text, [])
        if language == "en":
            yield from made_columns(folder, text)


def made_columns(folder, text):
    """A text in short columns, by groff's macros and by a section of LibreOffice's."""
    title, *paragraphs = text.strip().split("\n\n")
    for columns, width in ((2, "2.8i"), (3, "1.85i")):
        source = ".TL\n%s\n.MC %s\n%s" % (
            title, width, "".join(".LP\n%s\n" % paragraph for paragraph in paragraphs))
        pdf = make(folder / ("columns-groff-%d.pdf" % columns), ["groff", "-k", "-ms", "-Tpdf"],
                   source.encode())
        yield pdf, "pdf: short columns", pdf.name, text, []
        flat = folder / ("columns-libreoffice-%d.fodt" % columns)
        flat.write_text(SECTION % (columns, html.escape(title), "".join(
            "<text:p text:style-name='P'>%s</text:p>" % html.escape(paragraph)
            for paragraph in paragraphs)))
        if not flat.with_suffix(".pdf").exists():
            libreoffice([flat], "pdf", folder)
        yield flat.with_suffix(".pdf"), "pdf: short columns", flat.stem + ".pdf", text, []


def made_tables(folder):
    """The tables of Lectern's texts as CSV, and from that as sheets and PDF."""
    made = []
    for name in ("tools/server/OPENAI.md", "tests/CLAIMS.md", "tools/server/RESULTS.md"):
        rows = [row for row in pandoc_texts(REPO / name, "gfm")[1] if row]
        path = folder / ("table-" + re.sub(r"\W", "-", name) + ".csv")
        with path.open("w", newline="") as out:
            csv.writer(out).writerows(rows)
        path.with_suffix(".tsv").write_text(
            "".join("\t".join(re.sub(r"\s", " ", cell) for cell in row) + "\n" for row in rows))
        made.append((path, rows))
    for to in ("xlsx", "ods"):
        missing = [path for path, _ in made if not path.with_suffix("." + to).exists()]
        if missing:
            libreoffice(missing, to, folder, "CSV:44,34,76")
    for path, rows in made:
        for kind in ("csv", "tsv", "xlsx", "ods"):
            file = path.with_suffix("." + kind)
            if file.exists():
                yield file, kind, file.name, joined(rows), rows


# -- Measuring --------------------------------------------------------------------------------------

def ingest(build, path):
    """(text or None, what it says, seconds, MB) of ingested_text."""
    with tempfile.NamedTemporaryFile() as usage:
        done = subprocess.run(["time", "-f", "%e %M", "-o", usage.name,
                               str(build / "tools/ingested_text"), str(path)],
                              capture_output=True, check=False)
        seconds, kilobytes = pathlib.Path(usage.name).read_text().split("\n")[-2].split()
    text = done.stdout.decode("utf-8", "strict") if done.returncode == 0 else None
    return text, done.stderr.decode("utf-8", "replace").strip(), float(seconds), int(kilobytes) / 1000


def measure(build, part, path, kind, name, text, rows):
    ours, says, seconds, megabytes = ingest(build, path)
    has_points = kind.endswith("with points")
    expected = words(text, has_points)
    if not expected:
        print("no reference for %s" % name, file=sys.stderr)
        return None
    if ours is None:
        print("REFUSED: %s: %s" % (name, says), file=sys.stderr)
        error, order, in_rows = 1.0, 0.0, 0.0 if rows else None
    else:
        if kind in ("csv", "tsv", "xlsx", "ods"):
            ours = without_heads(ours)
        error, order = pdf_text.compare(expected, words(ours, has_points))
        in_rows = share_of_rows(rows, ours)
    result = Result(part, kind, name, len(expected), error, order, in_rows, seconds, megabytes)
    print("%-5s %-24s %-56s %7d %6.1f%% %6.1f%% %s %6.2f s %4d MB" %
          (part, kind[:24], name[:56], len(expected), 100 * error, 100 * order,
           "   –  " if in_rows is None else "%5.1f%%" % (100 * in_rows), seconds, megabytes), flush=True)
    return result


def made_folder(work):
    """The folder of made files, empty if those in it were made from other texts or by another script."""
    folder = work / "made"
    digest = hashlib.sha256(b"".join(
        path.read_bytes() for path in (pathlib.Path(__file__), *sorted((LIST.parent / "scripts").glob("*.txt")),
                                       *(REPO / name for name in SOURCES)))).hexdigest()
    stamp = folder / "inputs.sha256"
    if not stamp.exists() or stamp.read_text() != digest:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        stamp.write_text(digest)
    return folder


def measure_all(build, work, part):
    folder = made_folder(work)
    results = []
    if part == "made":
        for file in (*made_documents(folder), *made_encodings(work, folder), *made_tables(folder),
                     *made_scripts(folder)):
            results.append(measure(build, part, *file))
        return [result for result in results if result]
    for path, kind, name in real_files(work):
        try:
            text, rows = reference_of(path, kind)
        except (OSError, ValueError, LookupError, zipfile.BadZipFile, RuntimeError) as error:
            print("no reference for %s: %s" % (name, error), file=sys.stderr)
            continue
        kind = re.sub(r"^text:.*", "text: other encodings", kind).replace("pdf:", "pdf: ")
        results.append(measure(build, part, path, kind.replace("_", " "), name, text, rows))
    return [result for result in results if result]


# -- Questions --------------------------------------------------------------------------------------

def first_passages(build, store, document, question, answer, hows=("model", "words")):
    """The first passage by the reader's attention, and by the words of the answer, as `hows` says."""
    asked = [str(build / "tools/ask-document"), "--store", str(store), "--document", document, "--json"]
    found = {}
    if "model" in hows:
        found["model"] = json.loads(run(*asked, question) or "{}").get("evidence", [])
    cited = json.loads(run(*asked, "--cite", answer, "--question", question) or "{}")
    found["words"] = [passage for sentence in cited.get("sentences", []) for passage in sentence["evidence"]]
    return ["".join(words(found[how][0]["text"])) if found[how] else "" for how in hows]


def agree(one, other):
    """Whether four fifths of the shorter passage's letters stand in the other one, in a row."""
    shorter, longer = sorted((one, other), key=len)
    match = difflib.SequenceMatcher(None, shorter, longer, autojunk=False).find_longest_match()
    return len(shorter) >= 12 and match.size >= 0.8 * len(shorter)


def ask_all(build, work):
    """(name, question, answer, {format: (same by model, same by words)}) of ten documents."""
    folder, store = made_folder(work), work / "store"
    list(made_documents(folder))
    shutil.rmtree(store, ignore_errors=True)
    asked = []
    for name, texts in SOURCES.items():
        if texts is None:
            continue
        stem = re.sub(r"\W", "-", name.rsplit(".", 1)[0])
        passages = {}
        for to in ("txt", "pdf", "docx", "html"):
            document = stem + "." + to
            run(str(build / "tools/index-document"), "--store", str(store), "--yes", "--progress", "none",
                str(folder / document))
            passages[to] = first_passages(build, store, document, *texts)
        same = {to: list(map(agree, passages["txt"], passages[to])) for to in ("pdf", "docx", "html")}
        asked.append((name, *texts, same))
        print("%-28s %-50s %s" % (name, texts[0], same), flush=True)
        for to, passage in passages.items():
            print("    %-4s %s" % (to, " / ".join(text[:90] for text in passage)))
    return asked


def foreign_documents(texts, folder):
    """Writes each text as HTML, DOCX and, by LibreOffice, PDF: a paragraph for each of its blocks."""
    missing = []
    for path in texts:
        stem = folder / re.sub(r"\W", "-", path.stem)
        text = path.read_text(encoding="utf-8")
        blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", text)]
        make(stem.with_suffix(".txt"), ["cat"], ("\n\n".join(filter(None, blocks)) + "\n").encode())
        page = "<!doctype html><html><meta charset=utf-8><title>%s</title>%s</html>" % (
            html.escape(path.stem), "".join("<p>%s</p>" % html.escape(block) for block in blocks if block))
        stem.with_suffix(".html").write_text(page)
        for to in ("docx", "odt"):
            if not stem.with_suffix("." + to).exists():
                run("pandoc", "--from=html", "--to=" + to, "--output", str(stem.with_suffix("." + to)),
                    str(stem.with_suffix(".html")))
        if not stem.with_suffix(".pdf").exists():
            missing.append(stem.with_suffix(".odt"))
    if missing:
        libreoffice(missing, "pdf", folder)


def ask_documents(build, work, documents, by_model):
    """Prints for the questions of a folder how many find the passage of the text in other formats."""
    folder, store = work / "documents", work / "documents-store"
    folder.mkdir(parents=True, exist_ok=True)
    texts = sorted(path for path in documents.glob("*.txt") if path.with_suffix(".jsonl").exists())
    foreign_documents(texts, folder)
    shutil.rmtree(store, ignore_errors=True)
    same, asked = collections.Counter(), collections.Counter()
    for path in texts:
        stem = re.sub(r"\W", "-", path.stem)
        for to in ("txt", "pdf", "docx", "html"):
            run(str(build / "tools/index-document"), "--store", str(store), "--yes", "--progress", "none",
                str(folder / (stem + "." + to)))
        lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
        questions = [item for item in map(json.loads, lines)
                     if item.get("answer") and item.get("kind") != "absent"]
        for number, item in enumerate(questions):
            hows = ("model", "words") if number < by_model else ("words",)
            passages = {to: first_passages(build, store, stem + "." + to, item["question"],
                                           item["answer"], hows) for to in ("txt", "pdf", "docx", "html")}
            for place, how in enumerate(hows):
                if not passages["txt"][place]:
                    continue
                for to in ("pdf", "docx", "html"):
                    is_same = agree(passages["txt"][place], passages[to][place])
                    asked[how, to] += 1
                    same[how, to] += is_same
                    if not is_same:
                        print("OTHER: %s, %s, by %s: %s\n    %s\n    %s" % (
                            path.stem, to, how, item["question"], passages["txt"][place][:160],
                            passages[to][place][:160]), flush=True)
        print("%s: %s" % (path.stem, ", ".join("%s %s %d of %d" % (*key, same[key], asked[key])
                                               for key in sorted(asked))), flush=True)


# -- Tables -----------------------------------------------------------------------------------------

def percent(share):
    return "–" if share is None else "%.1f %%" % (100 * share)


def table_of_kinds(results):
    yield ("| kind | files | words | error, median | worst | order, lowest | rows, lowest "
           "| seconds, most | MB, most |")
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    kinds = collections.defaultdict(list)
    for result in results:
        kinds[result.kind].append(result)
    for kind, found in [*sorted(kinds.items()), ("all %d kinds" % len(kinds), results)]:
        errors = [r.error for r in found]
        yield "| %s | %d | %s | %s | %s | %s | %s | %.1f | %d |" % (
            kind, len(found), format(sum(r.words for r in found), ","),
            percent(statistics.median(errors)), percent(max(errors)),
            percent(min(r.order for r in found)),
            percent(min((r.rows for r in found if r.rows is not None), default=None)),
            max(r.seconds for r in found), max(r.megabytes for r in found))


def machine():
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return "%d cores, %s" % (os.cpu_count(), model[1] if model else "unknown processor")


def report(results, asked):
    commit = run("git", "-C", str(REPO), "rev-parse", "--short", "HEAD").strip()
    yield "# The text of files, measured"
    yield ""
    yield "`tests/full.sh files`, commit %s, %s, %s." % (
        commit, datetime.datetime.now(datetime.timezone.utc).date(), machine())
    yield ""
    yield from (line.strip() for line in __doc__.split("measures\n")[1].split("\n\nIt needs")[0].split("\n"))
    for part, title in (("real", "Real files, from Debian packages"),
                        ("made", "Files made from known texts")):
        found = [result for result in results if result.part == part]
        if found:
            yield from ("", "## " + title, "")
            yield from table_of_kinds(found)
    if asked:
        yield from ("", "## One question, four formats", "")
        yield ("The first passage of `ask-document QUESTION` with the default reader (SmolLM2-135M-Instruct "
               "with Lectern's adapter), and of `ask-document --cite ANSWER --question QUESTION`, which "
               "uses words alone, against those of the text form: \"same\" if four fifths of the shorter "
               "one stand in the other one, in a row.")
        yield ""
        yield "| document | question | answer | by the model: PDF, DOCX, HTML | by words: PDF, DOCX, HTML |"
        yield "|---|---|---|---|---|"
        for name, question, answer, same in asked:
            yield "| %s | %s | %s | %s | %s |" % (name, question, answer, *(", ".join(
                "same" if same[to][how] else "**other**" for to in ("pdf", "docx", "html"))
                for how in (0, 1)))
        model, by_words = (sum(formats[how] for *_, same in asked for formats in same.values())
                           for how in (0, 1))
        yield from ("", "The same: %d of %d by the model, %d by words." %
                    (model, 3 * len(asked), by_words))
    worst = sorted(results, key=lambda result: -result.error)[:10]
    if worst:
        yield from ("", "## The ten with most errors", "", "| file | kind | words | error | order | rows |",
                    "|---|---|---:|---:|---:|---:|")
        for r in worst:
            yield "| %s (%s) | %s | %d | %s | %s | %s |" % (
                r.name, r.part, r.kind, r.words, percent(r.error), percent(r.order), percent(r.rows))
    yield ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("work", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--only", choices=("real", "made", "questions"))
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--documents", type=pathlib.Path)
    parser.add_argument("--by-model", type=int, default=0)
    options = parser.parse_args()
    if options.documents:
        ask_documents(options.build, options.work, options.documents, options.by_model)
        return
    parts = [options.only] if options.only else ["real", "made", "questions"]
    library = options.work / "python"
    if not library.exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(library),
                        PYMUPDF], check=True)
    sys.path.insert(0, str(library))
    results, asked = [], []
    for part in parts:  # written after each part
        if part == "questions":
            asked = ask_all(options.build, options.work)
        else:
            results += measure_all(options.build, options.work, part)
        lines = "\n".join(report(results, asked))
        if options.results:
            kept = options.results.read_text() if options.results.exists() else ""
            options.results.write_text(lines + "\n" + KEPT + (kept.partition(KEPT)[2] or "\n"))
    if not options.results:
        print(lines)


if __name__ == "__main__":
    main()
