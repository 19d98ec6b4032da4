#include "kernels/packed_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/element.h"

namespace lectern {
namespace {

constexpr float kLargestScale = 65504;  // of f16
constexpr float kNibbleSteps = 8;

// What x is nearest to in steps of which `per_unit` make 1, ties to even, within bounds; |x *
// per_unit| < 2^22. In a form that compilers turn into vector code: adding 1.5 * 2^23 rounds, and
// minimum and maximum of whole numbers are exact by absolute values.
inline float Steps(float x, float per_unit, float least, float most) {
  constexpr float kRounds = 0x1.8p23f;
  float steps = x * per_unit + kRounds - kRounds;
  steps = 0.5f * (steps + least + std::fabs(steps - least));
  return 0.5f * (steps + most - std::fabs(steps - most));
}

struct Quantised {
  f16 scale;
  int8_t steps[kPackedGroup];
};

void Quantise(const float* x, f16 scale, float least, float most, Quantised& out) {
  out.scale = scale;
  const float per_unit = ToFloat(scale) != 0 ? 1 / ToFloat(scale) : 0;
  for (size_t i = 0; i < kPackedGroup; ++i) {
    out.steps[i] = static_cast<int8_t>(Steps(x[i], per_unit, least, most));
  }
}

// Of steps that are `per_unit` to 1: the scale that fits them best, sum(x * n) / sum(n * n), and
// how much of the squares it explains, sum(x * n)^2 / sum(n * n).
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
  for (size_t half = kPackedGroup / 2; half > 0; half /= 2) {  // sums in pairs: vectors, too
    for (size_t i = 0; i < half; ++i) {
      products[i] += products[i + half];
      squares[i] += squares[i + half];
    }
  }
  const float product = products[0], square = squares[0];
  return square > 0 ? Fit{product / square, product * product / square} : Fit{0, 0};
}

// The scale of least squared error among those that give the largest value about -8 steps, its
// sign included: one step more than on the other side. Idea: llama.cpp's make_qx_quants, which
// tries three times as many for 0.1 % less error.
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

Quantised QuantiseGroup(const float* x, float largest, PackedType type) {
  Quantised group;
  if (type == PackedType::kQ8) {
    Quantise(x, ToF16(largest / 127), -127, 127, group);
  } else {
    Quantise(x, ToF16(NibbleScale(x)), -kNibbleSteps, kNibbleSteps - 1, group);
  }
  return group;
}

// Where the step of a column and of k is in its group; in q4 two are there.
size_t StepAt(PackedType type, size_t column, size_t k) {
  const size_t bytes = PackedFourBytes(type);
  return kPackedScaleBytes + k / 4 * bytes + 4 * column % bytes + k % 4;
}

void Store(const Quantised& group, PackedType type, size_t column, std::byte* out) {
  std::memcpy(out + column * sizeof(f16), &group.scale, sizeof(f16));
  for (size_t i = 0; i < kPackedGroup; ++i) {
    std::byte& to = out[StepAt(type, column, i)];
    if (type == PackedType::kQ8) {
      to = static_cast<std::byte>(group.steps[i]);
    } else {
      const auto nibble = static_cast<std::byte>(group.steps[i] + kNibbleZero);
      to |= column < kPackedColumns / 2 ? nibble : nibble << 4;
    }
  }
}

}  // namespace

bool PackPanel(Rows<const float> rows, PackedType type, std::byte* out) {
  assert(rows.num_rows >= 1 && rows.num_rows <= kPackedColumns);
  assert(rows.num_cols % kPackedGroup == 0);
  for (size_t k = 0; k < rows.num_cols; k += kPackedGroup, out += PackedGroupBytes(type)) {
    std::memset(out, 0, PackedGroupBytes(type));
    for (size_t column = 0; column < rows.num_rows; ++column) {
      const float* x = rows[column] + k;
      float largest = 0;
      for (size_t i = 0; i < kPackedGroup; ++i) {
        if (!(std::abs(x[i]) <= 7 * kLargestScale)) return false;  // a NaN is not
        largest = std::max(largest, std::abs(x[i]));
      }
      Store(QuantiseGroup(x, largest, type), type, column, out);
    }
  }
  return true;
}

int PackedStep(const PackedRows& rows, size_t row, size_t col) {
  const size_t column = row % kPackedColumns;
  const std::byte stored = rows.group(row, col)[StepAt(rows.type, column, col % kPackedGroup)];
  if (rows.type == PackedType::kQ8) return static_cast<int8_t>(stored);
  const bool is_low = column < kPackedColumns / 2;
  return std::to_integer<int>(is_low ? stored & std::byte{15} : stored >> 4) - kNibbleZero;
}

float PackedScale(const PackedRows& rows, size_t row, size_t col) {
  return ToFloat(LoadUnaligned<f16>(rows.group(row, col) + row % kPackedColumns * sizeof(f16)));
}

float PackedElement(const PackedRows& rows, size_t row, size_t col) {
  return PackedScale(rows, row, col) * static_cast<float>(PackedStep(rows, row, col));
}

}  // namespace lectern
