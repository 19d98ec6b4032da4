#include "kernels/rope.h"

namespace lectern {

void RopeScalar(const RopeArgs& args) {
  const size_t half = args.cosine.num_cols;
  assert(args.head_dim % 2 == 0 && args.heads.num_cols % args.head_dim == 0);
  assert(2 * half <= args.head_dim && args.sine.num_cols == half);
  for (size_t r = 0; r < args.heads.num_rows; ++r) {
    const float* cosine = args.cosine[r];
    const float* sine = args.sine[r];
    for (size_t head = 0; head < args.heads.num_cols; head += args.head_dim) {
      float* x = args.heads[r] + head;
      for (size_t i = 0; i < half; ++i) {
        const double low = x[i], high = x[i + half];
        x[i] = static_cast<float>(low * cosine[i] - high * sine[i]);
        x[i + half] = static_cast<float>(high * cosine[i] + low * sine[i]);
      }
    }
  }
}

}  // namespace lectern
