// Finds the attention heads of a model that look at the passage in which an answer stands: plants
// facts in a short text, asks about each, and sees who looks there.
#ifndef LECTERN_ENGINE_INDEXING_FIND_RETRIEVAL_HEADS_H_
#define LECTERN_ENGINE_INDEXING_FIND_RETRIEVAL_HEADS_H_

#include <functional>
#include <optional>
#include <vector>

#include "engine/document/retrieval_heads.h"
#include "engine/indexing/index_context.h"
#include "store/catalog.h"

namespace lectern {

// The heads of context.model: those that a ready document of the model in the store has, if its
// newest one has any record of them, else found now. Then the planted text (0.7K tokens) is indexed
// on the CPU in a store of its own in context.store, which is removed at the end, and asked 48
// questions: a few seconds with a model of 135 million weights, about as long as a prefill of 2K
// tokens. Nothing: the disk has no room for it. The caller holds the store's lock. `stopped`, never
// empty, is polled before each question: kCancelled when it says so. Errors of IndexDocument and
// DocumentSession. May throw std::bad_alloc.
Result<std::optional<RetrievalHeads>> FindRetrievalHeads(const IndexContext& context,
                                                         const Catalog& catalog,
                                                         const std::function<bool()>& stopped);

// The share of its attention to the text that a query head gave to the right fact, as a mean over
// the questions.
struct HeadShare {
  RetrievalHead head;
  double share = 0;
};
// The heads that retrieve: the best one if its share is at least kLeastBest, and those with at
// least half of its share, kMostRetrievalHeads in all at most, the first of equals. None where the
// best has less. By layer, then head, then all rows before the last one.
RetrievalHeads ChooseRetrievalHeads(std::vector<HeadShare> shares);
// By hand. A head that looks at all facts alike has a share of 1/48. The best of SmolLM2-135M has
// 0.49, with the adapter of tools/reader 0.71; Gemma 3 270M has four heads above the limits, the
// bundled reader, which knows invented English only, none. With 8, 16 or 32 heads, or those above
// half of the best, the right passages of 136 facts were found alike.
inline constexpr double kLeastBest = 0.2;
inline constexpr size_t kMostRetrievalHeads = 16;

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_FIND_RETRIEVAL_HEADS_H_
