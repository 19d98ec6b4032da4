#include "engine/asking/token_runs.h"

#include <algorithm>
#include <bit>

namespace lectern {
namespace {

// A bucket a token: pairs that have nothing to do with each other then rarely share one.
size_t NumBuckets(size_t num_tokens) { return std::bit_ceil(std::max<size_t>(num_tokens, 256)); }

}  // namespace

void TokenRuns::Reserve(size_t num_tokens) {
  ids_.reserve(num_tokens);
  before_.reserve(num_tokens);
  if (last_.size() < NumBuckets(num_tokens)) Rebuild(NumBuckets(num_tokens));
}

uint64_t TokenRuns::Bytes(size_t num_tokens) {
  return uint64_t{num_tokens} * 8 + uint64_t{NumBuckets(num_tokens)} * 4;
}

size_t TokenRuns::BucketOf(size_t place) const {
  // Multiplicative hashing by 2^64 over the golden ratio: the high bits are the mixed ones.
  const uint64_t pair =
      uint64_t{static_cast<uint32_t>(ids_[place - 1])} << 32 | static_cast<uint32_t>(ids_[place]);
  const uint64_t mixed = (pair ^ pair >> 29) * 0x9E3779B97F4A7C15u;
  return mixed >> (64 - std::bit_width(last_.size() - 1));
}

void TokenRuns::Link(size_t place) {
  uint32_t& last = last_[BucketOf(place)];
  before_[place] = last;
  last = static_cast<uint32_t>(place);
}

void TokenRuns::Rebuild(size_t num_buckets) {
  last_.assign(num_buckets, kNone);
  for (size_t place = 1; place < ids_.size(); ++place) Link(place);
}

void TokenRuns::Append(std::span<const int32_t> ids) {
  const size_t begin = ids_.size();
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  before_.resize(ids_.size(), kNone);
  if (last_.size() < ids_.size()) return Rebuild(NumBuckets(ids_.size()));
  for (size_t place = std::max<size_t>(begin, 1); place < ids_.size(); ++place) Link(place);
}

void TokenRuns::Truncate(size_t num_tokens) {
  // The last pair of a bucket leaves it first, so that each link leads back to the one before.
  for (size_t place = ids_.size(); place-- > std::max<size_t>(num_tokens, 1);) {
    last_[BucketOf(place)] = before_[place];
  }
  ids_.resize(std::min(ids_.size(), num_tokens));
  before_.resize(ids_.size());
}

TokenRuns::Run TokenRuns::Latest() const {
  Run best;
  if (ids_.size() <= kShortestRun) return best;
  const size_t end = ids_.size() - 1;
  for (uint32_t place = before_[end]; place != kNone; place = before_[place]) {
    // The token that would make this run longer than the best one decides most places.
    if (best.length > 0 &&
        (place < best.length || ids_[place - best.length] != ids_[end - best.length])) {
      continue;
    }
    const size_t most = std::min<size_t>(kLongestRun, size_t{place} + 1);
    size_t length = 0;
    while (length < most && ids_[place - length] == ids_[end - length]) ++length;
    if (length < kShortestRun || length <= best.length) continue;
    best = {length, size_t{place} + 1};
    if (length == kLongestRun) break;
  }
  return best;
}

int32_t TokenRuns::At(const Run& run, size_t ahead) const {
  const size_t period = ids_.size() - run.next;
  return ids_[run.next + ahead % period];
}

}  // namespace lectern
