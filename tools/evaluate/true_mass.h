// Finds how much attention every row of the document gets from exact attention in one step of one
// layer, for lectern-evaluate: the truth that lookups are measured against, and the oracle reads
// by.
#ifndef LECTERN_TOOLS_EVALUATE_TRUE_MASS_H_
#define LECTERN_TOOLS_EVALUATE_TRUE_MASS_H_

#include <span>
#include <vector>

#include "index/lookup.h"

namespace lectern::evaluate {

// The attention probability of each stored row of each kv head, in the mean over the step's query
// rows. Const members: any thread.
class TrueMass {
 public:
  // Reads and verifies every key of the layer, on args.threads. `lse`: [kv heads][R], the
  // log-sum-exp of the logits over everything that exact attention sees, document and conversation.
  // kChecksumMismatch.
  static Result<TrueMass> Of(const LookupArgs& args, std::span<const std::span<float>> lse);

  // The share, in [0, 1], of the mass on all rows of `heads` that lies on the rows that were read:
  // sinks, window and `selections`, which number rows of `kept`; no selections: all rows of `kept`.
  // `kept`: the same heads, or those of the document with fewer rows. 1 where there is no mass.
  double Recalled(std::span<const HeadIndex> heads, std::span<const HeadIndex> kept,
                  std::span<const HeadSelection> selections) const;

  // The oracle's selection: sinks, window and the rows of most mass, of all kv heads of the layer
  // together, as many as the bytes of args.kv_budget allow, and nothing else. Sinks and window are
  // counted even where they exceed it. Finding the rows costs nothing. [kv heads].
  std::vector<HeadSelection> BestRows(const LookupArgs& args) const;

 private:
  std::vector<std::vector<float>> mass_;  // [kv heads][rows as stored]
};

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_TRUE_MASS_H_
