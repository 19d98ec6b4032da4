// The text that ask-document prints for people: passages, cited sentences, mentions, receipts.
#ifndef LECTERN_TOOLS_ANSWER_TEXT_H_
#define LECTERN_TOOLS_ANSWER_TEXT_H_

#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::tools {

// Every run of white space as one space, none at either end: passages are printed one per line.
std::string OnOneLine(std::string_view text);

// The passages of an answer, a line each: "[1] 92.3 % likely, bytes 120-260, p. 3: "…"", of a
// collection with the document in front: "[1] lease.txt, 92.3 % …". The bytes are of the indexed
// text; the page is there for documents with pages alone.
std::string PassagesText(const api::Answer& answer);

// The sentences of a cited text, each with its passages.
std::string CitedTextLines(std::string_view given, const api::CitedText& cited);

// The documents that mention words, a line each, with the first passage of each below it.
std::string MentionsText(const api::MentionList& list);

// One line that says how much of the document was read, and how long the answer took, with the
// engine's note (a warning, say) at its end. A negative read_fraction_decode: the answer took no
// step of its own.
std::string ReceiptText(const api::Answer& answer);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_ANSWER_TEXT_H_
