// The order in which a lookup opens and reads clusters: candidates of all heads of a layer, the
// best first.
#ifndef LECTERN_INDEX_BEST_FIRST_H_
#define LECTERN_INDEX_BEST_FIRST_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>

#include "index/reused.h"

namespace lectern {

// A cluster of one head that may be opened or read.
struct RankedCluster {
  float score;  // S, or S times N where the rule orders by mass
  bool wanted;  // true: the rule reads it while the budget allows; false: only to fill the budget
  uint16_t head;
  uint32_t index;     // number of the cluster in its level
  uint32_t num_keys;  // of the cluster
};

// A number that orders candidates by its bits: wanted ones before others, then by score. Ascending
// keys mean descending scores (>= 0 and no NaN), because the bits of such a float are ordered as it
// is.
inline uint32_t DescendingKey(float score, bool wanted) {
  return (wanted ? 0x7FFFFFFF : 0xFFFFFFFF) - (std::bit_cast<uint32_t>(score) & 0x7FFFFFFF);
}

// Delivers candidates best first: wanted ones before others, then by score, equal ones in their
// given order. Scores are >= 0 and no NaN, which is not checked. A step uses only the first few of
// thousands, so candidates are dealt into buckets and a bucket is sorted when it is reached.
class BestFirst {
 public:
  // Takes the candidates; its own memory comes from `arena`, which is not nullptr. Neither `arena`
  // nor one that the candidates came from is reset while this object lives.
  BestFirst(ArenaVector<RankedCluster> candidates, Arena* arena)
      : candidates_(std::move(candidates)), keys_(candidates_.size(), arena) {
    for (const RankedCluster& candidate : candidates_) ++ends_[KeyOf(candidate) >> kLowBits];
    std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), 0u);
    for (uint32_t i = 0; i < candidates_.size(); ++i) {
      const uint32_t key = KeyOf(candidates_[i]);
      keys_[ends_[key >> kLowBits]++] = uint64_t{key} << 32 | i;
    }
  }

  // The next candidate, which this object keeps; nullptr: there are no more.
  const RankedCluster* Next() {
    if (next_ == keys_.size()) return nullptr;
    if (next_ == sorted_) {
      sorted_ = ends_[keys_[next_] >> (32 + kLowBits)];
      std::sort(keys_.begin() + next_, keys_.begin() + sorted_);
    }
    return &candidates_[static_cast<uint32_t>(keys_[next_++])];
  }

 private:
  // Above them: `wanted`, the exponent and 3 bits of mantissa.
  static constexpr uint32_t kLowBits = 20;
  static uint32_t KeyOf(const RankedCluster& candidate) {
    return DescendingKey(candidate.score, candidate.wanted);
  }

  ArenaVector<RankedCluster> candidates_;
  ArenaVector<uint64_t> keys_;  // key, and the place among candidates_
  std::array<uint32_t, 1 << (32 - kLowBits)> ends_{};
  uint32_t next_ = 0, sorted_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_INDEX_BEST_FIRST_H_
