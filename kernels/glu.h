// Gated linear units of feed-forward layers (Shazeer 2020, arXiv:2002.05202): output[r, c] =
// a(gate[r, c]) * up[r, c], with
//   SwiGLU  a(x) = x / (1 + exp(-x))
//   GeGLU   a(x) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
//   clamped a(x) = x' / (1 + exp(-alpha x')), x' = min(x, limit), and in place of up[r, c] stands
//           1 + max(-limit, min(up[r, c], limit)): gpt-oss (GptOssExperts of transformers)
// The second is GELU's tanh approximation (Hendrycks and Gimpel, arXiv:1606.08415), which has the
// constant 0.044715; x / 2 (1 + tanh u) is rewritten as a sigmoid, so that both need one exp.
#ifndef LECTERN_KERNELS_GLU_H_
#define LECTERN_KERNELS_GLU_H_

#include "kernels/activation.h"
#include "kernels/types.h"

namespace lectern {

struct GluArgs {
  Rows<const float> gate;  // [M, C]; all shapes are asserted to be the same
  Rows<const float> up;    // [M, C]
  Rows<float> output;      // [M, C]; may be gate or up
  Activation activation = Activation::kSilu;
  float limit = 7, alpha = 1.702f;  // kClampedSilu; limit > 0
};
void GluScalar(const GluArgs& args);  // the definition
// Within 1e-5 relative of it, and 1e-37 * |gate * up|, which counts where the sigmoid is below
// exp(-87).
void GluSimd(const GluArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_GLU_H_
