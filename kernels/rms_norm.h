// LLaMA's RMSNorm: output[r, c] = weight[c] * input[r, c] / sqrt(mean_c(input[r, c]^2) + epsilon).
#ifndef LECTERN_KERNELS_RMS_NORM_H_
#define LECTERN_KERNELS_RMS_NORM_H_

#include "kernels/types.h"

namespace lectern {

struct RmsNormArgs {
  Rows<const float> input;        // [M, C]; all shapes are asserted
  std::span<const float> weight;  // [C]
  float epsilon;
  Rows<float> output;             // [M, C]; may be the input itself
};
void RmsNormScalar(const RmsNormArgs& args);  // the definition; the mean is summed in double
// Within 1e-5 relative of it where the sum of squares fits a float (|input| up to some 1e17).
void RmsNormSimd(const RmsNormArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_RMS_NORM_H_
