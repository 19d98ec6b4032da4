// Recognises marks and phrases around the end of a sentence that do not depend on abbreviations:
// marks of list items, numbers of footnotes, dates in numbers, and words that say who spoke.
#ifndef LECTERN_ENGINE_DOCUMENT_SENTENCE_MARKS_H_
#define LECTERN_ENGINE_DOCUMENT_SENTENCE_MARKS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lectern {

// ASCII digits alone, and letters of Roman numbers alone ("iv", "XIV"; the order is not checked).
bool IsNumber(std::string_view word);
bool IsRoman(std::string_view word);

// "J", "U.S", "z.B", "т.е": single letters with stops or hyphens between them.
bool AreInitials(std::string_view word);
// "EE", "UU": a capital twice, as Spanish abbreviates plurals.
bool AreDoubled(std::string_view word);

// Whether the text up to a full stop is the mark of a list item or section: "1", "2.1", "a", "iv",
// "(3", "§ 3", "A", "B.2", "Section 4". White space may stand before it.
bool IsListMark(std::string_view text);

// Bytes of a footnote's mark in brackets right behind a stop: "[12]", "(3)", "[^note]"; 0: none. At
// most three digits; behind round brackets white space or the end must follow.
size_t FootnoteLength(std::string_view text);
// A raised digit or a dagger, which also mark footnotes.
bool IsRaisedMark(uint32_t c);

// Whether the full stop behind `before`'s last number stands inside a date in numbers: "1. 4. 2020"
// or "2019. 5. 3.". `before` ends behind the stop and the space; `after` is the text behind them.
// Looks at 16 bytes of either.
bool IsInDate(std::string_view before, std::string_view after);

// Whether a unit is followed by a number of a smaller one, as in "6 ft. 8 in.": `next` begins with
// the number.
bool IsBeforeSmallerUnit(std::string_view unit, std::string_view next);

// Whether the text behind a question in quotes says in English who asked: "Maud asked", "I said",
// "Mr. Thorne cried". Looks at the first 48 bytes.
bool TellsSpeaker(std::string_view text);
// Whether a Chinese sentence goes on behind a quotation that ends with a stop of its own: it says
// who spoke ("他问道", "房东回答说"), or begins with a word that links to what stands before it.
// Looks at the first 10 characters.
bool ContinuesChineseQuote(std::string_view text);
// Whether a colon stands before the last quotation that opens in a text, as in 他问：“谁？”, so
// that it said who spoke already. Looks at the last 400 bytes.
bool IsAnnouncedQuote(std::string_view text);

// Bytes of the number of a verse and its closing mark, as in "॥ १२ ॥", where `after` follows the
// stop at the head of `stop`; 0: none.
size_t VerseNumberLength(std::string_view stop, std::string_view after);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_SENTENCE_MARKS_H_
