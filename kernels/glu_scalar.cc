#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/glu.h"

namespace lectern {

void GluScalar(const GluArgs& args) {
  const auto& [gate, up, output, activation, limit, alpha] = args;
  assert(gate.num_rows == up.num_rows && gate.num_rows == output.num_rows);
  assert(gate.num_cols == up.num_cols && gate.num_cols == output.num_cols);
  const double slope = 2 * std::sqrt(2 / std::numbers::pi);
  for (size_t r = 0; r < gate.num_rows; ++r) {
    for (size_t c = 0; c < gate.num_cols; ++c) {
      if (activation == Activation::kClampedSilu) {
        const double g = std::min(gate[r][c], limit);
        const double u = std::max(-limit, std::min(up[r][c], limit));
        output[r][c] = static_cast<float>(g / (1 + std::exp(-double{alpha} * g)) * (1 + u));
        continue;
      }
      const double x = gate[r][c];
      const double t = activation == Activation::kSilu ? x : slope * (x + 0.044715 * x * x * x);
      output[r][c] = static_cast<float>(x / (1 + std::exp(-t)) * up[r][c]);
    }
  }
}

}  // namespace lectern
