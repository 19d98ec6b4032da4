#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/element.h"
#include "kernels/packed_matmul.h"

namespace lectern {
namespace {

// Rounds one group as QuantiseRowsArgs says. A scale below the normal numbers would make 1 / scale
// overflow, so it becomes 0.
void QuantiseGroup(const float* x, int8_t* steps, float* scale, float* sum, HalfSums* half_sums) {
  float largest = 0;
  bool is_finite = true;
  for (size_t i = 0; i < kPackedGroup; ++i) {
    largest = std::max(largest, std::abs(x[i]));
    is_finite &= std::isfinite(x[i]);
  }
  *scale = largest / 127;
  if (*scale < std::numeric_limits<float>::min()) *scale = 0;
  if (!is_finite) *scale = std::numeric_limits<float>::quiet_NaN();
  int totals[2] = {};
  for (size_t i = 0; i < kPackedGroup; ++i) {
    const bool is_zero = !is_finite || *scale == 0;
    steps[i] = is_zero ? 0 : static_cast<int8_t>(std::nearbyint(x[i] * (1 / *scale)));
    totals[i / (kPackedGroup / 2)] += steps[i];
  }
  *sum = *scale * static_cast<float>(totals[0] + totals[1]);
  *half_sums = {static_cast<int16_t>(totals[0]), static_cast<int16_t>(totals[1])};
}

}  // namespace

void QuantiseRowsScalar(const QuantiseRowsArgs& args) {
  const auto& [input, steps, scales, sums, half_sums] = args;
  const size_t num_groups = input.num_cols / kPackedGroup;
  assert(input.num_cols % kPackedGroup == 0);
  assert(steps.size() >= input.num_rows * input.num_cols);
  assert(scales.size() >= input.num_rows * num_groups);
  assert(sums.size() >= input.num_rows * num_groups);
  assert(half_sums.size() >= input.num_rows * num_groups);
  for (size_t row = 0; row < input.num_rows; ++row) {
    for (size_t g = 0; g < num_groups; ++g) {
      QuantiseGroup(input[row] + g * kPackedGroup, &steps[row * input.num_cols + g * kPackedGroup],
                    &scales[row * num_groups + g], &sums[row * num_groups + g],
                    &half_sums[row * num_groups + g]);
    }
  }
}

void PackedMatMulScalar(const PackedMatMulArgs& args) {
  const auto& [input, weight, output, column_begin, column_end, accumulate] = args;
  assert(input.num_cols == weight.num_cols && input.num_rows == output.num_rows);
  assert(column_begin <= column_end && column_end <= weight.num_rows);
  assert(output.num_cols == weight.num_rows && column_begin % kPackedColumns == 0);
  const size_t num_groups = input.num_cols / kPackedGroup;
  const size_t part = kPackedGroup / PackedScales(weight.type);  // k that share a scale
  for (size_t row = 0; row < input.num_rows; ++row) {
    const int8_t* steps = input.steps + row * input.num_cols;
    for (size_t column = column_begin; column < column_end; ++column) {
      double sum = accumulate ? output[row][column] : 0.0;
      for (size_t begin = 0; begin < input.num_cols; begin += part) {
        const size_t group = row * num_groups + begin / kPackedGroup;
        int products = 0;
        for (size_t k = begin; k < begin + part; ++k) {
          products += steps[k] * PackedStep(weight, column, k);
        }
        sum += double{input.scales[group]} * PackedScale(weight, column, begin) * products;
        if (!PackedHasMin(weight.type)) continue;
        const double input_sum = part == kPackedGroup
                                     ? double{input.sums[group]}
                                     : double{input.scales[group]} *
                                           std::accumulate(steps + begin, steps + begin + part, 0);
        sum += input_sum * PackedMin(weight, column, begin);
      }
      output[row][column] = static_cast<float>(sum);
    }
  }
}

}  // namespace lectern
