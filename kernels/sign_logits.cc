#include "kernels/sign_logits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace lectern {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kGroup = 4;           // dimensions of a table
constexpr size_t kLargestEntry = 127;  // the sum of two fits into a byte
constexpr size_t kLargestSum = 65535;  // of all groups, seven times: 4 s + p + 2 p'

// Largest table entry for which no sum overflows.
float LargestEntry(size_t plane_bytes) {
  return static_cast<float>(std::min(kLargestEntry, kLargestSum / (7 * 2 * plane_bytes)));
}

// to[c * kSignBlock + r] = from[r * stride + c], r, c < 8 (Warren, Hacker's Delight, 7-3).
void TransposeBytes(const std::byte* from, size_t stride, std::byte* to) {
  std::array<uint64_t, 8> x;
  for (size_t r = 0; r < 8; ++r) std::memcpy(&x[r], from + r * stride, 8);
  const auto swap = [&](size_t distance, int bits, uint64_t mask) {
    for (size_t r = 0; r < 8; ++r) {
      if (r & distance) continue;
      const uint64_t difference = ((x[r] >> bits) ^ x[r + distance]) & mask;
      x[r + distance] ^= difference;
      x[r] ^= difference << bits;
    }
  };
  swap(4, 32, 0x00000000FFFFFFFF);
  swap(2, 16, 0x0000FFFF0000FFFF);
  swap(1, 8, 0x00FF00FF00FF00FF);
  for (size_t c = 0; c < 8; ++c) std::memcpy(to + c * kSignBlock, &x[c], 8);
}

}  // namespace

void MakeSignTables(Rows<const float> queries, std::span<uint8_t> tables,
                    std::span<SignScale> scales) {
  const size_t dim = queries.num_cols, num_groups = 2 * PlaneBytes(dim);
  assert(tables.size() == queries.num_rows * SignTableBytes(dim));
  assert(scales.size() == queries.num_rows);
  for (size_t r = 0; r < queries.num_rows; ++r) {
    const auto at = [&](size_t c) { return c < dim ? queries[r][c] : 0.0f; };
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
      for (size_t bits = 0; bits < 16; ++bits) {
        float above_least = 0;  // the least sum has every sign against its query
        for (size_t i = 0; i < kGroup; ++i) {
          const float q = at(g * kGroup + i);
          if ((bits >> i & 1) == (q > 0)) above_least += 2 * std::abs(q);
        }
        table[bits] = static_cast<uint8_t>(std::lround(above_least / step));
      }
    }
  }
}

void PackSigns(const PackSignsArgs& args) {
  for (size_t row = 0; row < args.num_rows; row += 8) {
    std::byte* to =
        args.packed + row / kSignBlock * kSignBlock * args.plane_bytes + row % kSignBlock;
    const std::byte* plane = args.planes + row * args.stride;
    const size_t count = std::min<size_t>(8, args.num_rows - row);
    size_t b = 0;
    for (; count == 8 && b + 8 <= args.plane_bytes; b += 8) {
      TransposeBytes(plane + b, args.stride, to + b * kSignBlock);
    }
    for (; b < args.plane_bytes; ++b) {
      for (size_t k = 0; k < count; ++k) to[b * kSignBlock + k] = plane[k * args.stride + b];
    }
  }
}

}  // namespace lectern
