"""Small PDFs, written by hand."""


def make_pdf(pages, encrypted=False):
    """The bytes of a PDF in which each page has these lines of text (an empty one parts paragraphs).

    encrypted: says that it is, with a password that nobody knows.
    """
    objects = ["<< /Type /Catalog /Pages 2 0 R >>",
               "<< /Type /Pages /Count %d /Kids [%s] >>" %
               (len(pages), " ".join("%d 0 R" % (4 + 2 * i) for i in range(len(pages)))),
               "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"]
    for lines in pages:
        escaped = [line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
                   for line in lines]
        content = "BT /F1 11 Tf 14 TL 72 720 Td %s ET" % " ".join(
            "(%s) Tj T*" % line for line in escaped)
        objects.append("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
                       "/Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" %
                       (len(objects) + 2))
        objects.append("<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
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
