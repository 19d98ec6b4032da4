"""Small PDFs, written by hand."""


def make_pdf(pages, encrypted=False, labels="", outline=(), unicode=None):
    """The bytes of a PDF in which each page has these lines of text (an empty one parts paragraphs).

    encrypted: says that it is, with a password that nobody knows.
    labels: the array /Nums of its page labels, such as "0 << /S /r >>".
    outline: (title, number of the page from 1) of each bookmark, all of one level.
    unicode: the text that a character of the font stands for, where it is another one.
    """
    first = 4 + 2 * len(pages)
    mapped = " /ToUnicode %d 0 R" % (first + (1 + len(outline) if outline else 0)) if unicode else ""
    more = " /PageLabels << /Nums [%s] >>" % labels if labels else ""
    more += " /Outlines %d 0 R" % first if outline else ""
    objects = ["<< /Type /Catalog /Pages 2 0 R%s >>" % more,
               "<< /Type /Pages /Count %d /Kids [%s] >>" %
               (len(pages), " ".join("%d 0 R" % (4 + 2 * i) for i in range(len(pages)))),
               "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding%s >>" % mapped]
    for lines in pages:
        escaped = [line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
                   for line in lines]
        content = "BT /F1 11 Tf 14 TL 72 720 Td %s ET" % " ".join(
            "(%s) Tj T*" % line for line in escaped)
        objects.append("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
                       "/Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" %
                       (len(objects) + 2))
        objects.append("<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
    if outline:
        objects.append("<< /First %d 0 R /Last %d 0 R /Count %d >>" %
                       (first + 1, first + len(outline), len(outline)))
    for i, (title, page) in enumerate(outline):
        links = "/Next %d 0 R" % (first + i + 2) if i + 1 < len(outline) else ""
        objects.append("<< /Title (%s) /Parent %d 0 R /Dest [%d 0 R /Fit] %s >>" %
                       (title, first, 2 + 2 * page, links))
    if unicode:
        pairs = ["<%02x> <%s>" % (ord(code), text.encode("utf-16-be").hex())
                 for code, text in unicode.items()]
        table = ("/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def "
                 "1 begincodespacerange <00> <ff> endcodespacerange %d beginbfchar %s endbfchar "
                 "endcmap end end" % (len(pairs), " ".join(pairs)))
        objects.append("<< /Length %d >>\nstream\n%s\nendstream" % (len(table), table))
    out, offsets = "%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        offsets.append(len(out))
        out += "%d 0 obj\n%s\nendobj\n" % (number, text)
    table = len(out)
    out += "xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += "".join("%010d 00000 n \n" % offset for offset in offsets)
    locked = "/Encrypt << /Filter /Standard /V 1 /R 2 /Length 40 /P -4 /O <%s> /U <%s> >> /ID [<00> <00>]" % (
        "11" * 32, "22" * 32) if encrypted else ""
    out += "trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1, locked, table)
    return out.encode("cp1252")
