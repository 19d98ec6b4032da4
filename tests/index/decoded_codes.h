// Decodes row codes and fine codes into vectors, bit by bit, as the plain definition of the codes
// that a lookup scores rows with (index/row_codes.h).
#ifndef LECTERN_TESTS_INDEX_DECODED_CODES_H_
#define LECTERN_TESTS_INDEX_DECODED_CODES_H_

#include <vector>

#include "index/row_codes.h"

namespace lectern::testing {

// 1 or -1: bit `c` of a plane of signs.
inline float SignOf(const std::byte* plane, size_t c) {
  return std::to_integer<int>(plane[c / 8]) >> (c % 8) & 1 ? 1.0f : -1.0f;
}

// f s, with the letters of index/row_codes.h.
inline std::vector<float> DecodedRow(const std::byte* row_code, size_t head_dim) {
  std::vector<float> residual(head_dim);
  for (size_t c = 0; c < head_dim; ++c) {
    residual[c] = RowFactor(row_code, head_dim) * SignOf(row_code, c);
  }
  return residual;
}

// g u, where g is the factor that goes with u = s (m + 1/2); m is 0 to 3.
inline std::vector<float> DecodedFine(const std::byte* row_code, const std::byte* fine_code,
                                      size_t head_dim) {
  std::vector<float> residual(head_dim);
  const std::byte* high = fine_code + PlaneBytes(head_dim);
  for (size_t c = 0; c < head_dim; ++c) {
    const float m = (SignOf(fine_code, c) > 0 ? 1.0f : 0.0f) + (SignOf(high, c) > 0 ? 2.0f : 0.0f);
    residual[c] = 2 * FineFactor(fine_code, head_dim) * SignOf(row_code, c) * (m + 0.5f);
  }
  return residual;
}

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_INDEX_DECODED_CODES_H_
