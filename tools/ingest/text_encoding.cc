#include "tools/ingest/text_encoding.h"

#include <algorithm>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/charset_conversion.h"
#include "tools/ingest/encoding_guess.h"

namespace lectern::tools {
namespace {

// The marks of UTF-32 come first: that of UTF-32LE begins with that of UTF-16LE.
constexpr std::pair<std::string_view, const char*> kMarks[] = {
    {kByteOrderMark, "UTF-8"},
    {std::string_view("\xFF\xFE\0\0", 4), "UTF-32LE"},
    {std::string_view("\0\0\xFE\xFF", 4), "UTF-32BE"},
    {"\xFF\xFE", "UTF-16LE"},
    {"\xFE\xFF", "UTF-16BE"}};

const char* MarkedEncoding(std::string_view bytes) {
  for (const auto& [mark, encoding] : kMarks) {
    if (bytes.starts_with(mark)) return encoding;
  }
  return nullptr;
}

// The encoding of Japanese or Korean text that is written with bytes of ASCII and escape sequences
// (RFC 1468, RFC 1557); empty: it is none.
std::string Iso2022Encoding(std::string_view bytes) {
  constexpr std::pair<std::string_view, const char*> kEscapes[] = {
      {"\x1B$B", "ISO-2022-JP"}, {"\x1B$@", "ISO-2022-JP"}, {kKoreanEscape, "ISO-2022-KR"}};
  for (const auto& [escape, label] : kEscapes) {
    if (bytes.find(escape) == std::string_view::npos) continue;
    const std::string encoding = EncodingOfLabel(label);
    if (!encoding.empty() && ConvertToUtf8(bytes, encoding).num_replaced == 0) return encoding;
  }
  return "";
}

// Sets `encoding` and `is_assumed`.
void Detect(std::string_view bytes, DecodedText& decoded) {
  if (const char* const marked = MarkedEncoding(bytes)) {
    decoded.encoding = marked;
    return;
  }
  decoded.encoding = WideEncoding(bytes);
  decoded.is_assumed = true;
  if (!decoded.encoding.empty()) return;
  const Utf8Counts counts = CountUtf8(bytes);
  if (!IsMostlyUtf8(counts)) {
    decoded.encoding = GuessEncoding(bytes);
    return;
  }
  decoded.encoding = Iso2022Encoding(bytes);
  if (!decoded.encoding.empty()) return;
  decoded.encoding = "UTF-8";
  decoded.is_assumed = false;
}

void AddNote(const std::string& part, DecodedText& decoded) {
  decoded.note += (decoded.note.empty() ? "" : "; ") + part;
}

std::string Counted(uint64_t count, const char* thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

// The size of the escape sequence of a terminal (ECMA-48) that begins at `at`: colours, titles of
// windows, sets of characters.
size_t SizeOfEscape(std::string_view text, size_t at) {
  constexpr size_t kLongest = 4096;
  const auto is_in = [&](size_t place, char first, char last) {
    return place < text.size() && text[place] >= first && text[place] <= last;
  };
  size_t end = at + 1;
  if (end >= text.size()) return 1;
  if (text[end] == '[') {  // a control sequence: parameters, then one character
    ++end;
    while (is_in(end, ' ', '?')) ++end;
    return is_in(end, '@', '~') ? end + 1 - at : end - at;
  }
  if (text[end] == ']') {  // a command to the system, which BEL or ESC \ ends
    const size_t stop =
        text.substr(0, std::min(text.size(), at + kLongest)).find_first_of("\a\x1B\n", end);
    if (stop == std::string_view::npos || text[stop] == '\n') return 1;
    return stop + (text[stop] == '\x1B' && is_in(stop + 1, '\\', '\\') ? 2 : 1) - at;
  }
  while (is_in(end, ' ', '/')) ++end;
  return is_in(end, '0', '~') ? end + 1 - at : 1;
}

// Takes away the last character of valid or invalid UTF-8, but no end of a line.
void RemoveLastCharacter(std::string& text) {
  if (text.empty() || text.back() == '\n') return;
  const auto is_continuation = [&] { return (static_cast<uint8_t>(text.back()) & 0xC0) == 0x80; };
  while (text.size() > 1 && is_continuation()) text.pop_back();
  text.pop_back();
}

// Leaves out what terminals and line printers take for commands, as col -b does: escape sequences,
// and characters that a backspace replaces ("N\bN" is a bold N, "_\bx" an underlined x).
void RemoveTerminalCodes(DecodedText& decoded) {
  std::string& text = decoded.text;
  if (text.find_first_of("\b\x1B") == std::string::npos) return;
  std::string plain;
  uint64_t num_removed = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\x1B') {
      i += SizeOfEscape(text, i);
      ++num_removed;
    } else if (text[i] == '\b') {
      RemoveLastCharacter(plain);
      ++i;
      ++num_removed;
    } else {
      plain += text[i++];
    }
  }
  text = std::move(plain);
  AddNote(Counted(num_removed, "code") + " of terminals " + (num_removed == 1 ? "was" : "were") +
              " left out",
          decoded);
}

// Makes each run of NULs a space, and CR the end of lines where there is no LF.
void CleanControls(DecodedText& decoded) {
  RemoveTerminalCodes(decoded);
  std::string& text = decoded.text;
  if (text.find('\n') == std::string::npos) std::replace(text.begin(), text.end(), '\r', '\n');
  const auto nuls = static_cast<uint64_t>(std::count(text.begin(), text.end(), '\0'));
  if (nuls == 0) return;
  text.erase(
      std::unique(text.begin(), text.end(), [](char a, char b) { return a + b == 0 && a == 0; }),
      text.end());
  std::replace(text.begin(), text.end(), '\0', ' ');
  AddNote(Counted(nuls, "NUL byte") + " became spaces", decoded);
}

}  // namespace

bool HasByteOrderMark(std::string_view bytes) { return MarkedEncoding(bytes) != nullptr; }

api::Result<DecodedText> DecodeText(std::string bytes, std::string_view encoding) {
  DecodedText decoded;
  if (encoding == "auto") {
    Detect(bytes, decoded);
  } else {
    decoded.encoding = EncodingOfLabel(encoding);
    if (decoded.encoding.empty()) decoded.encoding = EncodingOfIconv(encoding);
    // "utf-16" says no byte order; a mark does.
    const std::string_view marked = MarkedEncoding(bytes) ? MarkedEncoding(bytes) : "";
    const std::string family = decoded.encoding.substr(0, 6);
    if (family.starts_with("UTF-") && marked.starts_with(family)) decoded.encoding = marked;
  }
  if (decoded.encoding.empty()) {
    return api::Error{LECTERN_INVALID_ARGUMENT,
                      "no encoding is called \"" + CleanUtf8(encoding.substr(0, 40)).text +
                          "\"; \"iconv -l\" lists the names",
                      "encoding"};
  }
  if (decoded.is_assumed) {
    AddNote("read as " + decoded.encoding + ", which was assumed", decoded);
  }
  if (decoded.encoding == "UTF-8") {
    if (bytes.starts_with(kByteOrderMark)) bytes.erase(0, kByteOrderMark.size());
    decoded.text = std::move(bytes);
  } else {
    ConvertedText converted = ConvertToUtf8(bytes, decoded.encoding);
    decoded.text = std::move(converted.text);
    if (converted.num_replaced > 0) {
      AddNote(Counted(converted.num_replaced, "place") + " that " +
                  (converted.num_replaced == 1 ? "is" : "are") + " no " + decoded.encoding +
                  " became U+FFFD",
              decoded);
    }
  }
  CleanControls(decoded);
  return decoded;
}

}  // namespace lectern::tools
