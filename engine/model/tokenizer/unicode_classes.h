// Tells tokenizers the class of a character, and finds white space and word characters at a place
// of a text. All texts are valid UTF-8.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_UNICODE_CLASSES_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_UNICODE_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lectern {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, a space in pieces

// Decodes the character at `at`, and tells its length in bytes.
uint32_t DecodeChar(std::string_view text, size_t at, size_t* length);
void AppendChar(uint32_t c, std::string* out);

bool IsWhiteSpace(uint32_t c);  // Unicode's White_Space
bool IsMark(uint32_t c);        // category M: what "strip accents" removes
uint32_t LowerCase(uint32_t c);

bool BeginsWithWordChar(std::string_view text);  // letter, mark, digit or connector, as \w
bool EndsWithWordChar(std::string_view text);
// These return where the run of white space that ends at `at`, or that begins there, begins or
// ends.
size_t SpaceBefore(std::string_view text, size_t at);
size_t SpaceAfter(std::string_view text, size_t at);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_UNICODE_CLASSES_H_
