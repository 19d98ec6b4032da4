// The buckets of kernels/cuda/row_select.h, as its definition: 64 to a power of two.
#ifndef LECTERN_TESTS_KERNELS_CUDA_SCORE_BUCKETS_H_
#define LECTERN_TESTS_KERNELS_CUDA_SCORE_BUCKETS_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace lectern {

constexpr uint32_t kNumBuckets = 4096;
constexpr int kBucketBits = 17;
constexpr uint32_t kLeastBits = (127 - 62) << 6;

inline uint32_t BucketOfScore(double score) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(score)) >> kBucketBits;
  return std::clamp(bits, kLeastBits, kLeastBits + kNumBuckets - 1) - kLeastBits;
}
// Whether a rounding error may take this score into, or out of, a bucket.
inline bool IsNearEdgeOf(double score, uint32_t bucket) {
  for (const uint32_t edge : {bucket, bucket + 1}) {
    if (edge == 0 || edge >= kNumBuckets) continue;
    const auto least = std::bit_cast<float>((edge + kLeastBits) << kBucketBits);
    if (std::abs(score / least - 1) < 2e-4) return true;
  }
  return false;
}

}  // namespace lectern

#endif  // LECTERN_TESTS_KERNELS_CUDA_SCORE_BUCKETS_H_
