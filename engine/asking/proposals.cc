#include "engine/asking/proposals.h"

#include <algorithm>
#include <bit>

namespace lectern {
namespace {

// Averages are over about so many of the latest tokens: a part of an answer that quotes the
// document has that many, and another part may not quote it. By hand.
constexpr double kLatestTokens = 32;
// Tokens in a second that proposals must gain, in multiples of those without: what is saved is
// estimated, and so is the cost. By hand; a wrong value costs time alone.
constexpr double kLeastGain = 1.05;

}  // namespace

size_t HitRates::GroupOf(size_t length) {
  // 2, 3, 4 to 7, 8 to 15, 16 to 31, more.
  if (length < 4) return length < 3 ? 0 : 1;
  return std::min<size_t>(std::bit_width(length) - 1, kGroups - 1);
}

void HitRates::Count(size_t length, bool is_hit) {
  Rate& rate = rates_[GroupOf(length)];
  rate.hits += (is_hit ? 1 : 0) - rate.hits / kLatestTokens;
  rate.tokens += 1 - rate.tokens / kLatestTokens;
}

// With a hit and a miss that were not seen (Laplace's rule of succession).
double HitRates::Of(size_t length) const {
  const Rate& rate = rates_[GroupOf(length)];
  return (rate.hits + 1) / (rate.tokens + 2);
}

void Proposals::Begin(std::span<const int32_t> document, std::span<const int32_t> conversation,
                      std::span<const int32_t> question, size_t room) {
  runs_.Reserve(document.size() + conversation.size() + question.size() + room);
  if (document_tokens_ == 0) {
    runs_.Append(document);
    document_tokens_ = document.size();
  }
  runs_.Truncate(document_tokens_);
  runs_.Append(conversation);
  runs_.Append(question);
  run_ = runs_.Latest();
}

void Proposals::Drew(int32_t id) {
  const bool is_hit = run_.length > 0 && runs_.At(run_, 0) == id;
  if (run_.length > 0) rates_.Count(run_.length, is_hit);
  runs_.Append({&id, 1});
  if (is_hit) {
    // No other run can be longer now, because it would have been longer before.
    run_.length = std::min(run_.length + 1, TokenRuns::kLongestRun);
    ++run_.next;
  } else {
    run_ = runs_.Latest();
  }
}

// Chooses the number that gives the most tokens in a second to all sessions that share the pass.
// Passes have a power of two rows, because kernels work on tiles of 1, 2, 4 and 8 rows: three rows
// may take longer than four (kernels/packed_matmul_simd.cc).
std::span<const int32_t> Proposals::Next(size_t most, const Costs& costs) {
  has_declined_ = false;
  if (run_.length == 0 || most == 0) return {};
  const auto others = static_cast<double>(costs.num_sessions);
  const auto rate_of = [&](size_t count, double tokens) {
    const double attention =
        costs.linear.is_known() ? (others + static_cast<double>(count)) * costs.attention : 0;
    return tokens / (costs.linear.Of(costs.num_sessions + count) + attention);
  };
  size_t best = 0;
  double best_rate = kLeastGain * rate_of(0, others), all_hit = 1, tokens = others;
  for (size_t count = 1; count <= std::min(most, kMostProposed); ++count) {
    all_hit *= rates_.Of(run_.length + count - 1);
    tokens += all_hit;
    if (!std::has_single_bit(costs.num_sessions + count)) continue;
    const double rate = rate_of(count, tokens);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = count;
  }
  has_declined_ = best == 0;
  for (size_t i = 0; i < best; ++i) proposed_[i] = runs_.At(run_, i);
  return std::span(proposed_).first(best);
}

}  // namespace lectern
