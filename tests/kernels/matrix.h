// Matrices for tests of kernels: random rows of floats, and the same rows in a stored type.
#ifndef LECTERN_TESTS_KERNELS_MATRIX_H_
#define LECTERN_TESTS_KERNELS_MATRIX_H_

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/convert.h"
#include "kernels/packed_matmul.h"

namespace lectern {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

// Own floats and a view of them.
struct Matrix {
  Matrix(size_t num_rows, size_t num_cols, float value = 0)
      : data(num_rows * num_cols, value), rows(data.data(), num_rows, num_cols) {}
  Matrix(const Matrix& other)
      : data(other.data), rows(data.data(), other.rows.num_rows, other.rows.num_cols) {}
  Matrix& operator=(const Matrix&) = delete;
  // `values`: row by row, at most num_rows * num_cols; the rest is 0.
  static Matrix Of(size_t num_rows, size_t num_cols, const std::vector<float>& values) {
    Matrix result(num_rows, num_cols);
    std::copy(values.begin(), values.end(), result.data.begin());
    return result;
  }
  static Matrix Random(size_t num_rows, size_t num_cols, unsigned seed, float deviation = 1) {
    Matrix result(num_rows, num_cols);
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, deviation);
    for (float& value : result.data) value = normal(engine);
    return result;
  }
  operator Rows<const float>() const { return rows; }
  float* operator[](size_t r) const { return rows[r]; }

  std::vector<float> data;
  Rows<float> rows;
};

// Rows as stored, one byte off every alignment and with nothing behind the last one.
struct StoredMatrix {
  StoredMatrix(const Matrix& values, Dtype dtype)
      : bytes(1 + values.rows.num_rows * RowBytes(dtype, values.rows.num_cols)),
        rows{bytes.data() + 1, dtype, values.rows.num_rows, values.rows.num_cols} {
    FromFloatRowsScalar(values.rows, dtype, bytes.data() + 1);
  }
  StoredMatrix(const StoredMatrix&) = delete;
  // The stored values as floats.
  Matrix ToFloats() const {
    Matrix result(rows.num_rows, rows.num_cols);
    ToFloatRowsScalar(rows, result.rows);
    return result;
  }

  std::vector<std::byte> bytes;
  TypedRows rows;
};

// Rows rounded to int8, and a view of them.
struct Int8Matrix : Int8Buffer {
  Int8Matrix(void (*quantise)(const QuantiseRowsArgs&), Rows<const float> input)
      : Int8Buffer(input.num_rows * input.num_cols) {
    quantise(Args(input));
    rows = Int8Buffer::rows(input.num_rows, input.num_cols);
  }
  Int8Matrix(const Int8Matrix&) = delete;
  double Value(size_t r, size_t c) const {
    const size_t at = r * rows.num_cols + c;
    return double{scales[at / kPackedGroup]} * steps[at];
  }

  Int8Rows rows;
};

// Whether the numbers have the same bits: NaN equals itself, and 0 is not -0.
inline bool SameBits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

}  // namespace lectern

#endif  // LECTERN_TESTS_KERNELS_MATRIX_H_
