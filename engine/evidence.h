// Attention mass per token -> passages of the document.
#ifndef LECTERN_ENGINE_EVIDENCE_H_
#define LECTERN_ENGINE_EVIDENCE_H_

#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/tokenizer.h"

namespace lectern {

inline constexpr size_t kMaxPassageBytes = 400;

// `mass` [tokens of the fixed context]: attention that the answer's steps paid to each, summed over
// layers and heads; unnormalised. `ranges` [tokens]: their bytes; template tokens have none.
// Passages are sentences (cut at kMaxPassageBytes), the best `max_passages` of them by mass, with
// neighbours joined while they stay within that length; largest mass first. A passage's mass is its
// share of what the whole text got. Attention shows what was used; it does not prove support.
std::vector<Evidence> FindEvidence(std::string_view text,
                                   std::span<const TokenizedText::Range> ranges,
                                   std::span<const double> mass, uint32_t max_passages);

}  // namespace lectern

#endif  // LECTERN_ENGINE_EVIDENCE_H_
