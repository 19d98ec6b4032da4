#include "kernels/sign_logits.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

constexpr size_t kGroup = 4;           // dimensions that share a table
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
  const size_t dim = queries.num_cols, num_groups = 2 * PlaneBytes(dim);
  assert(tables.size() == queries.num_rows * SignTableBytes(dim));
  assert(scales.size() == queries.num_rows);
  for (size_t r = 0; r < queries.num_rows; ++r) {
    const auto at = [&](size_t c) { return c < dim ? queries[r][c] : 0.0f; };
    // Half of the range that a group's sums span is its sum of |q|. The widest group sets the step,
    // so that its largest sum gets the largest entry.
    float widest = 0, total = 0;  // of sum |q| over a group
    for (size_t g = 0; g < num_groups; ++g) {
      float width = 0;
      for (size_t i = 0; i < kGroup; ++i) width += std::abs(at(g * kGroup + i));
      widest = std::max(widest, width);
      total += width;
    }
    const float step = widest > 0 ? 2 * widest / LargestEntry(PlaneBytes(dim)) : 1.0f;
    scales[r] = {step, -total};
    uint8_t* table = tables.data() + r * SignTableBytes(dim);
    for (size_t g = 0; g < num_groups; ++g, table += 16) {
      float above_least[16] = {};  // the least sum has every sign against its query
      for (size_t i = 0; i < kGroup; ++i) above_least[0] += 2 * std::max(0.0f, -at(g * kGroup + i));
      for (size_t i = 0; i < kGroup; ++i) {
        const float change = 2 * at(g * kGroup + i);
        for (size_t bits = 0; bits < size_t{1} << i; ++bits) {
          above_least[bits + (size_t{1} << i)] = above_least[bits] + change;
        }
      }
      for (size_t bits = 0; bits < 16; ++bits) {
        table[bits] = static_cast<uint8_t>(std::max(0.0f, above_least[bits]) / step + 0.5f);
      }
    }
  }
}

}  // namespace lectern
