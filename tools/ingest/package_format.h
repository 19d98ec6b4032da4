// Tells the format of office files, books and other files that lectern-extract reads, from their
// first bytes and their names.
#ifndef LECTERN_TOOLS_INGEST_PACKAGE_FORMAT_H_
#define LECTERN_TOOLS_INGEST_PACKAGE_FORMAT_H_

#include <string_view>

namespace lectern::tools {

// The name of the format ("docx", "epub", a name of ParseFormat) that the bytes of a zip file tell
// by its media type (OpenDocument, EPUB) or by the parts that it lists (Office Open XML); empty: it
// is no zip file, or one of another kind. Any bytes will do; linear time.
std::string_view ZipFormat(std::string_view bytes);

// The format of text files with a form of their own: "eml" by headers at the start, "man" by macros
// of a manual page at the start, "odt", "ods" and "odp" by the first element of a flat OpenDocument
// file, "fb2" by the name of its first element, "docbook" by its document type, namespace or first
// elements, "ics" and "vcf" by their first line, "srt" by the mark of WebVTT; empty: none of these.
std::string_view MarkedTextFormat(std::string_view bytes);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_PACKAGE_FORMAT_H_
