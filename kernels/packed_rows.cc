#include "kernels/packed_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/element.h"

namespace lectern {
namespace {

constexpr float kLargestScale = 65504;  // the largest finite f16
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

// Offset of a step of column `column` at k in its group. Types with nibbles have two columns at the
// same byte.
size_t StepAt(PackedType type, size_t column, size_t k) {
  assert(type != PackedType::kQ8Planes);
  const size_t bytes = PackedFourBytes(type);
  return PackedScaleBytes(type) + k / 4 * bytes + 4 * column % bytes + k % 4;
}

// Stores the steps of column `column` in its group at `out`. Nibbles are or-ed in: the bytes must
// be zero before.
void StoreSteps(const int8_t* steps, PackedType type, size_t column, std::byte* out) {
  for (size_t i = 0; i < kPackedGroup; ++i) {
    std::byte& to = out[StepAt(type, column, i)];
    if (PackedHasNibbles(type)) {
      const auto nibble = static_cast<std::byte>(steps[i] + PackedZero(type));
      to |= column < kPackedColumns / 2 ? nibble : nibble << 4;
    } else {
      to = static_cast<std::byte>(steps[i]);
    }
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

// Stores the scales of one block's group where the type keeps them: in the shared head and in the
// group.
void StoreScales(const BlockGroup& block, PackedType type, size_t column, std::byte* head,
                 std::byte* group) {
  switch (type) {
    case PackedType::kQ8Min:
    case PackedType::kQ4Min:
      StoreItem(block.min, 1, column, group);
      [[fallthrough]];
    case PackedType::kQ8:
    case PackedType::kQ4:
    case PackedType::kQ8Planes:
      StoreItem(block.scale, 0, column, group);
      return;
    case PackedType::kQ8Super:
    case PackedType::kQ4Super:
      StoreItem(block.scale, 0, column, head);
      StoreItem(block.min, 1, column, head);
      StoreItem(static_cast<uint8_t>(block.parts[0]), 0, column, group);
      StoreItem(static_cast<uint8_t>(-block.min_part), 1, column, group);
      return;
    case PackedType::kQ8Halves:
      StoreItem(block.scale, 0, column, head);
      for (size_t half = 0; half < 2; ++half) {
        StoreItem(static_cast<int8_t>(block.parts[half]), half, column, group);
      }
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
      if (!IsFinite(block.scale) || !IsFinite(block.min)) return false;
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
  const std::byte stored = rows.group(row, col)[StepAt(rows.type, column, col % kPackedGroup)];
  if (!PackedHasNibbles(rows.type)) return static_cast<int8_t>(stored);
  const bool is_low = column < kPackedColumns / 2;
  return std::to_integer<int>(is_low ? stored & std::byte{15} : stored >> 4) -
         PackedZero(rows.type);
}

float PackedScale(const PackedRows& rows, size_t row, size_t col) {
  const size_t column = row % kPackedColumns;
  const std::byte *head = rows.head(row, col), *group = rows.group(row, col);
  switch (rows.type) {
    case PackedType::kQ8:
    case PackedType::kQ4:
    case PackedType::kQ8Min:
    case PackedType::kQ4Min:
    case PackedType::kQ8Planes:
      return ToFloat(LoadItem<f16>(group, 0, column));
    case PackedType::kQ8Super:
    case PackedType::kQ4Super:
      return ToFloat(LoadItem<f16>(head, 0, column)) * LoadItem<uint8_t>(group, 0, column);
    case PackedType::kQ8Halves:
      return ToFloat(LoadItem<f16>(head, 0, column)) *
             LoadItem<int8_t>(group, col % kPackedGroup / 16, column);
  }
  return 0;
}

float PackedMin(const PackedRows& rows, size_t row, size_t col) {
  if (!PackedHasMin(rows.type)) return 0;
  const size_t column = row % kPackedColumns;
  const std::byte* group = rows.group(row, col);
  if (PackedHeadBytes(rows.type) == 0) return ToFloat(LoadItem<f16>(group, 1, column));
  return -ToFloat(LoadItem<f16>(rows.head(row, col), 1, column)) *
         LoadItem<uint8_t>(group, 1, column);
}

float PackedElement(const PackedRows& rows, size_t row, size_t col) {
  return PackedScale(rows, row, col) * static_cast<float>(PackedStep(rows, row, col)) +
         PackedMin(rows, row, col);
}

}  // namespace lectern
