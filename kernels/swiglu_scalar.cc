#include <cmath>

#include "kernels/swiglu.h"

namespace lectern {

void SwigluScalar(const SwigluArgs& args) {
  const auto& [gate, up, output] = args;
  assert(gate.num_rows == up.num_rows && gate.num_rows == output.num_rows);
  assert(gate.num_cols == up.num_cols && gate.num_cols == output.num_cols);
  for (size_t r = 0; r < gate.num_rows; ++r) {
    for (size_t c = 0; c < gate.num_cols; ++c) {
      const double x = gate[r][c];
      output[r][c] = static_cast<float>(x / (1 + std::exp(-x)) * up[r][c]);
    }
  }
}

}  // namespace lectern
