// Measures how odd a text looks, whatever its language, to choose between encodings that could all
// be meant.
#ifndef LECTERN_TOOLS_INGEST_TEXT_PLAUSIBILITY_H_
#define LECTERN_TOOLS_INGEST_TEXT_PLAUSIBILITY_H_

#include <string_view>

namespace lectern::tools {

// Returns the sum of what is odd about the characters outside of ASCII; 0: nothing is. Each counts
//
//   4    a control character, an unassigned or private one, U+FFFD
//   1    a letter that the language with most of the text's letters does not have
//   1    a capital behind a small letter, a symbol between two letters, and a letter beside one of
//        another script, such as Latin and Cyrillic
//   0.5  a symbol that texts rarely have: ¤ ¬ ¶ ƒ ‡ ˆ, parts of boxes, halfwidth katakana …
//
// Languages are known by their alphabets (CLDR's exemplar characters) in Latin and Cyrillic script,
// else by their script. `text` is valid UTF-8. Linear time; any thread.
double Oddness(std::string_view text);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_TEXT_PLAUSIBILITY_H_
