// Classes of characters for tokenizers, and searches for white space and words at a place of a
// text. Places are between characters of valid UTF-8; a byte that is not part of a valid character
// counts as U+FFFD. The classes are Unicode's, as Rust's and Oniguruma's expressions have them.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_UNICODE_CLASSES_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_UNICODE_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lectern {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, a space in pieces

// Returns the character at `at`, which is inside the text, and sets its length in bytes, at least
// 1. A byte that begins no whole character is one of its own, U+FFFD: a scan always moves on.
uint32_t DecodeChar(std::string_view text, size_t at, size_t* length);
// Appends a character, at most U+10FFFF, as UTF-8.
void AppendChar(uint32_t c, std::string* out);

bool IsWhiteSpace(uint32_t c);  // Unicode's White_Space
bool IsMark(uint32_t c);        // category M: what "strip accents" removes
uint32_t LowerCase(uint32_t c);  // the simple lower case; other characters as they are

// Whether a text begins, or ends, with a letter, mark, decimal digit, letter number, connector or
// joiner: \w of Rust's expressions. False for an empty text.
bool BeginsWithWordChar(std::string_view text);
bool EndsWithWordChar(std::string_view text);
// SpaceBefore returns where the run of white space that ends at `at` begins, and SpaceAfter where
// the run that begins at `at` ends; `at` itself where there is no run. `at` is between characters
// and at most text.size(), which is not checked.
size_t SpaceBefore(std::string_view text, size_t at);
size_t SpaceAfter(std::string_view text, size_t at);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_UNICODE_CLASSES_H_
