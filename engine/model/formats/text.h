// Turns bytes that are meant to be text, such as a document's file, into valid UTF-8, and measures
// UTF-8 characters.
#ifndef LECTERN_ENGINE_MODEL_FORMATS_TEXT_H_
#define LECTERN_ENGINE_MODEL_FORMATS_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lectern {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

struct CleanText {
  std::string text;             // valid UTF-8
  uint64_t replaced_bytes = 0;  // bytes of the input that U+FFFD stands for
};

// Replaces each maximal invalid sequence (Unicode 15, section 3.9, "substitution of maximal
// subparts") by one U+FFFD. Overlong forms, surrogates and values past U+10FFFF are invalid.
// A UTF-8 byte order mark at the start is dropped and not counted. NUL stays.
CleanText CleanUtf8(std::string_view bytes);

// Length of the valid UTF-8 character at the start of `bytes`: 1..4; 0: cut short (or there are no
// bytes), more could complete it; -n: the first n bytes can never be part of a valid character.
int Utf8CharLength(std::string_view bytes);

bool IsValidUtf8(std::string_view text);

// Returns the text without the white space at both ends, as Python's str.strip: also U+0085,
// U+00A0, U+2003 …
std::string_view TrimWhiteSpace(std::string_view text);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_TEXT_H_
