// Finds the sentences of one paragraph, in the ways of Unicode's UAX #29 and with abbreviations,
// initials, ordinals and list marks known.
#ifndef LECTERN_ENGINE_DOCUMENT_SENTENCE_BREAKS_H_
#define LECTERN_ENGINE_DOCUMENT_SENTENCE_BREAKS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lectern {

// Appends to `ends` where each sentence of `paragraph` ends, ascending; the last one is the
// paragraph's end. An empty paragraph has none. White space before a sentence belongs to it. Line
// breaks count as spaces.
//
// A sentence ends behind . ! ? … 。 ؟ । and the terminators of other scripts, with the quotes,
// brackets and footnote marks that close behind them. ASCII ones need a space behind them, or a
// CJK character. They do not end it before a small letter, a comma or the like, in a number, name
// of a file or domain, or behind an abbreviation (abbreviations.h), an initial or a list mark.
// CJK stops in brackets do not end the sentence around the brackets. Thai and Lao have no stops:
// there a sentence ends at a space between two long runs of letters.
// Any bytes will do; breaks are between characters of valid UTF-8. Linear time.
void AppendSentenceEnds(std::string_view paragraph, std::vector<size_t>* ends);

// Whether a sentence asks: it ends with the question mark of a script, behind which closing quotes,
// brackets, other marks ("?!") and white space may follow, or it is Armenian, whose mark stands in
// a word. Linear time.
bool EndsAsQuestion(std::string_view sentence);

// How a line or page ends, and how the next one begins: what tells whether a sentence runs on.
enum class TextEnd { kClosed, kOpen, kUnknown };
// kClosed: with a terminator that ends a sentence. kOpen: with a comma, semicolon, hyphen, dash,
// abbreviation or the like, or a word that needs a next one ("the", "und"). kUnknown otherwise, and
// if `text` is empty. Looks at the last 80 bytes.
TextEnd EndOf(std::string_view text);
enum class TextStart { kSmallLetter, kCapital, kOtherLetter, kDigit, kOther };
// By the first character behind opening quotes and brackets; kOther without any.
TextStart StartOf(std::string_view text);

// Whether a character belongs to a script that is written without spaces between words.
bool IsWithoutSpaces(uint32_t c);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_SENTENCE_BREAKS_H_
