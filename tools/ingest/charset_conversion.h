// Converts text from any encoding that iconv(3) knows into UTF-8.
#ifndef LECTERN_TOOLS_INGEST_CHARSET_CONVERSION_H_
#define LECTERN_TOOLS_INGEST_CHARSET_CONVERSION_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lectern::tools {

// Returns iconv's name for the encoding that a label of encoding.spec.whatwg.org stands for, or a
// usual name of UTF-32 and of old code pages. As in browsers, "latin1" and "gb2312" stand for
// supersets, windows-1252 and GB18030. White space around the label, the case of letters, '-' and
// '_' do not matter. Empty: it is no such label, or this system cannot read the encoding, as
// Windows cannot read ISO-8859-10, -14 and -16, VISCII and CP1125.
std::string EncodingOfLabel(std::string_view label);

// Returns the name as ConvertToUtf8 takes it if it is that of any encoding which iconv knows, else
// "". Only for names that the user of this machine gave.
std::string EncodingOfIconv(std::string_view name);

struct ConvertedText {
  std::string text;           // valid UTF-8
  uint64_t num_replaced = 0;  // number of U+FFFD that stand for bytes that are no characters
};

// Converts `bytes` from `encoding`, a name that one of the two functions returned. Bytes that are
// no character, and a character that is cut off at the end, become U+FFFD; so do all bytes outside
// of ASCII where the system cannot read the encoding. A byte order mark at the start is left out.
// Any thread.
ConvertedText ConvertToUtf8(std::string_view bytes, const std::string& encoding);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_CHARSET_CONVERSION_H_
