// Knows abbreviations and the words that sentences begin with, for the search for sentence ends in
// English, German, French, Spanish, Italian, Portuguese, Hindi and Russian texts, and the most
// frequent ones of other languages of Europe and Asia.
#ifndef LECTERN_ENGINE_DOCUMENT_ABBREVIATIONS_H_
#define LECTERN_ENGINE_DOCUMENT_ABBREVIATIONS_H_

#include <string_view>

namespace lectern {

// Whether a full stop behind a word can be the end of a sentence.
enum class StopAfter {
  kEnds,    // the word is no abbreviation
  kNever,   // "Dr.", "e.g.": more of the sentence follows
  kNumber,  // "No.", "Fig.", "Jan.": a number that follows belongs to it
  kTime,    // "a.m.": it ends unless a number or ContinuesTime follows
  kMayEnd,  // "Inc.", "Jr.": it ends if the next word is one that sentences begin with
};

// `word`: the text between white space or an opening bracket and the full stop, which is no part of
// it; it may have stops inside ("e.g"). "DR" counts as "Dr"; a compound unknown as a whole
// ("Dipl.-Ing") counts as its part behind the last hyphen. kEnds also for an empty word and for one
// of more than 16 bytes. Binary search in a table.
StopAfter StopAfterWord(std::string_view word);

// Whether a word behind "5 p.m." belongs to the time: a day, a month or a time zone ("EST").
bool ContinuesTime(std::string_view word);

// Whether a word of at most three Latin, Greek or Cyrillic letters has no vowel, as abbreviations
// often have ("kb", "stk", "бл"). Stops and other characters make it none.
bool IsWithoutVowels(std::string_view word);

// Whether sentences often begin with this word, as it is written ("The", "Der", "Les"), and names
// do not.
bool BeginsSentences(std::string_view word);

// Whether a German number with a full stop before `next` is an ordinal: "am 3. Mai", "der 2. Rat".
// `previous` stands before the number; both are words as written, and may be empty. True wherever
// `next` is a month or the like; else if `previous` is an article or preposition and `next` is no
// word that sentences begin with.
bool IsOrdinalBetween(std::string_view previous, std::string_view next);

// Whether a Thai or Lao sentence goes on over the space between these texts: a conjunction,
// preposition or auxiliary verb stands behind it, or a word before it that needs what follows.
bool ContinuesThai(std::string_view before, std::string_view after);

// Whether a line or page that ends with this word cannot be the end of a sentence: articles,
// prepositions, conjunctions, auxiliary verbs and the like ("the", "und", "avec", "will"), in small
// letters or ASCII capitals.
bool NeedsNextWord(std::string_view word);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_ABBREVIATIONS_H_
