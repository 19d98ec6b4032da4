#include <cmath>

#include "kernels/rms_norm.h"

namespace lectern {

void RmsNormScalar(const RmsNormArgs& args) {
  const size_t num_cols = args.input.num_cols;
  assert(args.weight.size() == num_cols && args.output.num_cols == num_cols);
  assert(args.output.num_rows == args.input.num_rows);
  for (size_t r = 0; r < args.input.num_rows; ++r) {
    const float* in = args.input[r];
    double squares = 0;
    for (size_t c = 0; c < num_cols; ++c) squares += static_cast<double>(in[c]) * in[c];
    const double mean = squares / static_cast<double>(num_cols);
    const double factor = 1 / std::sqrt(mean + static_cast<double>(args.epsilon));
    for (size_t c = 0; c < num_cols; ++c) {
      args.output[r][c] = static_cast<float>(args.weight[c] * (in[c] * factor));
    }
  }
}

}  // namespace lectern
