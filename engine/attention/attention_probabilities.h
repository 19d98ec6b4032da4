// Turns the logits that a step observed into attention probabilities per position of the document,
// from which evidence is made.
#ifndef LECTERN_ENGINE_ATTENTION_ATTENTION_PROBABILITIES_H_
#define LECTERN_ENGINE_ATTENTION_ATTENTION_PROBABILITIES_H_

#include "engine/attention/document_attention.h"

namespace lectern {

// Sums of squared attention (over a query group) below this may be left out of `squared_mass`. By
// hand: a hundred thousand such rows add up to at most 0.001, which is no evidence.
constexpr float kNegligibleSquares = 1e-8f;

// For every row that was read, adds to mass[position] the attention probability that the observed
// queries of a kv head give it, and to squared_mass[position] the square of that probability. `lse`
// [ObservedLogits::num_queries, above 0] is each query's log-sum-exp over everything that it
// attends to. `read` and `observed` are of one step, whose layer is not windowed. An empty `mass`
// or `squared_mass` is not wanted; without `mass`, negligible squares are left out. Overwrites the
// observed logits.
void AddProbabilities(const Backend& backend, const HeadIndex& head, const DocumentRead& read,
                      uint32_t kv_head, ObservedLogits& observed, std::span<const float> lse,
                      std::span<double> mass, std::span<double> squared_mass);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_ATTENTION_PROBABILITIES_H_
