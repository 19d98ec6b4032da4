#include <algorithm>
#include <cmath>

#include "kernels/convert.h"
#include "kernels/element.h"

namespace lectern {

void ToFloatRowsScalar(TypedRows rows, Rows<float> out) {
  assert(out.num_rows == rows.num_rows && out.num_cols == rows.num_cols);
  for (size_t r = 0; r < rows.num_rows; ++r) {
    for (size_t c = 0; c < rows.num_cols; ++c) {
      out[r][c] = LoadElement(rows.row(r), rows.dtype, c);
    }
  }
}

namespace {

template <typename T>
void Store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

// Turns 32 floats into an f16 scale and 32 int8. Divides by the scale as stored, not by the exact
// one, so that rounding the scale adds no error to the steps.
void QuantizeBlock(const float* x, std::byte* out) {
  float largest = 0;
  for (size_t i = 0; i < kQ8Block; ++i) largest = std::max(largest, std::abs(x[i]));
  const f16 stored = Q8Scale(largest);
  const float scale = ToFloat(stored);
  Store(stored, out);
  for (size_t i = 0; i < kQ8Block; ++i) {
    const float steps = scale > 0 ? std::nearbyint(x[i] / scale) : 0;
    Store(static_cast<int8_t>(std::clamp(steps, -127.0f, 127.0f)), out + 2 + i);
  }
}

// Rounds one row to `dtype` at `out`.
void RoundRow(const float* x, size_t num_cols, Dtype dtype, std::byte* out) {
  switch (dtype) {
    case Dtype::kF32: std::memcpy(out, x, num_cols * sizeof(float)); return;
    case Dtype::kF16:
      for (size_t c = 0; c < num_cols; ++c) Store(ToF16(x[c]), out + 2 * c);
      return;
    case Dtype::kBf16:
      for (size_t c = 0; c < num_cols; ++c) Store(ToBf16(x[c]), out + 2 * c);
      return;
    case Dtype::kQ8:
      for (size_t c = 0; c < num_cols; c += kQ8Block, out += kQ8Block + 2)
        QuantizeBlock(x + c, out);
      return;
  }
}

}  // namespace

void FromFloatRowsScalar(Rows<const float> rows, Dtype dtype, std::byte* out) {
  assert(dtype != Dtype::kQ8 || rows.num_cols % kQ8Block == 0);
  const size_t row_bytes = RowBytes(dtype, rows.num_cols);
  for (size_t r = 0; r < rows.num_rows; ++r) {
    RoundRow(rows[r], rows.num_cols, dtype, out + r * row_bytes);
  }
}

}  // namespace lectern
