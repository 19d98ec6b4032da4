// The few operations on characters that the readers of files share. Header only; any thread.
#ifndef LECTERN_TOOLS_INGEST_CHARACTERS_H_
#define LECTERN_TOOLS_INGEST_CHARACTERS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lectern::tools {

// U+FEFF in UTF-8, which some programs put at the start of a file.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// ASCII capitals as small letters; other bytes as they are.
inline char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
inline std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = Lower(c);
  return lower;
}

// ASCII whitespace of HTML (infra.spec.whatwg.org): a no-break space is none.
inline bool IsHtmlSpace(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f';
}

inline bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }
inline bool IsAsciiUpper(char c) { return c >= 'A' && c <= 'Z'; }
inline bool IsAsciiLower(char c) { return c >= 'a' && c <= 'z'; }
inline bool IsAsciiLetter(char c) { return IsAsciiUpper(c) || IsAsciiLower(c); }

// Appends a code point, up to U+10FFFF, as UTF-8. It does not check: the bytes of a surrogate are
// not valid UTF-8, and callers clean the text (CleanUtf8).
inline void AppendUtf8(uint32_t character, std::string& out) {
  if (character < 0x80) {
    out += static_cast<char>(character);
    return;
  }
  const int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  constexpr uint8_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(kLead[more] | character >> 6 * more);
  for (int i = more - 1; i >= 0; --i) {
    out += static_cast<char>(0x80 | (character >> 6 * i & 0x3F));
  }
}

// A number with raised digits and signs ("2" as "²"), because "10²" is not "102"; empty: the text
// is no number.
inline std::string Superscript(std::string_view number) {
  constexpr std::string_view kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string raised;
  bool has_digit = false;
  for (size_t i = 0; i < number.size(); ++i) {
    const bool is_minus = number[i] == '-' || number.substr(i).starts_with("\u2212");
    if (!IsAsciiDigit(number[i]) && !is_minus && number[i] != '+') return "";
    has_digit |= IsAsciiDigit(number[i]);
    raised += is_minus ? "⁻" : number[i] == '+' ? "⁺" : kDigits[number[i] - '0'];
    if (is_minus && number[i] != '-') i += 2;
  }
  return has_digit ? raised : "";
}

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_CHARACTERS_H_
