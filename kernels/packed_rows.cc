#include "kernels/packed_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/element.h"

namespace lectern {
namespace {

constexpr float kLargestScale = 65504;  // the largest finite f16
// Scales of MXFP4 beyond it would make values near the largest float, and sums infinite. The byte
// 255 is among them, which is NaN by the format's specification.
constexpr float kLargestBlockScale = 0x1p96f;
constexpr float kNibbleSteps = 8;       // the largest magnitude of a q4 step

// The whole number nearest to x * per_unit (ties to even), within [least, most]. Needs |x *
// per_unit| < 2^22. Written so that compilers turn it into vector code: adding 1.5 * 2^23 rounds,
// and minimum and maximum are expressed by absolute values, which are exact for whole numbers.
inline float Steps(float x, float per_unit, float least, float most) {
  constexpr float kRounds = 0x1.8p23f;
  float steps = x * per_unit + kRounds - kRounds;
  steps = 0.5f * (steps + least + std::fabs(steps - least));
  return 0.5f * (steps + most - std::fabs(steps - most));
}

// One rounded group: values are scale * step.
struct Quantised {
  f16 scale;
  int8_t steps[kPackedGroup];
};

// Rounds a group to steps of the given scale, within [least, most]. A scale of 0 gives steps of 0.
void Quantise(const float* x, f16 scale, float least, float most, Quantised& out) {
  out.scale = scale;
  const float per_unit = ToFloat(scale) != 0 ? 1 / ToFloat(scale) : 0;
  for (size_t i = 0; i < kPackedGroup; ++i) {
    out.steps[i] = static_cast<int8_t>(Steps(x[i], per_unit, least, most));
  }
}

// For steps n = nearest(x * per_unit): `scale` is the factor that fits x = scale * n best, sum(x *
// n) / sum(n * n); `explained` is the part of sum(x * x) that this fit explains, sum(x * n)^2 /
// sum(n * n). The best scale has the largest `explained`.
struct Fit {
  float scale, explained;
};
Fit FitTo(const float* x, float per_unit) {
  float products[kPackedGroup], squares[kPackedGroup];
  for (size_t i = 0; i < kPackedGroup; ++i) {
    const float n = Steps(x[i], per_unit, -kNibbleSteps, kNibbleSteps - 1);
    products[i] = x[i] * n;
    squares[i] = n * n;
  }
  // Pairwise sums, which compilers turn into vectors.
  for (size_t half = kPackedGroup / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      products[i] += products[i + half];
      squares[i] += squares[i + half];
    }
  }
  const float product = products[0], square = squares[0];
  return square > 0 ? Fit{product / square, product * product / square} : Fit{0, 0};
}

// The scale with the least squared error among seven candidates; 0 for zeros, and negative where
// the value of largest magnitude is positive. Each candidate maps the largest value (with its sign)
// to about -8 steps, the side of the int4 range that has one step more. The idea is that of
// llama.cpp's make_qx_quants, which tries three times as many candidates for 0.1 % less error.
float NibbleScale(const float* x) {
  float largest = 0;
  for (size_t i = 0; i < kPackedGroup; ++i) {
    if (std::abs(x[i]) > std::abs(largest)) largest = x[i];
  }
  Fit best = {0, 0};
  for (int tenths = -9; tenths <= 9 && largest != 0; tenths += 3) {
    const float steps = kNibbleSteps + 0.1f * static_cast<float>(tenths);
    const Fit fit = FitTo(x, -steps / largest);
    if (fit.explained > best.explained) best = fit;
  }
  return best.scale;
}

// Rounds a group of finite values; `largest`: their largest magnitude.
Quantised QuantiseGroup(const float* x, float largest, PackedType type) {
  Quantised group;
  if (type == PackedType::kQ8) {
    Quantise(x, ToF16(largest / 127), -127, 127, group);
  } else {
    Quantise(x, ToF16(NibbleScale(x)), -kNibbleSteps, kNibbleSteps - 1, group);
  }
  return group;
}

// Offset of a step of column `column` at k behind its group's scales, and the lowest of its bits
// there; of 3 bits, of the two lower ones. Types of fewer than 8 bits have several columns at the
// same byte.
struct StepPlace {
  size_t byte, bit;
};
constexpr StepPlace StepAt(size_t bits, size_t column, size_t k) {
  const size_t own = bits == 3 ? 2 : bits, columns = kPackedColumns * own / 8;
  return {k / 4 * 4 * columns + 4 * (column % columns) + k % 4, column / columns * own};
}
// Offset of a step's third bit, which is bit k / 4 there.
constexpr size_t ThirdBitAt(size_t column, size_t k) { return kThirdBits + 4 * column + k % 4; }

// For each int8, its place in a table of 16 steps; the first of two equal ones, 0 where it has
// none.
using Places = std::array<uint8_t, 256>;
constexpr Places PlacesIn(const int8_t (&table)[16]) {
  Places places = {};
  for (uint8_t i = 16; i-- > 0;) places[static_cast<uint8_t>(table[i])] = i;
  return places;
}
constexpr Places kIq4Places = PlacesIn(kIq4Levels), kE2m1Places = PlacesIn(kE2m1Levels);

// Stores steps of kBits bits of column `column` behind the scales of its group. They are or-ed in:
// the bytes must be zero before.
template <size_t kBits>
void StoreBits(const uint8_t (&stored)[kPackedGroup], size_t column, std::byte* out) {
  for (size_t i = 0; i < kPackedGroup; ++i) {
    const StepPlace at = StepAt(kBits, column, i);
    const int own = kBits == 3 ? stored[i] & 3 : stored[i];
    out[at.byte] |= static_cast<std::byte>(own << at.bit);
    if (kBits == 3) out[ThirdBitAt(column, i)] |= static_cast<std::byte>(stored[i] >> 2 << i / 4);
  }
}

// Stores the steps of column `column` in its group at `out`, whose bytes must be zero before.
void StoreSteps(const int8_t* steps, PackedType type, size_t column, std::byte* out) {
  const int8_t* const table = PackedTable(type);
  const Places& places = table == kE2m1Levels ? kE2m1Places : kIq4Places;
  uint8_t stored[kPackedGroup];
  for (size_t i = 0; i < kPackedGroup; ++i) {
    stored[i] = table != nullptr ? places[static_cast<uint8_t>(steps[i])]
                                 : static_cast<uint8_t>(steps[i] + PackedZero(type));
  }
  out += PackedScaleBytes(type);
  switch (PackedBits(type)) {
    case 8:
      return StoreBits<8>(stored, column, out);
    case 4:
      return StoreBits<4>(stored, column, out);
    case 3:
      return StoreBits<3>(stored, column, out);
    case 2:
      return StoreBits<2>(stored, column, out);
  }
}

// Stores item `column` of array number `array`; an array has kPackedColumns items of T.
template <typename T>
void StoreItem(T value, size_t array, size_t column, std::byte* out) {
  std::memcpy(out + (array * kPackedColumns + column) * sizeof value, &value, sizeof value);
}
template <typename T>
T LoadItem(const std::byte* from, size_t array, size_t column) {
  return LoadUnaligned<T>(from + (array * kPackedColumns + column) * sizeof(T));
}

// The byte of E8M0 whose scale this is.
uint8_t E8m0Byte(float scale) { return static_cast<uint8_t>(std::ilogb(scale) + 128); }

// Stores the scales of one block's group where the type keeps them: in the shared head and in the
// group.
void StoreScales(const BlockGroup& block, PackedType type, size_t column, std::byte* head,
                 std::byte* group) {
  if (PackedHeadItems(type) > 0) StoreItem(ToF16(block.scale), 0, column, head);
  if (PackedHeadItems(type) > 1) StoreItem(ToF16(block.min), 1, column, head);
  switch (type) {
    case PackedType::kQ8Min:
    case PackedType::kQ4Min:
      StoreItem(ToF16(block.min), 1, column, group);
      [[fallthrough]];
    case PackedType::kQ8:
    case PackedType::kQ4:
    case PackedType::kQ8Planes:
    case PackedType::kQ4Table:
      StoreItem(ToF16(block.scale), 0, column, group);
      return;
    case PackedType::kQ8Super:
    case PackedType::kQ4Super:
      StoreItem(static_cast<uint8_t>(block.parts[0]), 0, column, group);
      StoreItem(static_cast<uint8_t>(-block.min_parts[0]), 1, column, group);
      return;
    case PackedType::kQ8Halves:
    case PackedType::kQ3Halves:
      for (size_t half = 0; half < 2; ++half) {
        StoreItem(static_cast<int8_t>(block.parts[half]), half, column, group);
      }
      return;
    case PackedType::kQ2Halves:
      for (size_t half = 0; half < 2; ++half) {
        const int both = block.parts[half] | -block.min_parts[half] << 4;
        StoreItem(static_cast<uint8_t>(both), half, column, group);
      }
      return;
    case PackedType::kQ4TableSuper:
      StoreItem(static_cast<int8_t>(block.parts[0]), 0, column, group);
      return;
    case PackedType::kFp4:
      StoreItem(E8m0Byte(block.scale), 0, column, group);
      return;
  }
}

// Offset of a step's nibble in a group of a plane, and whether it lies in the byte's low bits.
size_t NibbleAt(size_t column, size_t k) {
  return k / 8 * (4 * kPackedColumns) + 4 * column + k % 4;
}
bool IsLowNibble(size_t k) { return k % 8 < 4; }
int Nibble(const std::byte* group, size_t column, size_t k) {
  const std::byte both = group[NibbleAt(column, k)];
  return std::to_integer<int>(IsLowNibble(k) ? both & std::byte{15} : both >> 4);
}

// False for infinity and NaN.
bool IsFinite(f16 x) { return (x.bits & 0x7C00) != 0x7C00; }

}  // namespace

bool PackPanel(Rows<const float> rows, PackedType type, std::byte* out) {
  assert(type == PackedType::kQ8 || type == PackedType::kQ4);
  assert(rows.num_rows >= 1 && rows.num_rows <= kPackedColumns);
  assert(rows.num_cols % kPackedGroup == 0);
  for (size_t k = 0; k < rows.num_cols; k += kPackedGroup, out += PackedGroupBytes(type)) {
    std::memset(out, 0, PackedGroupBytes(type));
    for (size_t column = 0; column < rows.num_rows; ++column) {
      const float* x = rows[column] + k;
      float largest = 0;
      for (size_t i = 0; i < kPackedGroup; ++i) {
        // Keeps the products of NibbleScale finite. A NaN fails the test too.
        if (!(std::abs(x[i]) <= 7 * kLargestScale)) return false;
        largest = std::max(largest, std::abs(x[i]));
      }
      const Quantised group = QuantiseGroup(x, largest, type);
      // The scale that fits best can exceed a 7th of the largest value, where many small values
      // stand beside it.
      if (!IsFinite(group.scale)) return false;
      StoreItem(group.scale, 0, column, out);
      StoreSteps(group.steps, type, column, out);
    }
  }
  return true;
}

// Chooses a form that holds the blocks' values exactly: 5-bit and 6-bit values take a byte each.
PackedType PackedTypeOf(TensorType blocks) {
  switch (blocks) {
    case TensorType::kQ4_0:
      return PackedType::kQ4;
    case TensorType::kQ4_1:
      return PackedType::kQ4Min;
    case TensorType::kQ5_1:
      return PackedType::kQ8Min;
    case TensorType::kQ4_K:
      return PackedType::kQ4Super;
    case TensorType::kQ5_K:
      return PackedType::kQ8Super;
    case TensorType::kQ6_K:
      return PackedType::kQ8Halves;
    case TensorType::kQ8_0:
    case TensorType::kQ5_0:
      return PackedType::kQ8;
    case TensorType::kQ2_K:
      return PackedType::kQ2Halves;
    case TensorType::kQ3_K:
      return PackedType::kQ3Halves;
    case TensorType::kIQ4_NL:
      return PackedType::kQ4Table;
    case TensorType::kIQ4_XS:
      return PackedType::kQ4TableSuper;
    case TensorType::kMXFP4:
      return PackedType::kFp4;
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBf16:
      break;
  }
  assert(false && "plain values are quantised by PackPanel");
  return PackedType::kQ8;
}

bool PackBlocks(const TensorRows& rows, std::byte* out) {
  const PackedType type = PackedTypeOf(rows.type);
  assert(rows.num_rows >= 1 && rows.num_rows <= kPackedColumns);
  PackedRows panel = {out, type, rows.num_rows, rows.num_cols};
  std::memset(out, 0, panel.panel_bytes());
  for (size_t k = 0; k < rows.num_cols; k += kPackedGroup) {
    std::byte* const head = out + (panel.head(0, k) - out);
    std::byte* const group = out + (panel.group(0, k) - out);
    for (size_t column = 0; column < rows.num_rows; ++column) {
      const BlockGroup block = ReadBlockGroup(rows.type, rows.row(column), k / kBlockGroup);
      if (!(std::abs(block.scale) <= kLargestBlockScale) || !std::isfinite(block.min)) return false;
      StoreScales(block, type, column, head, group);
      StoreSteps(block.steps, type, column, group);
    }
  }
  return true;
}

// Four k of all columns are 64 bytes in q8, and so are eight of them in a plane, so that bytes meet
// bytes, which compilers turn into vectors.
void SplitPanel(const std::byte* q8, size_t num_cols, std::byte* high, std::byte* low) {
  constexpr size_t kFour = 4 * kPackedColumns, kScales = PackedScaleBytes(PackedType::kQ8);
  const size_t num_groups = num_cols / kPackedGroup;
  std::byte* open = high;
  std::memset(high, 0, PlaneHeadBytes(num_groups));
  high += PlaneHeadBytes(num_groups);
  for (size_t g = 0; g < num_groups; ++g) {
    std::memcpy(high, q8, kScales);
    q8 += kScales, high += kScales;
    uint16_t squares[kFour] = {};  // of 2 * (low - 7.5): at most 8 times 225
    for (size_t k = 0; k < kPackedGroup; k += 8, q8 += 2 * kFour, high += kFour, low += kFour) {
      uint8_t steps[2][kFour], upper[kFour], lower[kFour];
      std::memcpy(steps, q8, sizeof steps);
      for (size_t i = 0; i < kFour; ++i) {
        const uint8_t first = steps[0][i], second = steps[1][i];
        // Plus 8 is the same as turning the nibble's first bit.
        upper[i] = static_cast<uint8_t>((first >> 4 | (second & 0xF0)) ^ 0x88);
        lower[i] = static_cast<uint8_t>((first & 15) | second << 4);
        const int one = 2 * (first & 15) - 15, other = 2 * (second & 15) - 15;
        squares[i] = static_cast<uint16_t>(squares[i] + one * one + other * other);
      }
      std::memcpy(high, upper, kFour);
      std::memcpy(low, lower, kFour);
    }
    int largest = 0;
    for (size_t column = 0; column < kPackedColumns; ++column) {
      const uint16_t* const of = squares + 4 * column;
      largest = std::max(largest, of[0] + of[1] + of[2] + of[3]);
    }
    // Squares are whole numbers, so the root is either whole or rounded by far less than the 1e-9.
    *open++ = static_cast<std::byte>(std::ceil(std::sqrt(largest) / 2 / kOpenUnit + 1e-9));
  }
}

int PackedStep(const PackedRows& rows, size_t row, size_t col) {
  const size_t column = row % kPackedColumns;
  if (rows.has_planes()) {
    const size_t k = col % kPackedGroup;
    const std::byte* const nibbles = rows.group(row, col) + PackedScaleBytes(PackedType::kQ8Planes);
    return 16 * (Nibble(nibbles, column, k) - 8) + Nibble(rows.low_group(row, col), column, k);
  }
  const size_t k = col % kPackedGroup, bits = PackedBits(rows.type);
  const std::byte* const steps = rows.group(row, col) + PackedScaleBytes(rows.type);
  const StepPlace at = StepAt(bits, column, k);
  if (bits == 8) return static_cast<int8_t>(steps[at.byte]);
  int stored = std::to_integer<int>(steps[at.byte]) >> at.bit & (bits == 4 ? 15 : 3);
  if (bits == 3) {
    stored |= (std::to_integer<int>(steps[ThirdBitAt(column, k)]) >> k / 4 & 1) << 2;
  }
  const int8_t* const table = PackedTable(rows.type);
  return table != nullptr ? table[stored] : stored - PackedZero(rows.type);
}

float PackedScale(const PackedRows& rows, size_t row, size_t col) {
  const size_t column = row % kPackedColumns, half = col % kPackedGroup / (kPackedGroup / 2);
  const std::byte *head = rows.head(row, col), *group = rows.group(row, col);
  switch (rows.type) {
    case PackedType::kQ8:
    case PackedType::kQ4:
    case PackedType::kQ8Min:
    case PackedType::kQ4Min:
    case PackedType::kQ8Planes:
    case PackedType::kQ4Table:
      return ToFloat(LoadItem<f16>(group, 0, column));
    case PackedType::kQ8Super:
    case PackedType::kQ4Super:
      return ToFloat(LoadItem<f16>(head, 0, column)) * LoadItem<uint8_t>(group, 0, column);
    case PackedType::kQ8Halves:
    case PackedType::kQ3Halves:
      return ToFloat(LoadItem<f16>(head, 0, column)) * LoadItem<int8_t>(group, half, column);
    case PackedType::kQ2Halves:
      return ToFloat(LoadItem<f16>(head, 0, column)) *
             static_cast<float>(LoadItem<uint8_t>(group, half, column) & 15);
    case PackedType::kQ4TableSuper:
      return ToFloat(LoadItem<f16>(head, 0, column)) * LoadItem<int8_t>(group, 0, column);
    case PackedType::kFp4:
      return E8m0Scale(LoadItem<uint8_t>(group, 0, column));
  }
  return 0;
}

float PackedMin(const PackedRows& rows, size_t row, size_t col) {
  if (!PackedHasMin(rows.type)) return 0;
  const size_t column = row % kPackedColumns;
  const std::byte* group = rows.group(row, col);
  if (PackedHeadBytes(rows.type) == 0) return ToFloat(LoadItem<f16>(group, 1, column));
  const bool has_halves = rows.type == PackedType::kQ2Halves;
  const size_t half = col % kPackedGroup / (kPackedGroup / 2);
  const int part = has_halves ? LoadItem<uint8_t>(group, half, column) >> 4
                              : LoadItem<uint8_t>(group, 1, column);
  return -ToFloat(LoadItem<f16>(rows.head(row, col), 1, column)) * static_cast<float>(part);
}

float PackedElement(const PackedRows& rows, size_t row, size_t col) {
  return PackedScale(rows, row, col) * static_cast<float>(PackedStep(rows, row, col)) +
         PackedMin(rows, row, col);
}

}  // namespace lectern
