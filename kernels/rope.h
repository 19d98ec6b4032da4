// Rotates heads by their position (rotary position embedding, rotate-half form), in place, over the
// first D dimensions of each head:
//   (x[i], x[i + D/2]) <- (x[i] cos - x[i + D/2] sin,  x[i + D/2] cos + x[i] sin),  i < D/2
// The dimensions behind D stay as they are.
// Each row of `heads` holds several heads side by side, all turned by the angles of that row.
#ifndef LECTERN_KERNELS_ROPE_H_
#define LECTERN_KERNELS_ROPE_H_

#include "kernels/types.h"

namespace lectern {

struct RopeArgs {
  Rows<float> heads;        // [M, num_heads * head_dim], turned in place
  size_t head_dim;          // even; all shapes are asserted
  // [M, D / 2], D <= head_dim: of the row's angles, times the model's attention factor (1 for
  // most).
  Rows<const float> cosine;
  Rows<const float> sine;  // [M, D / 2]; likewise
};
void RopeScalar(const RopeArgs& args);  // the definition
// Within 1e-6 * |(x[i], x[i + D/2])| of it, times the attention factor.
void RopeSimd(const RopeArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_ROPE_H_
