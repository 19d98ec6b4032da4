#include <cmath>

#include "kernels/hadamard.h"

namespace lectern {

void SignedHadamardScalar(const SignedHadamardArgs& args) {
  const std::span<float> x = args.x;
  const size_t n = x.size();
  for (size_t c = 0; c < n; ++c) {
    if (args.signs[c / 64] >> (c % 64) & 1) x[c] = -x[c];
  }
  for (size_t half = 1; half < n; half *= 2) {
    for (size_t begin = 0; begin < n; begin += 2 * half) {
      for (size_t c = begin; c < begin + half; ++c) {
        const float a = x[c], b = x[c + half];
        x[c] = a + b;
        x[c + half] = a - b;
      }
    }
  }
  const float scale = 1 / std::sqrt(static_cast<float>(n));
  for (float& value : x) value *= scale;
}

}  // namespace lectern
