#!/usr/bin/env python3
"""Compares the text of PDFs with other programs': word error rate and order.

pdf_text.py INGESTED_TEXT FOLDER: for each PDF in FOLDER, how far ingested_text's words are from
PyMuPDF's and from plain pdftotext's, and theirs from each other. Where FOLDER has NAME.txt beside
NAME.pdf, that is the source, and all are compared with it. The error rate is
(substituted + missing + added words) / words of the reference, by diff; "order" is the share of the
reference's words, among those that both have, that stand in the same order. PyMuPDF is optional.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import unicodedata


def words(text):
    """Words of letters and digits, in small letters, ligatures folded, line-end hyphens undone."""
    text = unicodedata.normalize("NFKC", text).replace("\u00ad", "")
    text = re.sub(r"(?<=[a-z])-\n\s*(?=[a-z])", "", text)
    return re.findall(r"\w+", text.lower())


def run(*command):
    output = subprocess.run(command, capture_output=True, check=False).stdout
    return output.decode("utf-8", "replace")


def pymupdf_text(path):
    try:
        import pymupdf
    except ImportError:
        return None
    with pymupdf.open(path) as document:
        return "\n".join(page.get_text() for page in document)


def compare(reference, other):
    """(error rate, share of common words that are in order); None without words."""
    if not reference:
        return None
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, list_of_words in (("a", reference), ("b", other)):
            paths.append(pathlib.Path(folder, name))
            paths[-1].write_text("".join(word + "\n" for word in list_of_words))
        out = run("diff", "--speed-large-files", "--unchanged-line-format==", "--old-line-format=-",
                  "--new-line-format=+", *map(str, paths))
    error = sum(max(change.count("-"), change.count("+")) for change in re.findall(r"[-+]+", out))
    common = sum((collections.Counter(reference) & collections.Counter(other)).values())
    return error / len(reference), out.count("=") / max(common, 1)


def cell(result):
    if result is None:
        return "      –      "
    return "%5.1f%% %5.1f%%" % (100 * result[0], 100 * result[1])


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    print("error rate and order: %-22s %8s %-14s %-14s %-14s" %
          ("", "words", "ours", "pdftotext", "PyMuPDF"))
    for path in sorted(folder.glob("*.pdf")):
        texts = {"ours": words(run(program, str(path))),
                 "pdftotext": words(run("pdftotext", str(path), "-"))}
        mupdf = pymupdf_text(path)
        texts["PyMuPDF"] = None if mupdf is None else words(mupdf)
        source = path.with_suffix(".txt")
        reference = texts["PyMuPDF"] or texts["pdftotext"]
        if source.exists():
            reference = words(source.read_text())
        cells = [cell(None if text is None or (text is reference) else compare(reference, text))
                 for text in texts.values()]
        print("%-44s %8d %s" % (path.stem[:44], len(reference), "  ".join(cells)), flush=True)


if __name__ == "__main__":
    main()
