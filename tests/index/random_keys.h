// Random keys and values for the tests of index/.
#ifndef LECTERN_TESTS_INDEX_RANDOM_KEYS_H_
#define LECTERN_TESTS_INDEX_RANDOM_KEYS_H_

#include <cmath>
#include <random>
#include <vector>

#include "kernels/types.h"

namespace lectern::testing {

// Own floats [n, d] and a view of them.
struct OwnRows {
  OwnRows(size_t n, size_t d) : data(n * d), num_rows(n), num_cols(d) {}
  operator Rows<const float>() const { return {data.data(), num_rows, num_cols}; }
  float* operator[](size_t row) { return data.data() + row * num_cols; }
  const float* operator[](size_t row) const { return data.data() + row * num_cols; }

  std::vector<float> data;
  size_t num_rows, num_cols;
};

// n rows of d numbers from a normal distribution; the same for the same seed, as below.
inline OwnRows NormalRows(size_t n, size_t d, unsigned seed, float deviation = 1) {
  OwnRows rows(n, d);
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, deviation);
  for (float& x : rows.data) x = normal(engine);
  return rows;
}

// Rows around `num_blobs` random centres of length about sqrt(d); row i belongs to blob i %
// num_blobs.
inline OwnRows Blobs(size_t n, size_t d, size_t num_blobs, unsigned seed, float spread = 0.1f) {
  const OwnRows centres = NormalRows(num_blobs, d, seed + 1000);
  OwnRows rows = NormalRows(n, d, seed, spread);
  for (size_t i = 0; i < n; ++i) {
    for (size_t c = 0; c < d; ++c) rows[i][c] += centres[i % num_blobs][c];
  }
  return rows;
}

// Keys as a shard stores them: rounded to f16.
inline void RoundToF16(OwnRows& rows) {
  for (float& x : rows.data) x = ToFloat(ToF16(x));
}

// Scales each row to length 1; a row of zeros becomes NaN.
inline void Normalize(OwnRows& rows) {
  for (size_t i = 0; i < rows.num_rows; ++i) {
    double squares = 0;
    for (size_t c = 0; c < rows.num_cols; ++c) squares += double{rows[i][c]} * rows[i][c];
    for (size_t c = 0; c < rows.num_cols; ++c) {
      rows[i][c] = static_cast<float>(rows[i][c] / std::sqrt(squares));
    }
  }
}

// Normal rows, scaled to length 1.
inline OwnRows UnitRows(size_t n, size_t d, unsigned seed) {
  OwnRows rows = NormalRows(n, d, seed);
  Normalize(rows);
  return rows;
}

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_INDEX_RANDOM_KEYS_H_
