// The attention heads of a model that look at the passage in which an answer stands ("retrieval
// heads", arXiv:2404.15574, found by questions as in arXiv:2506.09944). They are found once per
// model, from planted facts, and stored with its documents.
#ifndef LECTERN_ENGINE_DOCUMENT_RETRIEVAL_HEADS_H_
#define LECTERN_ENGINE_DOCUMENT_RETRIEVAL_HEADS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/model/formats/json.h"

namespace lectern {

// A query head, and the rows of a question from which it looks at the answer's passage.
struct RetrievalHead {
  uint32_t layer = 0, head = 0;
  // True: from the question's last row, where the answer begins. False: from all of its rows, of
  // which the mean counts.
  bool from_last_row = false;
  bool operator==(const RetrievalHead&) const = default;
};

// The retrieval heads of a model.
struct RetrievalHeads {
  std::vector<RetrievalHead> heads;  // by layer, then head; empty: the model has none
  bool operator==(const RetrievalHeads&) const = default;
};

// [[layer, head, 1 if from_last_row else 0], …], for the document's shard.
Json RetrievalHeadsJson(const RetrievalHeads& heads);
// Reads and checks JSON that RetrievalHeadsJson made. nullopt: it is damaged, which includes a
// layer of `num_layers` or more, one head twice from the same rows, and more than kMostParsedHeads.
// The caller checks the numbers of heads, which a document does not know.
std::optional<RetrievalHeads> ParseRetrievalHeads(const Json& json, uint32_t num_layers);
inline constexpr size_t kMostParsedHeads = 1024;

// How much one layer's heads count in AttentionSums::retrieved, 0 or 1 each: [query heads].
struct RetrievalWeights {
  std::vector<float> all_rows, last_row;
  bool is_empty() const { return all_rows.empty(); }  // no head of the layer counts
};
// [num_layers]; every head's number must be below num_heads, and its layer below num_layers.
std::vector<RetrievalWeights> WeightsByLayer(const RetrievalHeads& heads, uint32_t num_layers,
                                             uint32_t num_heads);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_RETRIEVAL_HEADS_H_
