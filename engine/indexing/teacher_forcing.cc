#include "engine/indexing/teacher_forcing.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

struct SoftmaxSums {
  double largest, log_sum;  // log_sum: of exp(logit - largest)
};

SoftmaxSums SumsOf(std::span<const float> logits) {
  const float largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += double{std::exp(logit - largest)};
  return {double{largest}, std::log(sum)};
}

size_t Likeliest(std::span<const float> logits) {
  return static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
}

// Watches a session's answer for as long as it lives.
class Watch {
 public:
  Watch(DocumentSession& session, std::span<const int32_t> answer,
        std::function<void(std::span<const float>, int32_t)> on_token)
      : probe_(session.probe()) {
    probe_.answer = answer;
    probe_.on_token = std::move(on_token);
  }
  ~Watch() {
    probe_.answer = {};
    probe_.on_token = {};
  }
  Watch(const Watch&) = delete;

 private:
  Probe& probe_;
};

}  // namespace

double Divergence(std::span<const float> exact, std::span<const float> other) {
  const SoftmaxSums p = SumsOf(exact), q = SumsOf(other);
  double divergence = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double log_p = exact[i] - p.largest - p.log_sum;
    // A token this unlikely adds less than 1e-12, whatever the other distribution says of it.
    if (log_p < -32) continue;
    divergence += std::exp(log_p) * (log_p - (other[i] - q.largest - q.log_sum));
  }
  return std::max(0.0, divergence);
}

Result<ExactAnswer> AskExactly(DocumentSession& session, std::string_view question,
                               AskOptions options) {
  options.kv_budget = 1;
  options.sampling = {};
  ExactAnswer exact;
  const Watch watch(session, {}, [&](std::span<const float> logits, int32_t id) {
    exact.ids.push_back(id);
    exact.logits.emplace_back(logits.begin(), logits.end());
  });
  LECTERN_ASSIGN(exact.answer, session.Ask(question, options));
  return exact;
}

Result<ForcedAnswer> AskForced(DocumentSession& session, std::string_view question,
                               const ExactAnswer& exact, const AskOptions& options) {
  ForcedAnswer forced;
  const Watch watch(session, exact.ids, [&](std::span<const float> logits, int32_t) {
    const std::vector<float>& other = exact.logits[forced.divergences.size()];
    forced.divergences.push_back(Divergence(other, logits));
    forced.num_same += Likeliest(logits) == Likeliest(other);
  });
  AskOptions same_length = options;
  same_length.max_tokens = static_cast<uint32_t>(exact.ids.size());
  LECTERN_ASSIGN(forced.answer, session.Ask(question, same_length));
  return forced;
}

}  // namespace lectern
