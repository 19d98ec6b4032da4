// Learned sinks (gpt-oss): a logit of each query head that attention's softmax goes over beside
// those of the keys, and that adds nothing to the output. It is the state of attention to one key
// whose value is 0, and attention begins with it. So everything that is measured against all
// attention counts it: what lookups miss, bounds, evidence, squares.
#ifndef LECTERN_ENGINE_ATTENTION_SINKS_H_
#define LECTERN_ENGINE_ATTENTION_SINKS_H_

#include <span>
#include <vector>

#include "kernels/attention.h"

namespace lectern {

// Begins the state of query rows of one kv head: empty, or with the sinks of the head's query
// group. `sinks`: of all query heads of the layer, or empty; `first_row`: of the head's rows, which
// are those of `state` from there on.
inline void BeginState(const AttentionState& state, const std::vector<float>& sinks, size_t kv_head,
                       size_t group, size_t first_row) {
  ResetState(state);
  if (sinks.empty()) return;
  for (size_t r = 0; r < state.num_rows(); ++r) {
    state.max[r] = sinks[kv_head * group + (first_row + r) % group];
    state.sum[r] = 1;
  }
}

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_SINKS_H_
