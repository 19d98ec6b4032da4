// Small operations on the text of HTTP headers (case, blanks, lists), for the server's parsers.
// HTTP is ASCII, so that none of them looks at the locale. Header only; any thread.
#ifndef LECTERN_TOOLS_SERVER_ASCII_H_
#define LECTERN_TOOLS_SERVER_ASCII_H_

#include <string>
#include <string_view>

namespace lectern::server {

// ASCII letters alone; other bytes stay.
inline char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The same for each byte of a text.
inline std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = Lower(c);
  return lower;
}

// Removes the spaces and tabs at both ends (RFC 9110, 5.6.3: OWS). The result is a part of `text`.
inline std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Takes the text up to the first `separator` from the front of `rest`, and the separator with it;
// all of it where there is none. Returns that text, without the separator; "" of an empty `rest`.
inline std::string_view TakeUntil(std::string_view& rest, char separator) {
  const std::string_view part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(part.size() < rest.size() ? part.size() + 1 : rest.size());
  return part;
}

// The value of a hexadecimal digit; -1: it is none.
inline int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = Lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_ASCII_H_
