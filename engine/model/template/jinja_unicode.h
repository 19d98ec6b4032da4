// Classifies, counts and converts characters on UTF-8 with the results of Python's str, for the
// Jinja interpreter; of characters that are newer than Python 3.11, as utf8proc's tables have them.
// A byte that is not part of valid UTF-8 counts as a character by itself. Classes come from
// utf8proc's Unicode tables; a few that it lacks are lists in jinja_unicode.cc.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_UNICODE_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_UNICODE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lectern::jinja {

// A character and the bytes that it takes.
struct Character {
  uint32_t code;  // kInvalid: not UTF-8
  size_t size;    // bytes
};
inline constexpr uint32_t kInvalid = 0xFFFFFFFF;
// Returns the first character of `text`, which is not empty.
Character FirstCharacter(std::string_view text);
// Returns the last character of `text`, which is not empty. Costs at most four bytes' look back.
Character LastCharacter(std::string_view text);
// Appends a character, at most U+10FFFF.
void AppendUtf8(std::string* text, uint32_t code);

// Whether all bytes are below 128; true for an empty text.
bool IsAscii(std::string_view text);
// Python's len().
size_t CountCharacters(std::string_view text);
// Returns the byte offset of character `index`, counted from 0; text.size() where there are no
// more. Linear in the text.
size_t OffsetOf(std::string_view text, size_t index);

bool IsSpace(uint32_t code);  // str.isspace, and likewise the others; false for kInvalid
bool IsAlphabetic(uint32_t code);
bool IsDecimal(uint32_t code);
bool IsDigit(uint32_t code);
bool IsNumeric(uint32_t code);
bool IsPrintable(uint32_t code);
bool IsLowerCase(uint32_t code);
bool IsUpperCase(uint32_t code);
bool IsTitleCase(uint32_t code);
bool IsWord(uint32_t code);  // \w
bool IsIdentifier(std::string_view text);  // str.isidentifier

// kTitle: as the first letter of a word; kFold: str.casefold.
enum class Case { kLower, kUpper, kTitle, kFold };
// Appends the character in that case: up to three characters. `code` is not kInvalid.
void AppendInCase(std::string* text, uint32_t code, Case to);
// Whether the small letter sigma at `offset` of `text` ends a word, where str.lower gives U+03C2.
bool IsFinalSigma(std::string_view text, size_t offset);

// Returns the number of bytes of white space (IsSpace) at the beginning of `text`.
size_t LeadingSpace(std::string_view text);
// Returns `text` without the white space (IsSpace) at its end, as a view of the same bytes.
std::string_view WithoutTrailingSpace(std::string_view text);

}  // namespace lectern::jinja

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_JINJA_UNICODE_H_
