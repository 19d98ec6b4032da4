// Finds out in which encoding a text without a byte order mark is, from its bytes alone.
#ifndef LECTERN_TOOLS_INGEST_ENCODING_GUESS_H_
#define LECTERN_TOOLS_INGEST_ENCODING_GUESS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lectern::tools {

// How much of a text is valid UTF-8.
struct Utf8Counts {
  uint64_t multibyte = 0;   // valid characters of two to four bytes
  uint64_t invalid = 0;     // maximal invalid sequences, each of which would become one U+FFFD
  bool is_cut_off = false;  // the last of them is a character that the end of the text cuts off
  bool is_valid() const { return invalid == 0; }
};
Utf8Counts CountUtf8(std::string_view bytes);

// Whether text is UTF-8 although some of its bytes are not: it has at least twice as many valid
// multi-byte characters as invalid sequences and two more, or nothing is wrong but a character that
// is cut off at the end. Texts in 30 other encodings had at most 0.9 times as many (30 bytes of
// Thai), long ones 0.3 times (EUC-JP).
bool IsMostlyUtf8(const Utf8Counts& counts);

// "UTF-16LE", "UTF-16BE", "UTF-32LE" or "UTF-32BE" where the bytes are such a text, else "". It
// looks for NULs and control characters, which other text does not have, and for a text of common
// characters in one of the two byte orders. A last character that is cut off is ignored.
std::string WideEncoding(std::string_view bytes);

// The escape sequence at the begin of each text in ISO-2022-KR (RFC 1557).
inline constexpr std::string_view kKoreanEscape = "\x1B$)C";

// The encoding of a text that is no UTF-8, UTF-16 or UTF-32: a name for ConvertToUtf8. It takes the
// guess of uchardet, and other encodings where the text read by the guess is less plausible:
// letters that no language has together, capitals or symbols inside of words, bytes without a
// character. "windows-1252" where nothing fits better, as in browsers. Looks at 64 KiB at most,
// which it takes from all over the text. Any thread.
std::string GuessEncoding(std::string_view bytes);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_ENCODING_GUESS_H_
