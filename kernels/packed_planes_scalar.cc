#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/packed_planes.h"

namespace lectern {

void PlaneBoundsScalar(const PlaneBoundsArgs& args) {
  const auto& [input, weight, norms, likely, most, panel_begin, panel_end] = args;
  assert(input.num_cols == weight.num_cols && weight.has_planes() && norms.size() == input.num_rows);
  assert(panel_begin <= panel_end && panel_end <= weight.num_panels());
  const size_t num_groups = input.num_cols / kPackedGroup;
  for (size_t row = 0; row < input.num_rows; ++row) {
    const int8_t* const steps = input.steps + row * input.num_cols;
    for (size_t panel = panel_begin; panel < panel_end; ++panel) {
      const size_t begin = panel * kPackedColumns;
      const size_t end = std::min(begin + kPackedColumns, weight.num_rows);
      likely[row][panel] = most[row][panel] = -std::numeric_limits<float>::infinity();
      for (size_t n = begin; n < end; ++n) {
        double guess = 0;
        for (size_t g = 0; g < num_groups; ++g) {
          int products = 0;
          for (size_t k = g * kPackedGroup; k < (g + 1) * kPackedGroup; ++k) {
            products += steps[k] * ((PackedStep(weight, n, k) >> 4) + 8);
          }
          const size_t at = row * num_groups + g;
          guess += PackedScale(weight, n, g * kPackedGroup) *
                   (16.0 * input.scales[at] * products - 120.5 * input.sums[at]);
        }
        const double bound = guess + double{PackedReach(weight, n)} * norms[row] + 0x1p-100;
        likely[row][panel] = std::max(likely[row][panel], static_cast<float>(guess));
        most[row][panel] = std::max(most[row][panel], static_cast<float>(bound));
      }
    }
  }
}

// In double, where each square is exact and the sums are rounded by far less than what is added.
float BoundedNorm(const Int8Rows& input, size_t row) {
  const size_t num_groups = input.num_cols / kPackedGroup;
  const int8_t* steps = input.steps + row * input.num_cols;
  double total = 0;
  for (size_t g = 0; g < num_groups; ++g, steps += kPackedGroup) {
    int squares = 0;
    for (size_t i = 0; i < kPackedGroup; ++i) squares += steps[i] * steps[i];
    const double scale = input.scales[row * num_groups + g];
    total += scale * scale * squares;
  }
  return static_cast<float>(std::sqrt(total) * (1 + 0x1p-20));
}

}  // namespace lectern
