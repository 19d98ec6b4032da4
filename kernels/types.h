// Number types and borrowed 2-D views for every room: conversions between float, f16 and bf16,
// `Rows<T>` for rows of a known type, `TypedRows` for rows of a run-time type. Knows no file, no
// error and no model.
#ifndef LECTERN_KERNELS_TYPES_H_
#define LECTERN_KERNELS_TYPES_H_

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/dtype.h"

namespace lectern {

// A bf16 is the upper half of a float, so the conversion is a shift.
inline float ToFloat(bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

// Written with integers alone, so that a machine without f16 instructions gives the same bits. 112
// is the difference of the exponent biases (127 - 15), 13 that of the mantissa widths (23 - 10).
inline float ToFloat(f16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t exponent = (x.bits >> 10) & 31u, mantissa = x.bits & 0x3FFu;
  if (exponent == 31) {  // a NaN comes back quiet, as from the hardware instruction
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7F800000u | quiet | (mantissa << 13));
  }
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  }
  // Subnormal or 0: steps of 2^-24.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

// Rounds to nearest, ties to even; assumes the default rounding mode. Values too large for f16
// become infinity, NaN stays NaN.
inline f16 ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  // Keeps the upper bits of the payload and sets the quiet bit.
  if (magnitude > 0x7F800000u) {
    return {static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu))};
  }
  // 65520, half-way between the largest f16 (65504) and the next step, is the first to round up.
  if (magnitude >= 0x477FF000u) return {static_cast<uint16_t>(sign | 0x7C00u)};
  if (magnitude < 0x38800000u) {  // below 2^-14 f16 is subnormal: adding 0.5 rounds at 2^-24
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3F000000u))};
  }
  // Adding half of the 13 dropped bits, or one less where the kept part is even, rounds ties to
  // even.
  const uint32_t odd = (magnitude >> 13) & 1u;
  return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13))};
}

// Rounds to nearest, ties to even, as ToF16 does; the same trick on 16 dropped bits. Values that
// round past the largest bf16 become infinity, NaN stays NaN.
inline bf16 ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

// A borrowed 2-D view, row major. `stride` counts elements from one row to the next, so a view may
// show some columns of wider rows.
template <typename T>
struct Rows {
  T* data = nullptr;
  size_t num_rows = 0;
  size_t num_cols = 0;
  size_t stride = 0;

  Rows() = default;
  Rows(T* d, size_t rows, size_t cols) : data(d), num_rows(rows), num_cols(cols), stride(cols) {}
  Rows(T* d, size_t rows, size_t cols, size_t row_stride)
      : data(d), num_rows(rows), num_cols(cols), stride(row_stride) {}
  // A view of mutable rows is also a view of const rows.
  operator Rows<const T>() const { return {data, num_rows, num_cols, stride}; }

  // The first element of a row below num_rows (asserted).
  T* operator[](size_t row) const {
    assert(row < num_rows);
    return data + row * stride;
  }
  // A view of rows [begin, end), which must lie within num_rows (asserted).
  Rows Slice(size_t begin, size_t end) const {
    assert(begin <= end && end <= num_rows);
    return {data + begin * stride, end - begin, num_cols, stride};
  }
};

// Borrowed rows of a run-time type, packed: row r begins at data + r * RowBytes(dtype, num_cols).
// No alignment is promised.
struct TypedRows {
  const std::byte* data = nullptr;
  Dtype dtype = Dtype::kF32;
  size_t num_rows = 0;
  size_t num_cols = 0;

  size_t row_bytes() const { return RowBytes(dtype, num_cols); }
  const std::byte* row(size_t r) const { return data + r * row_bytes(); }  // not checked
  // A view of rows [begin, end), which must lie within num_rows (asserted).
  TypedRows Slice(size_t begin, size_t end) const {
    assert(begin <= end && end <= num_rows);
    return {data + begin * row_bytes(), dtype, end - begin, num_cols};
  }
};

}  // namespace lectern

#endif  // LECTERN_KERNELS_TYPES_H_
