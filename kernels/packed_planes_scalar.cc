#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/packed_planes.h"

namespace lectern {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
// Above this norm a sum might overflow: |scale of weights| <= 65504, and there are at most 2^20 k.
constexpr double kLargestNorm = 1e20;

// The sum of scale^2 * step^2 over `count` steps.
double SquaredNorm(const int8_t* steps, size_t count, float scale) {
  int squares = 0;
  for (size_t i = 0; i < count; ++i) squares += steps[i] * steps[i];
  return double{scale} * scale * squares;
}

int SumOf(const int8_t* steps, size_t count) { return std::accumulate(steps, steps + count, 0); }

}  // namespace

// Roundings. With u = 2^-24 and N roundings on the way of each term, sums of floats are off by at
// most gamma = N * u / (1 - N * u) times the sum of the terms' magnitudes. In a group of scale w,
// whose input has the norm x, the terms are, in multiples of w * sqrt(32) * x: 240 of high nibbles,
// 15 of known ones, 135.5 of the middle, 128 of the exact product, 519 together. A term goes
// through a multiply-add, which may be two roundings, for each group and each known eight, of which
// there are at most four a group, and some more. What bounds add up is positive, so rounding takes
// at most 2 * groups * u of it away, for which it is made larger.
bool PlaneInput::Set(const Int8Rows& given, size_t num_known) {
  rows = given;
  const size_t num_groups = rows.num_cols / kPackedGroup;
  const size_t num_eights = rows.num_cols / kPlaneEight;
  constexpr size_t kEights = kPackedGroup / kPlaneEight;
  assert(num_known <= num_eights);
  const auto steps_of = [&](size_t row) { return rows.steps + row * rows.num_cols; };
  std::vector<double> squares(num_eights);
  for (size_t row = 0; row < rows.num_rows; ++row) {
    double total = 0;
    for (size_t e = 0; e < num_eights; ++e) {
      const float scale = rows.scales[row * num_groups + e / kEights];
      const double part = SquaredNorm(steps_of(row) + e * kPlaneEight, kPlaneEight, scale);
      squares[e] += part;
      total += part;
    }
    if (!(total <= kLargestNorm * kLargestNorm)) return false;  // NaN, too
  }
  known.resize(num_eights);
  std::iota(known.begin(), known.end(), 0u);
  std::partial_sort(known.begin(), known.begin() + static_cast<ptrdiff_t>(num_known), known.end(),
                    [&](uint32_t a, uint32_t b) { return squares[a] > squares[b]; });
  known.resize(num_known);
  std::sort(known.begin(), known.end());

  const size_t count = rows.num_rows * num_groups;
  middles.resize(count), reaches.resize(count), roundings.resize(count);
  const double unit = 0x1p-24, num_roundings = static_cast<double>(12 * num_groups + 16);
  const double gamma = num_roundings * unit / (1 - num_roundings * unit);
  const double larger = 1 + static_cast<double>(4 * num_groups + 16) * unit;
  for (size_t row = 0; row < rows.num_rows; ++row) {
    auto next = known.begin();
    for (size_t g = 0; g < num_groups; ++g) {
      const size_t at = row * num_groups + g;
      const float scale = rows.scales[at];
      const int8_t* const steps = steps_of(row) + g * kPackedGroup;
      const int all = SumOf(steps, kPackedGroup);
      int open = all;
      double open_squares = 0;
      for (size_t e = 0; e < kEights; ++e) {
        const int8_t* const eight = steps + e * kPlaneEight;
        if (next != known.end() && *next == g * kEights + e) {
          open -= SumOf(eight, kPlaneEight);
          ++next;
        } else {
          open_squares += SquaredNorm(eight, kPlaneEight, scale);
        }
      }
      middles[at] = static_cast<float>(scale * (7.5 * open - 128.0 * all));
      reaches[at] = static_cast<float>(std::sqrt(open_squares) * kOpenUnit * larger);
      const double norm = std::sqrt(SquaredNorm(steps, kPackedGroup, scale));
      roundings[at] = static_cast<float>(gamma * 519 * std::sqrt(32.0) * norm * larger);
    }
  }
  return true;
}

void PlaneBoundsScalar(const PlaneBoundsArgs& args) {
  const PlaneInput& input = args.input;
  const PackedRows& weight = args.weight;
  const Int8Rows& rows = input.rows;
  assert(rows.num_cols == weight.num_cols && weight.has_planes());
  assert(args.panel_begin <= args.panel_end && args.panel_end <= weight.num_panels());
  const size_t num_groups = rows.num_cols / kPackedGroup;
  for (size_t row = 0; row < rows.num_rows; ++row) {
    const int8_t* const steps = rows.steps + row * rows.num_cols;
    for (size_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      const std::byte* const open = weight.data + panel * weight.panel_bytes();
      const size_t begin = panel * kPackedColumns;
      const size_t end = std::min(begin + kPackedColumns, weight.num_rows);
      float likely = kLowest, most = kLowest;
      for (size_t n = begin; n < end; ++n) {
        double guess = 0, error = 0x1p-100;
        for (size_t g = 0; g < num_groups; ++g) {
          int products = 0;
          for (size_t k = g * kPackedGroup; k < (g + 1) * kPackedGroup; ++k) {
            const int step = PackedStep(weight, n, k);
            const bool is_known = std::ranges::binary_search(input.known, k / kPlaneEight);
            products += steps[k] * (16 * ((step >> 4) + 8) + (is_known ? step & 15 : 0));
          }
          const size_t at = row * num_groups + g;
          const double scale = PackedScale(weight, n, g * kPackedGroup);
          guess += scale * (double{rows.scales[at]} * products + input.middles[at]);
          error += std::abs(scale) * (std::to_integer<int>(open[g]) * double{input.reaches[at]} +
                                      input.roundings[at]);
        }
        likely = std::max(likely, static_cast<float>(guess));
        most = std::max(most, static_cast<float>(guess + error));
      }
      args.likely[row][panel] = likely;
      args.most[row][panel] = most;
    }
  }
}

}  // namespace lectern
