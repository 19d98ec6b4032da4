// Bounds logits before softmax, as Gemma 2 does: s <- cap * tanh(s / cap), in place.
#ifndef LECTERN_KERNELS_SOFTCAP_H_
#define LECTERN_KERNELS_SOFTCAP_H_

#include <cmath>

#include "kernels/types.h"

namespace lectern {

// The bounded value of one logit, within [-cap, cap]; a cap of 0 (or below) leaves it as it is.
// Ascending in s and never steeper than 1, so an upper bound on the error of s is one on the error
// of the result.
inline double Softcapped(double s, double cap) { return cap > 0 ? cap * std::tanh(s / cap) : s; }

struct SoftcapArgs {
  Rows<float> logits;  // in/out [R, n]; its stride may exceed n; infinities become ±cap
  float cap;           // > 0 (asserted)
};
void SoftcapScalar(const SoftcapArgs& args);  // the definition, in double
void SoftcapSimd(const SoftcapArgs& args);    // within 1e-6 * cap of it; NaN: undefined

}  // namespace lectern

#endif  // LECTERN_KERNELS_SOFTCAP_H_
