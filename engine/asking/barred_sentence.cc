#include "engine/asking/barred_sentence.h"

#include <cassert>
#include <cmath>
#include <utility>

namespace lectern {

BarredSentence::BarredSentence(std::vector<int32_t> ids, std::vector<double> logprobs)
    : ids_(std::move(ids)), penalties_(ids_.size()) {
  assert(!ids_.empty() && logprobs.size() == ids_.size());
  double rest = 0;  // logarithm of the probability of the tokens behind
  for (size_t i = ids_.size(); i > 0; --i) {
    penalties_[i - 1] = std::log(-std::expm1(rest));  // ln(1 - e^rest): -infinity for the last
    rest += logprobs[i - 1];
  }
}

std::span<const float> BarredSentence::Condition(std::span<const float> logits) {
  if (!is_open_) return logits;
  logits_.assign(logits.begin(), logits.end());
  logits_[static_cast<size_t>(ids_[num_pushed_])] += static_cast<float>(penalties_[num_pushed_]);
  return logits_;
}

void BarredSentence::Push(int32_t id) {
  if (!is_open_) return;
  is_open_ = id == ids_[num_pushed_] && ++num_pushed_ < ids_.size();
}

}  // namespace lectern
