// The readers of one format each, which lectern-extract chooses from (extract.h). All of them: any
// bytes give text or an error, never more; the param of errors is "file", and messages begin with
// a verb: the caller puts the file's name before them. EMPTY_DOCUMENT: the file has no text.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_READERS_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_READERS_H_

#include <string_view>

#include "engine/lectern.h"
#include "tools/ingest/extract/text_builder.h"

namespace lectern::tools {

// Office Open XML: paragraphs, headings by style, lists, tables by row, notes, charts and diagrams
// behind their paragraph, descriptions of images; slides and sheets are pages. Deleted and hidden
// text, comments, running heads and tables of contents are left out; notes count them where a
// reader may miss them.
api::Result<Extracted> ReadDocx(std::string_view bytes);
api::Result<Extracted> ReadPptx(std::string_view bytes);
api::Result<Extracted> ReadXlsx(std::string_view bytes);

// The same of Office before 2007.
api::Result<Extracted> ReadXls(std::string_view bytes);
api::Result<Extracted> ReadPpt(std::string_view bytes);
// A message of Outlook, as the same mail.
api::Result<Extracted> ReadMsg(std::string_view bytes);

// OpenDocument, alike: text, presentations (slides are pages), spreadsheets (sheets are pages).
api::Result<Extracted> ReadOdt(std::string_view bytes);
api::Result<Extracted> ReadOdp(std::string_view bytes);
api::Result<Extracted> ReadOds(std::string_view bytes);

// EPUB 2 and 3: the chapters in the order of the spine, each a page, without the contents page.
api::Result<Extracted> ReadEpub(std::string_view bytes);

// A mail (RFC 5322, MIME): sender, receivers, date and subject, then its text and attached texts;
// other attachments are named in the note. In a mailbox (RFC 4155) each mail is a page. Of a web
// page that a browser saved as a mail, the main content.
api::Result<Extracted> ReadMail(std::string_view bytes);

// A Jupyter notebook of version 4 or 3: its cells, and the outputs that are text.
api::Result<Extracted> ReadNotebook(std::string_view bytes);

// Values parted by commas, semicolons, tabs or pipes, whichever parts the lines most evenly; by
// tabs alone where `is_tsv`. Rows as in spreadsheets (sheet_rows.h).
api::Result<Extracted> ReadCsv(std::string_view bytes, bool is_tsv);

// A manual page with the macros man or mdoc.
api::Result<Extracted> ReadManPage(std::string_view bytes);

// Subtitles, SubRip or WebVTT: paragraphs of some cues, each behind the time of its first one, and
// the speaker where the file names one.
api::Result<Extracted> ReadSubtitles(std::string_view bytes);

// A FictionBook 2: title, authors, annotation, then the chapters, each a page, with their notes
// behind the paragraphs that refer to them.
api::Result<Extracted> ReadFictionBook(std::string_view bytes);

// Light markup: titles and code as in Markdown, all else as it is written, but for the comments,
// settings and drawers of Org.
api::Result<Extracted> ReadRestructuredText(std::string_view bytes);
api::Result<Extracted> ReadAsciiDoc(std::string_view bytes);
api::Result<Extracted> ReadOrg(std::string_view bytes);

// LaTeX: titles and sections as headings, tables by row, code, text without the commands that only
// say how it looks. Formulas stay as they are written. Comments and definitions are left out; a
// file that holds nothing else is taken as it is written.
api::Result<Extracted> ReadLatex(std::string_view bytes);

// DocBook 4 and 5: titles as headings, lists, tables by row, program text as code, footnotes behind
// the paragraph that refers to them. Entities that the file declares with their text are read;
// those of other files are counted in the note.
api::Result<Extracted> ReadDocBook(std::string_view bytes);

// An iCalendar file (RFC 5545): each event, task or entry of a journal is a heading and lines of a
// name and a value. A vCard file (2.1 to 4.0), alike: each person or company.
api::Result<Extracted> ReadCalendar(std::string_view bytes);
api::Result<Extracted> ReadContacts(std::string_view bytes);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_READERS_H_
