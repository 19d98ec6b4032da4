// Finds the parts of a long document, or the texts of a collection, in which the answer to a
// question is likely to stand, by words alone.
#ifndef LECTERN_ENGINE_ASKING_ROUTE_H_
#define LECTERN_ENGINE_ASKING_ROUTE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/document/collection.h"
#include "engine/document/passages.h"
#include "engine/document/word_index.h"
#include "store/shard_format.h"
#include "store/status.h"

namespace lectern {

// A part, or a text of a collection, and how well it fits a question.
struct RankedPart {
  uint32_t part = 0;  // its number
  double score = 0;  // a weighted sum of WordScores; 0: it shares no word with the question
  // That the answer stands in it, if it stands in any: the softmax of the scores.
  double probability = 0;
};

// Ranks all parts for a question, the likeliest first; among equals the earlier one. `passages` are
// those that the index was built from, and the parts are the text's. `before`: what was asked
// before, which the question may refer to; empty: nothing. A text of 1.2 MB
// in 66 parts takes 0.3 ms. Codes of WordIndex::Score. May throw std::bad_alloc.
//
// With 5,999 questions to 215 real documents that were joined into one text of 66 parts, the right
// part is first for 82 %, and among the first two, four and eight for 89, 93 and 96 %. A
// probability of 0.9 or more was right for 97.9 % of 3,395 questions, one of 0.5 to 0.6 for 59 % of
// 349 (tests/evaluation/route_accuracy.cc, tools/evaluate/RESULTS.md).
Result<std::vector<RankedPart>> RankParts(const WordIndex& words, std::span<const Passage> passages,
                                          std::span<const PartEntry> parts,
                                          std::string_view question, std::string_view before = {});

// The texts of a collection that share words with a question.
struct RankedTexts {
  std::shared_ptr<const Collection::Texts> texts;
  std::vector<RankedPart> ranked;  // indices into `texts`, the likeliest first
};
// Ranks the texts of a collection for a question, as RankParts ranks parts. Passages are looked at
// in the 48 best texts; what the others score by their best passages counts as nothing. Codes of
// Collection::Score.
Result<RankedTexts> RankTexts(Collection& collection, std::string_view question,
                              std::string_view before = {});

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_ROUTE_H_
