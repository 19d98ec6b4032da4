// Turns the bytes of a text file, in whatever encoding they are, into UTF-8 with lines that end
// with LF or CR LF.
#ifndef LECTERN_TOOLS_INGEST_TEXT_ENCODING_H_
#define LECTERN_TOOLS_INGEST_TEXT_ENCODING_H_

#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::tools {

struct DecodedText {
  // UTF-8. In a file of UTF-8, bad bytes and a byte order mark stay: the engine replaces, counts
  // and reports them when it indexes.
  std::string text;
  std::string encoding;     // name of the encoding that was read, as iconv knows it
  bool is_assumed = false;  // neither the caller nor a byte order mark nor valid UTF-8 tells it
  std::string note;         // what was assumed or changed, for the user; empty: nothing
};

bool HasByteOrderMark(std::string_view bytes);  // of UTF-8, UTF-16 or UTF-32

// Decodes a text. `encoding` is "auto", or a name that a browser or iconv knows (EncodingOfLabel,
// EncodingOfIconv).
// "auto" takes, in this order:
//
//   a byte order mark of UTF-8, UTF-16 or UTF-32
//   UTF-16 and UTF-32 without a mark (WideEncoding), where there are NULs or control characters
//   UTF-8, if the bytes are valid, or mostly are (IsMostlyUtf8)
//   ISO-2022-JP, where its escape sequences begin Japanese text
//   the most plausible of the others (GuessEncoding)
//
// In the text, a run of NULs becomes a space: NULs part the items of a list, and fill logs that a
// crash cut off; and CR ends lines only in a text without LF (old Mac), where it becomes LF. Form
// feeds stay: the engine knows them as page breaks. INVALID_ARGUMENT (param "encoding"): nobody
// knows the name. Any thread. Linear time: about 1 s for 100 MB; memory: three times the bytes.
api::Result<DecodedText> DecodeText(std::string bytes, std::string_view encoding);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_TEXT_ENCODING_H_
