#include "engine/model/tokenizer/unicode_classes.h"

#include <utf8proc.h>

#include <algorithm>

namespace lectern {
namespace {

// Letters, marks, decimal digits, letter numbers, connectors and the two joiners: \w of Unicode's
// regular expressions (UTS #18).
bool IsWordChar(uint32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return c == 0x200C || c == 0x200D;  // Join_Control
  }
}

// Returns the character that ends at `at`, which is above 0, and sets where it begins. A byte that
// ends no valid character is U+FFFD, as it is when the text is read from the left.
uint32_t CharBefore(std::string_view text, size_t at, size_t* begin) {
  constexpr size_t kLongest = 4;  // bytes of a character
  size_t from = at - 1, length = 0;
  while (from > 0 && at - from < kLongest && (static_cast<uint8_t>(text[from]) & 0xC0) == 0x80) {
    --from;
  }
  const uint32_t c = DecodeChar(text, from, &length);
  const bool reaches = from + length == at;
  *begin = reaches ? from : at - 1;
  return reaches ? c : 0xFFFD;
}

}  // namespace

uint32_t DecodeChar(std::string_view text, size_t at, size_t* length) {
  utf8proc_int32_t c = 0;
  const utf8proc_ssize_t size =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                       static_cast<utf8proc_ssize_t>(text.size() - at), &c);
  *length = size > 0 ? static_cast<size_t>(size) : 1;
  return size > 0 ? static_cast<uint32_t>(c) : 0xFFFD;
}

void AppendChar(uint32_t c, std::string* out) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

bool IsWhiteSpace(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsMark(uint32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

uint32_t LowerCase(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

bool BeginsWithWordChar(std::string_view text) {
  size_t length = 0;
  return !text.empty() && IsWordChar(DecodeChar(text, 0, &length));
}

bool EndsWithWordChar(std::string_view text) {
  size_t begin = 0;
  return !text.empty() && IsWordChar(CharBefore(text, text.size(), &begin));
}

size_t SpaceBefore(std::string_view text, size_t at) {
  while (at > 0) {
    size_t begin = 0;
    if (!IsWhiteSpace(CharBefore(text, at, &begin))) break;
    at = begin;
  }
  return at;
}

size_t SpaceAfter(std::string_view text, size_t at) {
  while (at < text.size()) {
    size_t length = 0;
    if (!IsWhiteSpace(DecodeChar(text, at, &length))) break;
    at += length;
  }
  return at;
}

}  // namespace lectern
