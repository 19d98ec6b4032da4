// The inner product of two rows of floats, for clustering and metrics while indexing. Lookups use the
// kernels' matrices instead.
#ifndef LECTERN_INDEX_DOT_H_
#define LECTERN_INDEX_DOT_H_

#include <cstddef>

namespace lectern {

// In sixteen sums, which a compiler keeps in vectors without being allowed to reorder a sum.
inline float Dot(const float* a, const float* b, size_t count) {
  constexpr size_t kSums = 16;
  float sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (size_t j = 0; j < kSums; ++j) sums[j] += a[i + j] * b[i + j];
  }
  float sum = 0;
  for (const float part : sums) sum += part;
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace lectern

#endif  // LECTERN_INDEX_DOT_H_
