// Reads values of a JSON schema out of plain answers: a number out of "about 1,200 packages".
#ifndef LECTERN_ENGINE_ASKING_VALUE_OF_TEXT_H_
#define LECTERN_ENGINE_ASKING_VALUE_OF_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace lectern {

// The strings among which the schema chooses (enum, const), in its order; empty: it does not, or it
// is no schema.
std::vector<std::string> ChoicesOf(std::string_view schema);

// The value of the schema that the text says, as JSON; empty: it says none, or does not tell which.
// `question` is what the text answers. Read are:
//
//  - one of several strings (enum, const): the one whose words stand in the text, the longest of
//    those that overlap, or the only one that has all words of the text; not where two stand apart.
//    Where "yes" and "no" are choices, a text that affirms or denies says them;
//  - true and false: by "yes" or "no" at the beginning, else by whether the text is negated as the
//    question is, in several languages: models often answer with a sentence of the document;
//  - numbers: in digits of several scripts, with signs, commas and scales ("1.9 billion"), or in
//    English words ("more than nine hundred"); the first that the schema allows. Where the question
//    asks for a year, the first year comes before other numbers;
//  - dates ("format": "date"): "August 16th, 1993", "16 août 1993", "16.08.1993", 2013年5月4日;
//    months in seven languages. Without a day there is none;
//  - other strings: the text itself, or the longest run of its words that the schema allows, such
//    as the address in "write to leasing@example.com".
//
// Any bytes will do. May throw std::bad_alloc.
std::string ValueOfText(std::string_view schema, std::string_view question, std::string_view text);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_VALUE_OF_TEXT_H_
