#include "engine/model/template/sampled_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lectern {

// log(sum exp(x)) = m + log(sum exp(x - m)) with the largest logit m, so that exp cannot overflow.
// If m is infinite, so is the sum.
LogProbabilities::LogProbabilities(std::span<const float> logits) : logits_(logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float logit : logits) {
    if (!std::isnan(logit)) largest = std::max(largest, static_cast<double>(logit));
  }
  if (!std::isfinite(largest)) {
    log_sum_ = largest;
    return;
  }
  double sum = 0;
  for (const float logit : logits) {
    if (!std::isnan(logit)) sum += std::exp(static_cast<double>(logit) - largest);
  }
  log_sum_ = largest + std::log(sum);
}

// Rounding may bring a sure token a little above 0; infinity less infinity is NaN.
double LogProbabilities::Of(int32_t id) const {
  const auto logit = static_cast<double>(logits_[static_cast<size_t>(id)]);
  const double logprob = logit - log_sum_;
  return std::isnan(logprob) ? -std::numeric_limits<double>::infinity() : std::min(logprob, 0.0);
}

std::vector<int32_t> LogProbabilities::Likeliest(size_t count) const {
  std::vector<int32_t> ids(logits_.size());
  std::iota(ids.begin(), ids.end(), 0);
  count = std::min(count, ids.size());
  const auto logit = [&](int32_t id) {
    const float value = logits_[static_cast<size_t>(id)];
    return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
  };
  // Only the first `count` are sorted: a vocabulary has 100,000 tokens and more.
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(),
      [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  ids.resize(count);
  return ids;
}

void SampledTokens::Push(int32_t id, std::span<const float> logits, bool was_thinking,
                         uint64_t brought_before) {
  if (!on_token_) return;
  if (text_.is_thinking()) waiting_.clear();  // what looked like the answer's beginning was a mark
  const bool is_of_answer =
      !was_thinking && !text_.is_thinking() && tokenizer_.ControlText(id).empty();
  if (is_of_answer && logits.empty()) {
    const LikelyToken sure = {id, 0, tokenizer_.TokenBytes(id)};
    waiting_.push_back({sure, {}, brought_before, text_.num_brought()});
    if (num_likeliest_ > 0) waiting_.back().likeliest = {sure};
  } else if (is_of_answer) {
    const LogProbabilities probabilities(logits);
    const auto describe = [&](int32_t token) {
      return LikelyToken{token, probabilities.Of(token), tokenizer_.TokenBytes(token)};
    };
    Waiting waiting{describe(id), {}, brought_before, text_.num_brought()};
    if (num_likeliest_ > 0) {
      for (const int32_t token : probabilities.Likeliest(num_likeliest_)) {
        waiting.likeliest.push_back(describe(token));
      }
    }
    waiting_.push_back(std::move(waiting));
  }
  Tell();
}

// A token that brings no bytes, as one inside an unfinished character does, waits for the token
// that brings the character's last byte, so that tokens come in their order.
void SampledTokens::Tell() {
  const auto is_shown = [&](const Waiting& token) {
    return token.end < text_.num_settled() ||
           (token.begin < token.end && token.end == text_.num_settled());
  };
  while (!waiting_.empty() && is_shown(waiting_.front())) {
    const Waiting& first = waiting_.front();
    on_token_({first.token, first.likeliest});
    waiting_.pop_front();
  }
}

// Behind a stop text nothing is told. A token that begins before it is: a part of its text was
// shown.
void SampledTokens::Flush() {
  for (const Waiting& token : waiting_) {
    if (text_.is_stopped() && token.begin >= text_.num_settled()) break;
    on_token_({token.token, token.likeliest});
  }
  waiting_.clear();
}

}  // namespace lectern
