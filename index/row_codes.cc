#include "index/row_codes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/hadamard.h"

namespace lectern {
namespace {

// 64 sign bits of a round, from the splitmix64 generator: cheap, the same everywhere, and part of
// the format.
uint64_t SignWord(uint64_t round, uint64_t word) {
  uint64_t z = (round * 1024 + word + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool IsNegated(uint64_t round, size_t c) { return SignWord(round, c / 64) >> (c % 64) & 1; }

// One round of the rotation: random signs, then an orthonormal Walsh-Hadamard transform. x.size()
// is a power of two.
void SignsAndHadamard(std::span<float> x, uint64_t round) {
  std::array<uint64_t, 64> words;  // of 4,096 dimensions, the most (store/shard_layout.h)
  const size_t num_words = (x.size() + 63) / 64;
  assert(num_words <= words.size());
  for (size_t word = 0; word < num_words; ++word) words[word] = SignWord(round, word);
  SignedHadamard({.x = x, .signs = {words.data(), num_words}});
}

void SetBit(std::byte* plane, size_t c) { plane[c / 8] |= std::byte{1} << (c % 8); }

constexpr uint32_t kLargestFactor = 0xF7;  // 61440; larger codes would be f16's infinity and NaN

// A factor (stored times sqrt(head_dim), >= 0) in 8 bits, at most kLargestFactor. Adding half of
// the last kept bit (0x40) rounds to nearest.
std::byte EncodeFactor(double factor) {
  const uint32_t bits = ToF16(static_cast<float>(std::min(factor, 61440.0))).bits;
  return static_cast<std::byte>(std::min((bits + 0x40) >> 7, kLargestFactor));
}

// All 256 factors, decoded once.
const std::array<float, 256>& Factors() {
  static const std::array<float, 256> factors = [] {
    std::array<float, 256> table;
    for (size_t i = 0; i < 256; ++i) table[i] = ToFloat(f16{static_cast<uint16_t>(i << 7)});
    return table;
  }();
  return factors;
}

float DecodeFactor(std::byte code) { return Factors()[std::to_integer<size_t>(code)]; }

// The magnitude m, 0 … 3, of one dimension of a residual, in cells of this width (> 0); values
// beyond the last cell get 3.
uint32_t Magnitude(float residual, float width) {
  return static_cast<uint32_t>(std::min(3.0f, std::floor(std::abs(residual) / width)));
}

// The cell width for which u points most nearly along the residual (largest cosine). Cells end at 4
// widths, and 3.5 is the centre of the last one; smaller shares clip the largest values for finer
// cells. 0 for a residual of 0.
float BestWidth(std::span<const float> residual) {
  float largest = 0;
  for (const float x : residual) largest = std::max(largest, std::abs(x));
  float best = 0;
  double best_cosine = 0;
  // Share of the width that puts the largest value at 3.5.
  for (const float share : {1.0f, 0.85f, 0.7f, 0.6f}) {
    const float width = largest * share / 3.5f;
    double dot = 0, squares = 0;
    for (const float x : residual) {
      const double u = Magnitude(x, width) + 0.5;
      dot += u * std::abs(double{x});
      squares += u * u;
    }
    const double cosine = dot / std::sqrt(squares);
    if (cosine > best_cosine) {
      best_cosine = cosine;
      best = width;
    }
  }
  return best;
}

}  // namespace

void Rotate(std::span<float> vector) {
  const size_t p = std::bit_floor(vector.size());
  SignsAndHadamard(vector.first(p), 0);
  SignsAndHadamard(vector.last(p), 1);
}

std::vector<uint32_t> RotationSigns(size_t head_dim) {
  const size_t num_words = (head_dim + 31) / 32;
  std::vector<uint32_t> words(2 * num_words);
  for (uint64_t round = 0; round < 2; ++round) {
    for (size_t c = 0; c < std::bit_floor(head_dim); ++c) {
      words[round * num_words + c / 32] |= uint32_t{IsNegated(round, c)} << (c % 32);
    }
  }
  return words;
}

void EncodeResidual(std::span<float> residual, std::byte* row_code, std::byte* fine_code) {
  const size_t d = residual.size();
  std::memset(row_code, 0, RowCodeBytes(d));
  std::memset(fine_code, 0, FineCodeBytes(d));
  Rotate(residual);
  const float width = BestWidth(residual);
  double squares = 0, along_signs = 0, along_fine = 0;
  for (size_t c = 0; c < d; ++c) {
    if (residual[c] >= 0) SetBit(row_code, c);
    const double size = std::abs(double{residual[c]});
    const uint32_t m = width > 0 ? Magnitude(residual[c], width) : 0;
    if (m & 1) SetBit(fine_code, c);
    if (m & 2) SetBit(fine_code + PlaneBytes(d), c);
    squares += size * size;
    along_signs += size / std::sqrt(static_cast<double>(d));
    along_fine += size * (m + 0.5);
  }
  if (!(squares > 0)) return;
  row_code[PlaneBytes(d)] = EncodeFactor(squares / along_signs);
  fine_code[2 * PlaneBytes(d)] = EncodeFactor(squares / along_fine);
}

void EncodeRow(std::span<const float> key, std::span<const float> centroid, std::byte* row_code,
               std::byte* fine_code) {
  std::vector<float> residual(key.size());
  for (size_t c = 0; c < key.size(); ++c) residual[c] = key[c] - centroid[c];
  EncodeResidual(residual, row_code, fine_code);
}

float RowFactor(const std::byte* row_code, size_t head_dim) {
  return DecodeFactor(row_code[PlaneBytes(head_dim)]) / std::sqrt(static_cast<float>(head_dim));
}

void RowFactors(const std::byte* row_codes, size_t head_dim, std::span<float> factors) {
  const float root = std::sqrt(static_cast<float>(head_dim));
  const std::array<float, 256>& decoded = Factors();
  const std::byte* code = row_codes + PlaneBytes(head_dim);
  for (float& factor : factors) {
    factor = decoded[std::to_integer<uint8_t>(*code)];
    code += RowCodeBytes(head_dim);
  }
  for (float& factor : factors) factor /= root;
}

// s (m + 1/2) is half of 4 s + s b + 2 s b', where b and b' are the bits of m as ±1.
float FineFactor(const std::byte* fine_code, size_t head_dim) {
  return DecodeFactor(fine_code[2 * PlaneBytes(head_dim)]) / 2;
}

void MakeFinePlanes(std::span<const std::byte> signs, std::span<std::byte> low,
                    std::span<std::byte> high) {
  for (size_t i = 0; i < signs.size(); ++i) {
    low[i] = ~(signs[i] ^ low[i]);
    high[i] = ~(signs[i] ^ high[i]);
  }
}

namespace {
// The largest factor that is stored as this one: half a step of 3 bits, and of f16 before.
float LargestFactor(std::byte code) {
  if (std::to_integer<uint32_t>(code) >= kLargestFactor) return INFINITY;
  return DecodeFactor(code) * (1 + 0x1p-4f + 0x1p-9f) + 0x1p-16f;
}
}  // namespace

ResidualBound RowBound(const std::byte* row_code, size_t head_dim) {
  const float half = LargestFactor(row_code[PlaneBytes(head_dim)]) / 2;  // of signs / sqrt(d)
  if (half == INFINITY) return {INFINITY, 0};
  return {half, half / std::sqrt(static_cast<float>(head_dim))};
}

ResidualBound FineBound(const std::byte* fine_code, size_t head_dim) {
  const std::byte *low = fine_code, *high = fine_code + PlaneBytes(head_dim);
  float squares = 0;  // of u = s (m + 1/2)
  for (size_t c = 0; c < head_dim; ++c) {
    const auto bit = [&](const std::byte* plane) {
      return static_cast<float>(std::to_integer<uint32_t>(plane[c / 8]) >> (c % 8) & 1);
    };
    const float size = bit(low) + 2 * bit(high) + 0.5f;
    squares += size * size;
  }
  const float half = LargestFactor(fine_code[2 * PlaneBytes(head_dim)]) / 2;
  if (half == INFINITY) return {INFINITY, 0};
  return {half * std::sqrt(squares), half / 2};
}

}  // namespace lectern
