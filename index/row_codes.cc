#include "index/row_codes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace lectern {
namespace {

// Sign bits of round `round`, 64 dimensions at a time (splitmix64).
uint64_t SignWord(uint64_t round, uint64_t word) {
  uint64_t z = (round * 1024 + word + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void SignsAndHadamard(std::span<float> x, uint64_t round) {
  const size_t n = x.size();
  for (size_t c = 0; c < n; ++c) {
    if (SignWord(round, c / 64) >> (c % 64) & 1) x[c] = -x[c];
  }
  for (size_t half = 1; half < n; half *= 2) {
    for (size_t begin = 0; begin < n; begin += 2 * half) {
      for (size_t c = begin; c < begin + half; ++c) {
        const float a = x[c], b = x[c + half];
        x[c] = a + b;
        x[c + half] = a - b;
      }
    }
  }
  const float scale = 1 / std::sqrt(static_cast<float>(n));
  for (float& value : x) value *= scale;
}

// Eight signs of each byte as ±1.
constexpr std::array<std::array<float, 8>, 256> MakeSigns() {
  std::array<std::array<float, 8>, 256> table{};
  for (size_t byte = 0; byte < 256; ++byte) {
    for (size_t bit = 0; bit < 8; ++bit) table[byte][bit] = byte >> bit & 1 ? 1.0f : -1.0f;
  }
  return table;
}
constexpr std::array<std::array<float, 8>, 256> kSigns = MakeSigns();

}  // namespace

void Rotate(std::span<float> vector) {
  const size_t p = std::bit_floor(vector.size());
  SignsAndHadamard(vector.first(p), 0);
  SignsAndHadamard(vector.last(p), 1);
}

void EncodeRow(std::span<const float> key, std::span<const float> centroid, std::byte* code) {
  const size_t d = key.size();
  std::vector<float> residual(d);
  for (size_t c = 0; c < d; ++c) residual[c] = key[c] - centroid[c];
  Rotate(residual);
  double squares = 0, absolute = 0;
  std::memset(code, 0, RowCodeBytes(d));
  for (size_t c = 0; c < d; ++c) {
    squares += double{residual[c]} * residual[c];
    absolute += std::abs(double{residual[c]});
    if (residual[c] >= 0) code[c / 8] |= std::byte{1} << (c % 8);
  }
  // <r, s> = sum|r| / sqrt(d).
  const double factor =
      absolute > 0 ? squares / (absolute / std::sqrt(static_cast<double>(d))) : 0.0;
  const f16 stored = ToF16(static_cast<float>(std::min(factor, 65504.0)));
  std::memcpy(code + (d + 7) / 8, &stored, sizeof stored);
}

void DecodeRows(const std::byte* codes, Rows<float> out) {
  const size_t d = out.num_cols, bytes = RowCodeBytes(d), whole = d / 8;
  const float scale = 1 / std::sqrt(static_cast<float>(d));
  for (size_t t = 0; t < out.num_rows; ++t) {
    const std::byte* code = codes + t * bytes;
    f16 stored;
    std::memcpy(&stored, code + (d + 7) / 8, sizeof stored);
    const float factor = ToFloat(stored) * scale;
    float* row = out[t];
    for (size_t b = 0; b < whole; ++b) {
      const std::array<float, 8>& signs = kSigns[static_cast<uint8_t>(code[b])];
      for (size_t i = 0; i < 8; ++i) row[8 * b + i] = factor * signs[i];
    }
    for (size_t c = 8 * whole; c < d; ++c) {
      row[c] = factor * kSigns[static_cast<uint8_t>(code[c / 8])][c % 8];
    }
  }
}

}  // namespace lectern
