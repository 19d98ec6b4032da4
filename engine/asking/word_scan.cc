#include "engine/asking/word_scan.h"

#include <utf8proc.h>

#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {

int DigitOf(uint32_t c) {
  for (const uint32_t zero : {0x30u, 0x660u, 0x6F0u, 0x966u, 0xFF10u}) {
    if (c >= zero && c < zero + 10) return static_cast<int>(c - zero);
  }
  return -1;
}

bool IsOfWord(uint32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ME;
}

std::string SpacedWords(std::string_view text) {
  std::string spaced = " ";
  for (size_t at = 0, length; at < text.size(); at += length) {
    const uint32_t c = DecodeChar(text, at, &length);
    if (IsOfWord(c) || DigitOf(c) >= 0) {
      AppendChar(LowerCase(c), &spaced);
    } else if (spaced.back() != ' ') {
      spaced += ' ';
    }
  }
  if (spaced.back() != ' ') spaced += ' ';
  return spaced;
}

void TakeNumber(std::string_view text, size_t& at, std::string* number) {
  for (size_t length, next_length; at < text.size(); at += length) {
    const uint32_t c = DecodeChar(text, at, &length);
    if (DigitOf(c) >= 0) {
      *number += static_cast<char>('0' + DigitOf(c));
    } else if ((c == '.' || c == ',') && at + 1 < text.size() &&
               DigitOf(DecodeChar(text, at + 1, &next_length)) >= 0) {
      *number += static_cast<char>(c);
    } else {
      return;
    }
  }
}

void TakeWord(std::string_view text, size_t& at, std::string* word) {
  for (size_t length; at < text.size(); at += length) {
    const uint32_t c = DecodeChar(text, at, &length);
    if (!IsOfWord(c)) return;
    AppendChar(LowerCase(c), word);
  }
}

}  // namespace lectern
