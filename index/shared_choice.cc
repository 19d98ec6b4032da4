#include "index/shared_choice.h"

#include <algorithm>
#include <cstring>

namespace lectern {
namespace {

// Each round tells apart this many bits of the keys: 1,024 buckets with two sums each are a message
// of 16 KiB. Two rounds leave the candidates of 12 bits, whose scores differ by less than 2^-11. By
// hand: it weighs the size of two messages against the number of candidates that are gathered.
constexpr uint32_t kRoundBits = 10;
constexpr size_t kBuckets = size_t{1} << kRoundBits;

// The bits of a key that rounds before `round` have told apart, as a number.
uint32_t PrefixOf(uint32_t key, uint32_t round) {
  return round == 0 ? 0 : key >> (32 - kRoundBits * round);
}

// A candidate as the ranks send it.
struct Message {
  uint32_t key, head, index, keys;
  double cost;
};
static_assert(sizeof(Message) == 24);

// One choice, from the first round of sums to the candidates that are looked at one by one.
class SharedChoice {
 public:
  SharedChoice(LookupPeers& peers, ArenaVector<SharedCandidate>& candidates,
               const ChoiceLimits& limits)
      : peers_(peers), candidates_(candidates), limits_(limits) {}

  Status Run(Status local, std::span<ArenaVector<uint32_t>> chosen, ChosenAmounts& amounts) {
    for (uint32_t round = 0; round < 2; ++round) {
      LECTERN_ASSIGN(const bool ends, FindEnd(std::move(local), round));
      local = {};
      if (ends) continue;
      // All candidates fit. Only the first round can find that.
      for (const SharedCandidate& candidate : candidates_) Take(candidate, chosen);
      amounts = before_;
      return {};
    }
    const auto near = std::partition(
        candidates_.begin(), candidates_.end(),
        [&](const SharedCandidate& candidate) { return PrefixOf(candidate.key, 2) < prefix_; });
    for (auto i = candidates_.begin(); i != near; ++i) Take(*i, chosen);
    return ChooseOneByOne({near, candidates_.end()}, chosen, amounts);
  }

 private:
  static void Take(const SharedCandidate& candidate, std::span<ArenaVector<uint32_t>> chosen) {
    chosen[candidate.head].push_back(candidate.index);
  }

  // Sums costs and keys by bucket over all ranks, adds to before_ the buckets that are chosen
  // whole, and lengthens prefix_ by the bucket in which the choice ends. False: it ends in none.
  Result<bool> FindEnd(Status local, uint32_t round) {
    sums_.assign(2 * kBuckets, 0.0);
    for (const SharedCandidate& candidate : candidates_) {
      if (PrefixOf(candidate.key, round) != prefix_) continue;
      const uint32_t bucket = PrefixOf(candidate.key, round + 1) % kBuckets;
      sums_[2 * bucket] += candidate.cost;
      sums_[2 * bucket + 1] += candidate.keys;
    }
    LECTERN_RETURN_IF_ERROR(peers_.Add(std::move(local), sums_));
    for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      const ChosenAmounts with = {before_.cost + sums_[2 * bucket],
                                  before_.keys + sums_[2 * bucket + 1]};
      // Up to here no candidate is passed over, and the choice has not ended yet.
      if (with.cost > limits_.most || (with.cost >= limits_.allowed && limits_.enough(with))) {
        prefix_ = prefix_ << kRoundBits | bucket;
        return true;
      }
      before_ = with;
    }
    if (round == 0) return false;
    // Sums in another order may differ in their last bits from those of the first round.
    prefix_ = prefix_ << kRoundBits | (kBuckets - 1);
    return true;
  }

  // Goes through the candidates of all ranks that share the last bucket, best first.
  Status ChooseOneByOne(std::span<const SharedCandidate> rest,
                        std::span<ArenaVector<uint32_t>> chosen, ChosenAmounts& amounts) {
    std::vector<Message> own;
    for (const SharedCandidate& candidate : rest) {
      if (PrefixOf(candidate.key, 2) != prefix_) continue;
      own.push_back(
          {candidate.key, candidate.head, candidate.index, candidate.keys, candidate.cost});
    }
    std::sort(own.begin(), own.end(), [](const Message& a, const Message& b) {
      return a.head != b.head ? a.head < b.head : a.index < b.index;
    });
    std::vector<std::byte> bytes;
    size_t first = 0;
    LECTERN_RETURN_IF_ERROR(peers_.Gather(std::as_bytes(std::span(own)), bytes, first));
    struct Entry {
      Message message;
      bool is_own;
    };
    std::vector<Entry> all(bytes.size() / sizeof(Message));
    for (size_t i = 0; i < all.size(); ++i) {
      std::memcpy(&all[i].message, bytes.data() + i * sizeof(Message), sizeof(Message));
      const size_t place = i * sizeof(Message);
      all[i].is_own = place >= first && place < first + own.size() * sizeof(Message);
    }
    std::stable_sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
      return a.message.key != b.message.key ? a.message.key < b.message.key
                                            : a.message.head < b.message.head;
    });
    amounts = before_;
    for (const Entry& entry : all) {
      const double cost = amounts.cost + entry.message.cost;
      if (cost > limits_.allowed && limits_.enough(amounts)) break;
      if (cost > limits_.most) continue;
      amounts = {cost, amounts.keys + entry.message.keys};
      if (entry.is_own) chosen[entry.message.head].push_back(entry.message.index);
    }
    return {};
  }

  LookupPeers& peers_;
  ArenaVector<SharedCandidate>& candidates_;
  const ChoiceLimits& limits_;
  std::vector<double> sums_;  // [buckets][cost, keys]
  uint32_t prefix_ = 0;       // of the bucket in which the choice ends, as far as it is known
  ChosenAmounts before_;      // of all candidates in buckets before it
};

}  // namespace

Status ChooseTogether(LookupPeers& peers, Status local, ArenaVector<SharedCandidate>& candidates,
                      const ChoiceLimits& limits, std::span<ArenaVector<uint32_t>> chosen,
                      ChosenAmounts& amounts) {
  return SharedChoice(peers, candidates, limits).Run(std::move(local), chosen, amounts);
}

}  // namespace lectern
