#include "engine/asking/tokens_ahead.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace lectern {
namespace {

// The time of a token's attention is an average over about so many of the latest passes. By hand.
constexpr double kLatestPasses = 8;

}  // namespace

uint64_t TokensAhead::Bytes(const Shape& shape) {
  return uint64_t{kMostApart} * shape.vocab * sizeof(float) +
         uint64_t{kMostProposed} * shape.num_sums() * shape.document_tokens * sizeof(double);
}

// Memory that no pass comes to use is not touched, so it costs nothing.
void TokensAhead::Begin(const Shape& shape, bool has_limit, RamLimit::Share share) {
  has_limit_ = has_limit;
  share_ = std::move(share);
  if (!logits_ || shape.vocab != shape_.vocab) {
    logits_ = std::make_unique_for_overwrite<float[]>(kMostApart * shape.vocab);
  }
  const size_t sum_numbers = shape.num_sums() * shape.document_tokens;
  if (!sum_numbers_ || shape_.num_sums() * shape_.document_tokens != sum_numbers) {
    sum_numbers_ = std::make_unique_for_overwrite<double[]>(kMostProposed * sum_numbers);
  }
  shape_ = shape;
  for (size_t i = 0; i < kMostProposed; ++i) {
    double* from = sum_numbers_.get() + i * sum_numbers;
    sums_[i] = {};
    if (shape.has_squares) {
      sums_[i].squares = {std::exchange(from, from + shape.document_tokens), shape.document_tokens};
    }
    if (shape.has_retrieved) sums_[i].retrieved = {from, shape.document_tokens};
  }
  num_tokens_ = num_waiting_ = next_ = 0;
  num_proposed_ = num_accepted_ = 0;
  is_on_ = true;
}

void TokensAhead::End() {
  is_on_ = false;
  Drop();
  if (!has_limit_) return;
  logits_.reset();
  sum_numbers_.reset();
  share_ = RamLimit::Share();
}

void TokensAhead::BeginPass(int32_t drawn, std::span<const int32_t> proposed) {
  assert(!proposed.empty() && proposed.size() <= kMostProposed);
  ids_[0] = drawn;
  std::ranges::copy(proposed, ids_.begin() + 1);
  num_tokens_ = proposed.size() + 1;
  num_waiting_ = 0;
  for (const TokenSums& sums : this->sums()) {
    std::ranges::fill(sums.squares, 0.0);
    std::ranges::fill(sums.retrieved, 0.0);
  }
}

void TokensAhead::EndPass(std::span<const StepRead> reads) {
  std::ranges::copy(reads, reads_.begin());
  num_proposed_ += num_tokens_ - 1;
  num_waiting_ = num_tokens_;
  next_ = 1;
}

bool TokensAhead::Take(int32_t id) {
  if (!is_waiting() || ids_[next_] != id) return false;
  ++next_;
  ++num_accepted_;
  return true;
}

void TokensAhead::AddSums(AttentionSums& sums) const {
  const TokenSums& taken = sums_[next_ - 2];
  const auto add = [](std::span<const double> from, std::vector<double>& to) {
    for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  };
  add(taken.squares, sums.squares);
  add(taken.retrieved, sums.retrieved);
}

void TokensAhead::TookAttention(double seconds, size_t num_tokens) {
  const double each = seconds / static_cast<double>(num_tokens);
  attention_ = attention_ == 0 ? each : attention_ + (each - attention_) / kLatestPasses;
}

}  // namespace lectern
