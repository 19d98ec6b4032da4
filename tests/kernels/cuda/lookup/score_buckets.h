// Defines, for tests, the buckets in which kernels/cuda/lookup/row_select.h counts scores: 64 for
// each power of two.
#ifndef LECTERN_TESTS_KERNELS_CUDA_LOOKUP_SCORE_BUCKETS_H_
#define LECTERN_TESTS_KERNELS_CUDA_LOOKUP_SCORE_BUCKETS_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace lectern {

constexpr uint32_t kNumBuckets = 4096;
constexpr int kBucketBits = 17;
constexpr uint32_t kLeastBits = (127 - 62) << 6;

// The bucket of a score, rounded to float; scores beyond the least and the largest count to these.
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

// How many rows of each group, of `sizes` rows with one score, are among the `wanted` best; groups
// follow one another. `is_clear`: no score is so near to the cut that a rounding error decides.
struct BestOfScores {
  std::vector<uint32_t> taken;
  bool is_clear = true;
};
inline BestOfScores BestOf(const std::vector<double>& scores, const std::vector<uint32_t>& sizes,
                           uint32_t wanted) {
  std::vector<uint64_t> counts(kNumBuckets);
  for (size_t i = 0; i < scores.size(); ++i) counts[BucketOfScore(scores[i])] += sizes[i];
  uint32_t cut = kNumBuckets - 1;
  uint64_t left = wanted;
  while (cut > 0 && counts[cut] < left) left -= counts[cut--];
  BestOfScores best;
  for (size_t i = 0; i < scores.size(); ++i) {
    const uint32_t bucket = BucketOfScore(scores[i]);
    const uint64_t taken = bucket > cut    ? sizes[i]
                           : bucket == cut ? std::min<uint64_t>(left, sizes[i])
                                           : 0;
    if (bucket == cut) left -= taken;
    best.taken.push_back(static_cast<uint32_t>(taken));
    best.is_clear &= sizes[i] == 0 || !IsNearEdgeOf(scores[i], cut);
  }
  return best;
}

}  // namespace lectern

#endif  // LECTERN_TESTS_KERNELS_CUDA_LOOKUP_SCORE_BUCKETS_H_
