// Products with weights in two planes (PackedType::kQ8Planes): upper bounds from the high plane,
// and the exact ones. Whoever wants the largest elements of a wide product reads half of the
// weights for the bounds and then the few panels that can hold them (engine/forward/output_head.h).
#ifndef LECTERN_KERNELS_PACKED_PLANES_H_
#define LECTERN_KERNELS_PACKED_PLANES_H_

#include <span>
#include <vector>

#include "kernels/packed_matmul.h"

namespace lectern {

inline constexpr size_t kPlaneEight = 8;  // k that lie together in a plane

// Input rows, and what bounds need to know of them.
struct PlaneInput {
  // Borrows the rows, with their sums, and prepares them. Of the low plane `num_known` eights are
  // read, those in which the rows are largest: most of a hidden state's norm lies in few places. At
  // most num_cols / kPlaneEight (asserted). False: a row is not finite, or so large that sums might
  // overflow; then it is of no use. May throw bad_alloc.
  bool Set(const Int8Rows& rows, size_t num_known);

  Int8Rows rows;                // [M, K]
  std::vector<uint32_t> known;  // ascending: known eights, by k / kPlaneEight
  // [M, K / kPackedGroup], what a group of weights of scale 1 adds to the guess and to its error:
  // middles; reaches, for each unit of its open norm (kOpenUnit); and what may be rounded off.
  std::vector<float> middles, reaches, roundings;
};

struct PlaneBoundsArgs {
  const PlaneInput& input;  // [M, K]
  PackedRows weight;        // [N, K], kQ8Planes
  Rows<float> likely;       // out [M, panels]: the largest guess of a panel's products
  Rows<float> most;         // out [M, panels]: no product of the panel is larger
  size_t panel_begin = 0;   // computes panels [panel_begin, panel_end) only: the unit of parallel
  size_t panel_end = 0;     //   work
};
// With the low nibbles that are not known taken as 7.5, the middle of their range, a product is
// guessed as a sum over the groups, w the weights' scale and s the input's, x the input's steps:
//
//   guess[n] = sum w * (s * (16 * sum(high * x) + sum(known low * x)) + middle)
//   middle   = s * (7.5 * sum(x that is not known) - 128 * sum(x))
//
// where `high` is as stored, the step's high nibble + 8. The product differs by the sum of w * s *
// (low - 7.5) * x over what is not known. By Cauchy and Schwarz a group gives at most w times the
// norm of its (low - 7.5), which the weights' bytes bound, times the norm of its unknown s * x. So
//
//   guess[n] + sum |w| * (open * reach + rounding) + 2^-100
//
// is at least the element that packed_matmul gives, in any backend: `rounding` is what the
// roundings of both sides may add (PlaneInput::Set), and 2^-100 what they may add below the normal
// floats.
// Preconditions (asserted): matching shapes. Cannot fail. Does not allocate, block or log. Reads
// the high plane, and the known part of the low one, once for each 8 rows.
void PlaneBoundsScalar(const PlaneBoundsArgs& args);  // the definition
// As surely a bound; `likely` and `most` are within 1e-4 of the input's norm times the weights' of
// it.
void PlaneBoundsSimd(const PlaneBoundsArgs& args);

// PackedMatMulSimd for weights in planes, which calls it: with the bits of kQ8.
void PlanesMatMulSimd(const PackedMatMulArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_PACKED_PLANES_H_
