// Products with weights in two planes (PackedType::kQ8Planes): upper bounds from the high plane
// alone, and the exact ones. Whoever wants the largest elements of a wide product reads half of the
// weights for the bounds and then the few panels that can hold them (engine/forward/output_head.h).
#ifndef LECTERN_KERNELS_PACKED_PLANES_H_
#define LECTERN_KERNELS_PACKED_PLANES_H_

#include <span>

#include "kernels/packed_matmul.h"

namespace lectern {

struct PlaneBoundsArgs {
  Int8Rows input;     // [M, K], with sums; finite
  PackedRows weight;  // [N, K], kQ8Planes
  // [M]: at least the norm of each input row, of scale * step; at most kLargestBoundedNorm.
  std::span<const float> norms;
  Rows<float> likely;  // out [M, panels]: the largest guess of a panel's products
  Rows<float> most;    // out [M, panels]: no product of the panel is larger
  size_t panel_begin = 0;  // computes panels [panel_begin, panel_end) only: the unit of parallel
  size_t panel_end = 0;    //   work
};
// Above this norm a sum might overflow: |scale of weights| <= 65504, K <= 2^20.
inline constexpr float kLargestBoundedNorm = 1e20f;
// With the low nibble taken as 7.5, the middle of its range, a row's product is guessed as
//
//   guess[n] = sum over groups of weight scale * (16 * input scale * sum(x * high) - 120.5 * sum),
//
// x the input's steps, high as stored (the step's high nibble + 8), `sum` the input's. The product
// differs by a sum over weight scale * input scale * (low - 7.5) * x, by Cauchy and Schwarz at most
// the norm of weight scale * (low - 7.5) over the row, times the input's norm. So
//
//   guess[n] + reach[n] * norm + 2^-100 >= the element that packed_matmul gives, in any backend,
//
// where reach[n], stored with the weights (SplitPanel), is that norm and what the roundings of both
// sides may add; 2^-100 stands for what they may add below the normal floats.
// Preconditions (asserted): matching shapes. Cannot fail. Does not allocate, block or log. Reads
// the high plane once for each 8 rows.
void PlaneBoundsScalar(const PlaneBoundsArgs& args);  // the definition
// Bounds as surely; `likely` and `most` are within 1e-3 * norm * reach of it.
void PlaneBoundsSimd(const PlaneBoundsArgs& args);

// At least the norm of an input row of packed products; NaN where the row is not finite.
float BoundedNorm(const Int8Rows& input, size_t row);

// PackedMatMulSimd for weights in planes, which calls it: with the bits of kQ8.
void PlanesMatMulSimd(const PackedMatMulArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_PACKED_PLANES_H_
