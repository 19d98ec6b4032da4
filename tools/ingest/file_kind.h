// Recognises files that are no text, such as images, archives and programs, so that they are
// refused by name instead of being indexed as letters.
#ifndef LECTERN_TOOLS_INGEST_FILE_KIND_H_
#define LECTERN_TOOLS_INGEST_FILE_KIND_H_

#include <optional>
#include <string>
#include <string_view>

namespace lectern::tools {

// The kind of a file that is no text. Both strings are parts of a sentence, in plain ASCII, and
// static.
struct FileKind {
  std::string_view name;     // "a PNG image"
  std::string_view way_out;  // "recognise its text first (apt install tesseract-ocr)"
  bool is_compressed = false;  // it holds one other file, which may be text ("notes.txt.gz")
};

// Returns what a file's bytes are if they are no text; nothing: they are text, in whatever
// encoding, or there are none.
//
// Text is never refused, because two things must come together: the bytes are not those of text
// (NULs or control characters, outside of UTF-16 and UTF-32), and they begin as a known format
// does, or more of them are control characters than in any text. In the second case the name is
// "binary data". RTF and PostScript, which are written in ASCII, are known by their first bytes
// alone. Looks at the first 64 KiB, and at every byte of an old office file (OLE), whose kind lies
// anywhere in it. Any thread.
//
// The table of signatures is our own. libmagic knows more formats, but it is a parser of hostile
// bytes in this process, takes text for other things ("MZ", "GIF89a …"), and gives no way out; here
// the table gives no more than the name, since any binary data is refused.
std::optional<FileKind> KindOfBinary(std::string_view bytes);

// The format of a document of Microsoft's programs before 2007: "doc", "xls", "ppt", "msg"; empty:
// it is none, or has a password, or is of another program. Documents in the document do not count.
// Any thread.
std::string_view OldOfficeFormat(std::string_view bytes);

// Whether the bytes begin with the header of a tar archive: its checksum, in octal digits, is the
// sum of its 512 bytes with spaces where the checksum stands. Any thread.
bool IsTarArchive(std::string_view bytes);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_FILE_KIND_H_
