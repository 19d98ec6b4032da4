// What a step's last query rows attend to, by position: what evidence is made of.
#ifndef LECTERN_ENGINE_ATTENTION_ATTENTION_PROBABILITIES_H_
#define LECTERN_ENGINE_ATTENTION_ATTENTION_PROBABILITIES_H_

#include "engine/attention/document_attention.h"

namespace lectern {

// Of attention squared, summed over a query group: a hundred thousand rows of less are no evidence,
// and may be left out of `squared_mass`.
constexpr float kNegligibleSquares = 1e-8f;

// Adds to mass[position] the attention probability that the observed queries of a kv head give to
// every row that was read, given each query's total log-sum-exp over everything attended, and to
// squared_mass[position] its square. Either may be empty: not wanted. The logits are used up.
void AddProbabilities(const Backend& backend, const HeadIndex& head, const DocumentRead& read,
                      uint32_t kv_head, ObservedLogits& observed, std::span<const float> lse,
                      std::span<double> mass, std::span<double> squared_mass);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_ATTENTION_PROBABILITIES_H_
