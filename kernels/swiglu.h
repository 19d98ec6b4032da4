// output[r, c] = silu(gate[r, c]) * up[r, c],  silu(x) = x / (1 + exp(-x))
#ifndef LECTERN_KERNELS_SWIGLU_H_
#define LECTERN_KERNELS_SWIGLU_H_

#include "kernels/types.h"

namespace lectern {

struct SwigluArgs {
  Rows<const float> gate;  // [M, C]
  Rows<const float> up;    // [M, C]
  Rows<float> output;      // [M, C]; may be gate or up
};
void SwigluScalar(const SwigluArgs& args);  // the definition
void SwigluSimd(const SwigluArgs& args);    // within 1e-5 relative of it

}  // namespace lectern

#endif  // LECTERN_KERNELS_SWIGLU_H_
