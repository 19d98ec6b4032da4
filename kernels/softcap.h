// Logits that a model bounds before softmax (Gemma 2): s <- cap * tanh(s / cap), in place.
#ifndef LECTERN_KERNELS_SOFTCAP_H_
#define LECTERN_KERNELS_SOFTCAP_H_

#include <cmath>

#include "kernels/types.h"

namespace lectern {

// Of one logit; as it is where cap is 0. Ascending in s, never steeper than 1.
inline double Softcapped(double s, double cap) { return cap > 0 ? cap * std::tanh(s / cap) : s; }

struct SoftcapArgs {
  Rows<float> logits;  // in/out [R, n]; its stride may exceed n; infinities become ±cap
  float cap;           // > 0
};
void SoftcapScalar(const SoftcapArgs& args);  // the definition, in double
void SoftcapSimd(const SoftcapArgs& args);    // within 1e-6 * cap of it

}  // namespace lectern

#endif  // LECTERN_KERNELS_SOFTCAP_H_
