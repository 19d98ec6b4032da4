#!/usr/bin/env python3
"""Measures whether the rows of PDF tables stay rows where cells have several lines.

wrapped_tables.py BUILD WORK [--show]

BUILD is a folder with built tools and ingested_text; WORK keeps the made files. Nine tables of
invented text are typeset by LaTeX (tabular, tabularx, longtable; with rules, with rules about the
head alone, with space between rows, with centred cells, ragged), by LibreOffice (with borders,
without, from text processing and from a sheet) and by groff's tbl. Of each PDF the program counts

rows   those of the source that are one line of ours: the words of their cells, and no others
lines  the lines that ours has for the table, for each row of the source: 1 where each row is one

It needs pdflatex (texlive-latex-recommended, texlive-fonts-recommended), LibreOffice, pandoc and groff;
makers that are not there are left out and named. --show prints the text of tables with lost rows.
"""
import argparse
import collections
import html
import pathlib
import re
import shutil
import subprocess
import sys

import files_corpus

# A head and rows; a table says how wide its columns are, in hundredths of the text's width.
TABLES = {
    "options": ((20, 12, 16, 44), [
        ["Option", "Type", "Default", "Description"],
        ["port", "number", "8017", "The TCP port on which the service waits for clients. Numbers "
         "below 1024 need the rights of an administrator."],
        ["log-level", "word", "notice", "How much is written: error, notice or debug."],
        ["data-dir", "path", "/srv/osprey", "Folder of the records. It must lie on a disk of "
         "this machine, since locks of network disks are not reliable."],
        ["timeout", "seconds", "30", "Idle connections are closed after this time. Zero keeps "
         "them open for ever, which is meant for tests only."],
        ["workers", "number", "4", "Threads."],
        ["tls-certificate", "path", "none", "File with the certificate and those of the issuers, "
         "in the order in which they are sent."]]),
    "glossary": ((24, 70), [
        ["Term", "Meaning"],
        ["abutment", "The masonry at either end of a bridge, which takes the thrust of the outer "
         "arch and holds the bank of the river."],
        ["bay", "The space between two piers."],
        ["coping", "The course of flat stones on top of a wall, with a slope that sheds rain to "
         "both sides of it."],
        ["cutwater", "The pointed end of a pier; it divides the current and keeps floating "
         "timber and ice away from the stones behind."],
        ["voussoir", "One of the wedge-shaped stones of an arch."]]),
    "editions": ((28, 32, 32), [
        ["Feature", "Household edition", "Business edition"],
        ["Backup of one computer", "Every night, kept for thirty days", "Every hour, kept for "
         "one year or longer"],
        ["Restoring single files", "From the programme on the computer itself", "From any "
         "browser, also by a colleague who has been given the right"],
        ["Support", "Mail", "Telephone on working days from eight to six"],
        ["Encryption of stored data", "With a key that the maker holds", "With a key of your "
         "own, on a card"],
        ["Price", "4 euros a month", "19 euros a month for each person"]]),
    "schedule": ((14, 18, 32, 28), [
        ["Day", "Time", "Activity", "Remark"],
        ["Monday", "09:00-10:30", "Introduction of all members and tour of the building", ""],
        ["Monday", "11:00-12:30", "Safety in the workshop", "Bring closed shoes and tie back "
         "long hair"],
        ["Tuesday", "09:00-12:30", "Grinding and setting of plane irons", ""],
        ["Tuesday", "14:00-16:00", "Visit to the sawmill at Hollow Beck, by the small bus",
         "Those who come by bicycle meet at the gate"],
        ["Wednesday", "09:00-10:30", "Mortises", "Sharp chisels"]]),
    "requirements": ((9, 39, 32, 14), [
        ["No.", "Requirement", "Reason", "State"],
        ["R1", "The pump stops when the level in the upper basin reaches the red mark.", "The "
         "basin has no overflow.", "done"],
        ["R2", "A warning is shown when a valve has not been moved for ninety days.", "Valves "
         "that rest seize up, as happened twice in the dry summer.", "open"],
        ["R3", "All readings are stored.", "The district asks for them at the end of each year, "
         "sorted by basin.", "done"],
        ["R4", "The display can be read from three metres.", "It hangs above the door.", "tested"],
        ["R5", "The power supply bridges ten minutes without current, with all four pumps at "
         "rest and the display dimmed.", "Switching at the substation takes up to eight minutes.",
         "open"]]),
    "invoice": ((46, 12, 16, 18), [
        ["Article", "Number", "Price", "Total"],
        ["Hinge of brass, polished, with screws for doors up to forty kilograms", "12", "7.40",
         "88.80"],
        ["Door handle", "4", "21.00", "84.00"],
        ["Lock with three keys, for inner doors, left and right hand, galvanised", "4", "18.50",
         "74.00"],
        ["Delivery to the second floor without a lift, on a weekday before noon", "1", "35.00",
         "35.00"],
        ["Screws", "200", "0.04", "8.00"]]),
    "errors": ((11, 25, 28, 30), [
        ["Code", "Message", "Cause", "Remedy"],
        ["E101", "No paper in the lower tray", "The tray is empty or is not pushed in to its "
         "stop", "Fill the tray; push it in until it clicks"],
        ["E117", "Toner low", "Fewer than two hundred pages are left", "Order a cartridge of the "
         "type that the lid names"],
        ["E204", "Fuser too hot to go on", "Many envelopes were printed one after another in "
         "thick paper mode", "Wait for ten minutes"],
        ["E310", "Cannot reach the server", "The cable is loose, or the address has been changed "
         "by the router", "Print the network page and compare the address with that of the "
         "computer"]]),
    "voices": ((47, 47), [
        ["Those in favour said", "Those against said"],
        ["The square is full of cars from morning to evening, and nobody sits at the fountain "
         "any more.", "Shops in the upper street live from customers who come by car and will "
         "not walk from the station."],
        ["A bus every ten minutes would serve more people than sixty places do.", "The bus does "
         "not run on Sundays."],
        ["Trees need more room for their roots.", "Trees can be planted along the river, where "
         "they harm no pipes and where the ground is moist all year."]]),
    "species": ((26, 22, 14, 32), [
        ["Species", "Family", "Height", "Habitat"],
        ["Marsh marigold", "Buttercups", "40 cm", "Wet meadows, ditches and banks of slow "
         "streams up to the tree line"],
        ["Great burnet saxifrage", "Carrots", "100 cm", "Woods"],
        ["Lesser celandine", "Buttercups", "15 cm", "Hedges and shaded lawns with deep soil, "
         "often in large numbers"],
        ["Common bird's-foot trefoil", "Peas and beans", "25 cm", "Dry grassland"],
        ["Viper's bugloss", "Forget-me-nots", "80 cm", "Gravel, railway land, walls and other "
         "stony places in full sun"]]),
}

TEXT = ("The table below was set by a program. It stands between two paragraphs of text, so that the "
        "words above and below it have to be told from its cells, as in any report.")


# -- LaTeX ------------------------------------------------------------------------------------------

def latex_text(text):
    return re.sub(r"([&%$#_{}])", r"\\\1", text)


def latex(style, widths, rows):
    """The source of a document with the table in one of LATEX's styles."""
    kind = "m" if style == "centred" else "p"
    ragged = r">{\raggedright\arraybackslash}" if style in ("ragged", "longtable ragged") else ""
    columns = ["%s%s{%.3f\\textwidth}" % (ragged, kind, width / 100 * 0.9) for width in widths]
    ruled = style in ("ruled", "centred", "longtable ruled")
    bar, line = ("|", r"\hline") if ruled else ("", "")
    end = r"\\[6pt]" if style == "spaced" else r"\\"
    cells = [" & ".join(map(latex_text, row)) + " " + end + line for row in rows]
    top, middle, bottom = (r"\hline",) * 3 if ruled else (r"\toprule", r"\midrule", r"\bottomrule")
    if style == "tabularx":  # the widest column takes the rest, others are as wide as their text
        columns = ["X" if width >= 28 else "l" for width in widths]
        begin, close = r"\begin{tabularx}{\textwidth}{%s}" % "".join(columns), r"\end{tabularx}"
    elif style.startswith("longtable"):
        begin, close = r"\begin{longtable}{%s}" % (bar + bar.join(columns) + bar), r"\end{longtable}"
    else:
        begin, close = r"\begin{tabular}{%s}" % (bar + bar.join(columns) + bar), r"\end{tabular}"
    head = cells[0] + ("" if ruled else middle)
    body = "\n".join([begin, top, head, *cells[1:], "" if ruled else bottom, close])
    return "\n".join([
        r"\documentclass[a4paper]{article}",
        r"\usepackage{array,booktabs,tabularx,longtable}\pagestyle{empty}",
        r"\setlength\parindent{0pt}", r"\begin{document}", TEXT, "", body, "", TEXT, r"\end{document}"])


LATEX = ("plain", "ruled", "centred", "ragged", "spaced", "tabularx", "longtable", "longtable ruled",
         "longtable ragged")


def make_latex(folder):
    if not shutil.which("pdflatex"):
        return print("no pdflatex: LaTeX's tables are left out", file=sys.stderr)
    for style in LATEX:
        for name, (widths, rows) in TABLES.items():
            stem = "latex %s-%s" % (style, name)
            if (folder / (stem + ".pdf")).exists():
                continue
            (folder / "t.tex").write_text(latex(style, widths, rows))
            for _ in range(2):  # longtable's widths need a second run
                subprocess.run(["pdflatex", "-interaction=batchmode", "t.tex"], cwd=folder, check=True,
                               capture_output=True)
            (folder / "t.pdf").rename(folder / (stem + ".pdf"))


# -- LibreOffice, groff -----------------------------------------------------------------------------

def html_page(style, widths, rows):
    place = "middle" if style == "centred" else "top"
    border = 0 if style == "borderless" else 1
    lines = ["".join('<td width="%d%%" valign="%s">%s</td>' % (width, place, html.escape(cell) or "<br>")
                     for width, cell in zip(widths, row)) for row in rows]
    # cellspacing 0: borders of neighbours are one line, as in a text processor
    return ("<html><head><meta charset=utf-8></head><body><p>%s</p><table width=100%% border=%d cellspacing=0 "
            "cellpadding=3><tr>%s</tr></table><p>%s</p></body></html>"
            % (TEXT, border, "</tr><tr>".join(lines), TEXT))


def docx_markdown(widths, rows):
    """A grid table of pandoc's Markdown, whose widths go into the .docx."""
    rule = "+" + "+".join("-" * width for width in widths) + "+"
    lines = [rule]
    for number, row in enumerate(rows):
        cells = []
        for width, cell in zip(widths, row):
            words, parts = cell.split(), [""]
            for word in words:
                if len(parts[-1]) + len(word) + 3 > width:
                    parts.append("")
                parts[-1] += (" " if parts[-1] else "") + word
            cells.append(parts)
        for i in range(max(map(len, cells))):
            lines.append("|" + "|".join(" " + (cell[i] if i < len(cell) else "").ljust(width - 1)
                                        for cell, width in zip(cells, widths)) + "|")
        lines.append(rule.replace("-", "=") if number == 0 else rule)
    return "\n".join([TEXT, "", *lines, "", TEXT, ""])


def make_libreoffice(folder):
    if not shutil.which("soffice"):
        return print("no soffice: LibreOffice's tables are left out", file=sys.stderr)
    made = []
    for name, (widths, rows) in TABLES.items():
        for style in ("bordered", "borderless", "centred"):
            path = folder / ("libreoffice %s-%s.html" % (style, name))
            path.write_text(html_page(style, widths, rows))
            made.append(path)
        path = folder / ("libreoffice docx-%s.docx" % name)
        subprocess.run(["pandoc", "--from=markdown", "--to=docx", "--output", str(path)], check=True,
                       input=docx_markdown(widths, rows).encode(), capture_output=True)
        made.append(path)
    for ending, to in ((".html", "pdf:writer_web_pdf_Export"), (".docx", "pdf")):
        missing = [path for path in made
                   if path.suffix == ending and not path.with_suffix(".pdf").exists()]
        if missing:
            files_corpus.libreoffice(missing, to, folder)


def tbl(style, widths, rows):
    box = "allbox tab(~);" if style == "boxed" else "tab(~);"
    columns = " ".join("lw(%.2fi)" % (width / 100 * 5.6) for width in widths)
    lines = ["~".join("T{\n%s\nT}" % cell if cell else "" for cell in row) for row in rows]
    return ".nh\n.ds LH\n.ds CH\n.ad l\n.LP\n%s\n.TS\n%s\n%s.\n%s\n.TE\n.LP\n%s\n" % (
        TEXT, box, columns, "\n".join(lines), TEXT)


def make_groff(folder):
    for style in ("boxed", "plain"):
        for name, (widths, rows) in TABLES.items():
            path = folder / ("groff %s-%s.pdf" % (style, name))
            if not path.exists():
                files_corpus.make(path, ["groff", "-t", "-ms", "-Tpdf"], tbl(style, widths, rows).encode())


# -- Measuring --------------------------------------------------------------------------------------

def measure(text, rows):
    """(rows that are a line, lines between the first and the last row of the table)."""
    lines = [" ".join(files_corpus.words(line)) for line in text.split("\n")]
    wanted = [" ".join(" ".join(files_corpus.words(cell)) for cell in row if cell) for row in rows]
    found = sum(row in lines for row in wanted)
    outside = " ".join(files_corpus.words(TEXT))
    inside = [line for line in lines if line and line not in outside]
    return found, len(inside)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("work", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--show", action="store_true", help="print the text of tables with lost rows")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    make_latex(options.work)
    make_libreoffice(options.work)
    make_groff(options.work)
    sums = collections.defaultdict(lambda: [0, 0, 0, []])
    for path in sorted(options.work.glob("*-*.pdf")):
        style, _, name = path.stem.rpartition("-")
        rows = TABLES[name][1]
        text = files_corpus.run(str(options.build / "tools/ingested_text"), str(path))
        found, lines = measure(text, rows)
        total = sums[style]
        total[0] += found
        total[1] += len(rows)
        total[2] += lines
        if found < len(rows):
            total[3].append("%s %d/%d" % (name, found, len(rows)))
            if options.show:
                print("==", path.name, found, "of", len(rows))
                print(text)
    print("| made by | rows | lines a row | tables that lost rows |\n|---|---:|---:|---|")
    every = [sum(total[i] for total in sums.values()) for i in range(3)]
    for style, (found, rows, lines, lost) in [*sorted(sums.items()), ("all", (*every, []))]:
        print("| %s | %d of %d | %.2f | %s |" % (style, found, rows, lines / max(rows, 1), ", ".join(lost)))


if __name__ == "__main__":
    main()
