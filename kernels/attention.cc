// Empties, joins and finishes attention states; every backend shares this code.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lectern {

void ResetState(const AttentionState& state) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  std::fill(state.max.begin(), state.max.end(), kNothing);
  std::fill(state.sum.begin(), state.sum.end(), 0.0f);
  for (size_t r = 0; r < state.num_rows(); ++r) {
    std::fill_n(state.out[r], state.out.num_cols, 0.0f);
  }
}

void MergeStates(const AttentionState& into, const AttentionState& from) {
  assert(into.num_rows() == from.num_rows() && into.out.num_cols == from.out.num_cols);
  for (size_t r = 0; r < into.num_rows(); ++r) {
    if (from.sum[r] == 0) continue;  // also avoids exp(-inf + inf), which is NaN
    // Both sides are rescaled to the larger maximum, so that their sums can be added.
    const float max = std::max(into.max[r], from.max[r]);
    const float into_weight = std::exp(into.max[r] - max),
                from_weight = std::exp(from.max[r] - max);
    into.max[r] = max;
    into.sum[r] = into_weight * into.sum[r] + from_weight * from.sum[r];
    float* out = into.out[r];
    const float* other = from.out[r];
    for (size_t c = 0; c < into.out.num_cols; ++c) {
      out[c] = into_weight * out[c] + from_weight * other[c];
    }
  }
}

void FinishState(const AttentionState& state, Rows<float> output, std::span<float> lse) {
  assert(output.num_rows == state.num_rows() && output.num_cols == state.out.num_cols);
  assert(lse.empty() || lse.size() == state.num_rows());
  for (size_t r = 0; r < state.num_rows(); ++r) {
    const float factor = state.sum[r] > 0 ? 1 / state.sum[r] : 0;
    for (size_t c = 0; c < output.num_cols; ++c) output[r][c] = state.out[r][c] * factor;
    if (!lse.empty()) lse[r] = state.max[r] + std::log(state.sum[r]);  // log(0) is -inf
  }
}

}  // namespace lectern
