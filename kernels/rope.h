// Rotates heads by their position (rotary position embedding, rotate-half form), in place, over the
// first D dimensions of each head:
//   (x[i], x[i + D/2]) <- (x[i] cos - x[i + D/2] sin,  x[i + D/2] cos + x[i] sin),  i < D/2
// Each row of `heads` holds several heads side by side, all turned by the angles of that row.
#ifndef LECTERN_KERNELS_ROPE_H_
#define LECTERN_KERNELS_ROPE_H_

#include "kernels/types.h"

namespace lectern {

struct RopeArgs {
  Rows<float> heads;        // [M, num_heads * head_dim], turned in place
  size_t head_dim;          // even; all shapes are asserted
  Rows<const float> cosine;  // [M, D / 2], D <= head_dim; scaled by the attention factor
  Rows<const float> sine;   // [M, D / 2]
};
void RopeScalar(const RopeArgs& args);  // the definition
void RopeSimd(const RopeArgs& args);    // within 1e-6 * |x| of it

}  // namespace lectern

#endif  // LECTERN_KERNELS_ROPE_H_
