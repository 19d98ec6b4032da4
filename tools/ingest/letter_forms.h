// Replaces characters that only say how a letter was set by the letter itself, so that a search for
// "office" finds what a PDF spells with a ligature. visual_order.h uses it.
#ifndef LECTERN_TOOLS_INGEST_LETTER_FORMS_H_
#define LECTERN_TOOLS_INGEST_LETTER_FORMS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lectern::tools {

// Decodes UTF-8. Bytes that are no UTF-8 become U+FFFD. Any thread.
std::vector<uint32_t> CodePoints(std::string_view text);

// Puts letters in the place of ligatures whose Unicode values Ghostscript wrote with their bytes
// swapped: of "de昀椀ne", U+6600 and U+6900 are "fi"; of three letters the last two are one sum, so
// that "ffi" is U+6600 and U+CF00. In a word of Latin letters alone, with ligatures that fonts
// have. Any thread.
void MendSwappedLigatures(std::vector<uint32_t>& word);

// Appends the plain letters of `character` to `out`: of ligatures (U+FB00 to U+FB06 and the
// Armenian and Hebrew ones), the long s, Arabic presentation forms, full-width letters and digits,
// half-width katakana, Kangxi radicals, compatibility ideographs, and letters of mathematical
// alphabets. A no-break space becomes a space. Other characters stay: superscripts, fractions and
// full-width punctuation mean something. `out` gets characters in logical order. Any thread.
void AppendPlainLetters(uint32_t character, std::vector<uint32_t>& out);

// The same for a whole text in logical order, in Unicode's form NFC, encoded as UTF-8, with the
// vowel AM of Thai and Lao as it is typed. Code points are valid. Any thread.
std::string PlainLetters(const std::vector<uint32_t>& characters);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_LETTER_FORMS_H_
