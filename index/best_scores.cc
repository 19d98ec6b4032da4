#include "index/best_scores.h"

#include <algorithm>
#include <bit>

#include "index/head_lookup.h"

namespace lectern {
namespace {

// Buckets of scores (>= 0) that share their exponent and the upper bits of their mantissa; larger
// scores are in later buckets.
class Buckets {
 public:
  // Four bits of the mantissa for many scores, two for few: to clear the counts would take as long
  // as to count. The limit is by hand, and no measurement of others is on record; it changes the
  // speed alone.
  explicit Buckets(size_t num_scores) : shift_(num_scores < kFewScores ? 21 : 19) {}
  size_t size() const { return size_t{1} << (31 - shift_); }
  size_t Of(float score) const { return (std::bit_cast<uint32_t>(score) & kNoSign) >> shift_; }
  float LeastOf(size_t bucket) const {
    return std::bit_cast<float>(static_cast<uint32_t>(bucket) << shift_);
  }

 private:
  static constexpr size_t kFewScores = 1 << 14;
  static constexpr uint32_t kNoSign = 0x7FFFFFFF;
  int shift_;
};

// Counts the scores of each bucket in two sets, [2, buckets], used by turns: consecutive scores
// often share a bucket, and incrementing the same counter would make each wait for the one before.
void CountScores(std::span<const float> scores, const Buckets& buckets, Reused<uint32_t>& counts) {
  const std::span<uint32_t> sets = counts.Resize(2 * buckets.size());
  std::ranges::fill(sets, 0);
  for (size_t i = 0; i < scores.size(); ++i) {
    ++sets[i % 2 * buckets.size() + buckets.Of(scores[i])];
  }
}

// Indices of the scores that are at least `least`. Without a branch, as above.
void FindFrom(float least, std::span<const float> scores, Reused<uint32_t>& indices) {
  const std::span<uint32_t> found = indices.Resize(scores.size() + 1);
  size_t count = 0;
  for (uint32_t i = 0; i < scores.size(); ++i) {
    found[count] = i;
    count += scores[i] >= least;
  }
  indices.Resize(count);
}

// Drops the `surplus` least of `chosen`, all of which are below `above`; among equals the last
// ones go.
void DropLeast(size_t surplus, float above,
               FunctionRef<std::span<const float>(size_t head)> scores_of, Arena* arena,
               PerHead& chosen) {
  size_t count = 0;
  ArenaVector<float> edge(arena);
  for (size_t h = 0; h < chosen.size(); ++h) {
    const std::span<const float> scores = scores_of(h);
    edge.resize(count + chosen[h].size() + 1);
    for (const uint32_t i : chosen[h]) {
      edge[count] = scores[i];
      count += scores[i] < above;
    }
  }
  edge.resize(count);
  const auto cut = edge.begin() + static_cast<ptrdiff_t>(surplus - 1);
  std::nth_element(edge.begin(), cut, edge.end());
  const float most = *cut;                                // the largest score that goes
  auto equals = std::count(edge.begin(), cut + 1, most);  // how many of those equal to it go
  for (size_t h = chosen.size(); h-- > 0;) {
    const std::span<const float> scores = scores_of(h);
    auto end = chosen[h].end();
    for (auto i = end; i != chosen[h].begin() && equals > 0;) {
      if (scores[*--i] != most) continue;
      end = std::move(i + 1, end, i);
      --equals;
    }
    auto kept = chosen[h].begin();
    // Without a branch, which would be mispredicted half of the time.
    for (auto i = kept; i != end; ++i) {
      const uint32_t index = *i;
      *kept = index;
      kept += scores[index] >= most;
    }
    chosen[h].erase(kept, chosen[h].end());
  }
}

}  // namespace

// A histogram finds the bucket of the least kept score, so that only the surplus of that bucket has
// to be sorted out.
void ChooseBestScores(double count, FunctionRef<std::span<const float>(size_t head)> scores_of,
                      ThreadPool& threads, std::vector<HeadBuffers>& buffers, Arena* arena,
                      PerHead& chosen) {
  const size_t num_heads = chosen.size();
  size_t total = 0, most = 0;
  for (size_t h = 0; h < num_heads; ++h) {
    total += scores_of(h).size();
    most = std::max(most, scores_of(h).size());
  }
  const Buckets bucket(most);
  threads.ParallelFor(
      num_heads, [&](size_t h, size_t) { CountScores(scores_of(h), bucket, buffers[h].counts); });
  const auto kept = std::min(total, static_cast<size_t>(std::max(0.0, count)));
  for (auto& indices : chosen) indices.clear();
  if (kept == 0) return;
  // Last: bucket of the least kept score; reached: scores in it and above.
  size_t last = bucket.size(), reached = 0;
  while (reached < kept) {
    --last;
    for (size_t h = 0; h < num_heads; ++h) {
      const uint32_t* const counts = buffers[h].counts.data();
      reached += counts[last] + counts[bucket.size() + last];
    }
  }
  threads.ParallelFor(num_heads, [&](size_t h, size_t) {
    FindFrom(bucket.LeastOf(last), scores_of(h), buffers[h].found);
  });
  size_t found = 0;
  for (size_t h = 0; h < num_heads; ++h) {
    const std::span<const uint32_t> indices = buffers[h].found.span();
    chosen[h].assign(indices.begin(), indices.end());
    found += indices.size();
  }
  if (found > kept) DropLeast(found - kept, bucket.LeastOf(last + 1), scores_of, arena, chosen);
}

}  // namespace lectern
