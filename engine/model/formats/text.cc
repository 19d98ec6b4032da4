// Turns bytes into valid UTF-8 by Unicode 15, section 3.9, table 3-7 (well-formed sequences).
#include "engine/model/formats/text.h"

#include <cstddef>

namespace lectern {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// A row of table 3-7: the length of a character by its first byte, and the range of the second
// byte. Later bytes are always 80..BF. The narrowed ranges keep out overlong forms, surrogates and
// values past U+10FFFF.
struct Lead {
  int length;  // of the whole character; 0: not a lead byte
  uint8_t low, high;
};

// The row for a first byte. C0, C1 and F5..FF begin no character, nor do 80..BF.
Lead Classify(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

int Utf8CharLength(std::string_view bytes) {
  if (bytes.empty()) return 0;
  const Lead lead = Classify(static_cast<uint8_t>(bytes[0]));
  if (lead.length == 0) return -1;
  uint8_t low = lead.low, high = lead.high;
  for (int i = 1; i < lead.length; ++i) {
    // The bytes so far are fine: the character may be completed by later bytes.
    if (static_cast<size_t>(i) == bytes.size()) return 0;
    const uint8_t byte = static_cast<uint8_t>(bytes[static_cast<size_t>(i)]);
    if (byte < low || byte > high) return -i;
    low = 0x80;
    high = 0xBF;
  }
  return lead.length;
}

bool IsValidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {  // most of most texts
      ++at;
      continue;
    }
    const int length = Utf8CharLength(text.substr(at));
    if (length <= 0) return false;
    at += static_cast<size_t>(length);
  }
  return true;
}

// Valid stretches are copied whole, not character by character. A character that is cut short at
// the end is one invalid sequence.
CleanText CleanUtf8(std::string_view bytes) {
  CleanText clean;
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  clean.text.reserve(bytes.size());
  size_t valid_begin = 0, at = 0;  // [valid_begin, at) is valid and not yet copied
  while (at < bytes.size()) {
    const int length = Utf8CharLength(bytes.substr(at));
    if (length > 0) {
      at += static_cast<size_t>(length);
      continue;
    }
    const size_t bad = length < 0 ? static_cast<size_t>(-length) : bytes.size() - at;
    clean.text.append(bytes, valid_begin, at - valid_begin).append(kReplacementCharacter);
    clean.replaced_bytes += bad;
    at += bad;
    valid_begin = at;
  }
  clean.text.append(bytes, valid_begin, at - valid_begin);
  return clean;
}

namespace {

// The characters that Python's str.strip removes.
constexpr std::string_view kSpaces[] = {
    " ",        "\t",       "\n",       "\v",       "\f",       "\r",       "\x1C",     "\x1D",
    "\x1E",     "\x1F",     "\u0085",   "\u00A0",   "\u1680",   "\u2000",   "\u2001",   "\u2002",
    "\u2003",   "\u2004",   "\u2005",   "\u2006",   "\u2007",   "\u2008",   "\u2009",   "\u200A",
    "\u2028",   "\u2029",   "\u202F",   "\u205F",   "\u3000"};

}  // namespace

std::string_view TrimWhiteSpace(std::string_view text) {
  // Until a pass over the list removes nothing more.
  for (bool is_done = false; !is_done;) {
    is_done = true;
    for (const std::string_view space : kSpaces) {
      if (text.starts_with(space)) text.remove_prefix(space.size()), is_done = false;
      if (text.ends_with(space)) text.remove_suffix(space.size()), is_done = false;
    }
  }
  return text;
}

}  // namespace lectern
