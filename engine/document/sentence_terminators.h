// Tells which characters beyond ASCII end sentences.
#ifndef LECTERN_ENGINE_DOCUMENT_SENTENCE_TERMINATORS_H_
#define LECTERN_ENGINE_DOCUMENT_SENTENCE_TERMINATORS_H_

#include <cstdint>

namespace lectern {

// Whether a character from U+037E on is a full stop, question mark or the like of a script. Binary
// search in a table.
bool IsSentenceTerminator(uint32_t c);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_SENTENCE_TERMINATORS_H_
