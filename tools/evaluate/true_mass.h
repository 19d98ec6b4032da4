// Finds the mass that every row of the document would get from exact attention, in one step of one
// layer.
#ifndef LECTERN_TOOLS_EVALUATE_TRUE_MASS_H_
#define LECTERN_TOOLS_EVALUATE_TRUE_MASS_H_

#include <span>
#include <vector>

#include "index/lookup.h"

namespace lectern::evaluate {

// Exact attention probability of each stored row of each kv head, mean over the step's query rows.
class TrueMass {
 public:
  // `lse`: per kv head [R], log-sum-exp over everything that exact attention sees.
  static Result<TrueMass> Of(const LookupArgs& args, std::span<const std::span<float>> lse);

  // Share of the mass on all rows of `heads` that lies on the rows of `kept` that `selections`
  // read; no selections: all rows. `kept`: the same heads, or those of a document that keeps some
  // of them.
  double Recalled(std::span<const HeadIndex> heads, std::span<const HeadIndex> kept,
                  std::span<const HeadSelection> selections) const;

  // The oracle: reads sinks, window and the rows of most mass, all kv heads of the layer together,
  // as many as fit into the budget, and nothing else; finding them costs nothing.
  std::vector<HeadSelection> BestRows(const LookupArgs& args) const;

 private:
  std::vector<std::vector<float>> mass_;  // [kv heads][rows as stored]
};

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_TRUE_MASS_H_
