#include "kernels/sign_logits.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

constexpr size_t kLargestEntry = 63;   // four entries add up to at most 252, which fits a byte
// Uint16 holds all groups' entries, times the weights 4 + 1 + 2.
constexpr size_t kLargestSum = 65535;

// The largest table entry for which no sum overflows: neither four entries in a byte, nor all
// groups' in uint16.
float LargestEntry(size_t plane_bytes) {
  return static_cast<float>(std::min(kLargestEntry, kLargestSum / (7 * 2 * plane_bytes)));
}

}  // namespace

void MakeSignTables(Rows<const float> queries, std::span<uint8_t> tables,
                    std::span<SignScale> scales) {
  const size_t dim = queries.num_cols;
  assert(tables.size() == queries.num_rows * SignTableBytes(dim));
  assert(scales.size() == queries.num_rows);
  for (size_t r = 0; r < queries.num_rows; ++r) {
    // Half of the range that a group's sums span is its sum of |q|. The widest group sets the step,
    // so that its largest sum gets the largest entry.
    float widest = 0, total = 0;  // of sum |q| over a group
    for (size_t begin = 0; begin < dim; begin += kSignGroup) {
      float width = 0;
      for (size_t c = begin; c < std::min(begin + kSignGroup, dim); ++c) {
        width += std::abs(queries[r][c]);
      }
      widest = std::max(widest, width);
      total += width;
    }
    const float step = widest > 0 ? 2 * widest / LargestEntry(PlaneBytes(dim)) : 1.0f;
    scales[r] = {step, -total};
  }
  FillSignTables({.queries = queries, .scales = scales, .tables = tables});
}

}  // namespace lectern
