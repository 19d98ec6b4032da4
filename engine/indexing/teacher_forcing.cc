#include "engine/indexing/teacher_forcing.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

// Sum and largest logit of a softmax; `exponentials`: exp(logit - largest) of each.
struct Softmax {
  std::vector<float> exponentials;
  double largest = 0, sum = 0;

  double log_sum() const { return largest + std::log(sum); }
};

Softmax SoftmaxOf(const Backend& backend, std::span<const float> logits) {
  Softmax softmax = {{logits.begin(), logits.end()}, double{*std::ranges::max_element(logits)}, 0};
  const float reference = static_cast<float>(softmax.largest);
  backend.exp_rows(
      {.logits = {softmax.exponentials.data(), 1, logits.size()}, .reference = {&reference, 1}});
  for (const float exponential : softmax.exponentials) softmax.sum += double{exponential};
  return softmax;
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

// sum_i p_i (log p_i - log q_i) = sum_i p_i (x_i - y_i) - log sum exp x + log sum exp y.
double Divergence(const Backend& backend, std::span<const float> exact,
                  std::span<const float> other) {
  const Softmax p = SoftmaxOf(backend, exact), q = SoftmaxOf(backend, other);
  double mean = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    mean += double{p.exponentials[i]} * (double{exact[i]} - double{other[i]});
  }
  return std::max(0.0, mean / p.sum - p.log_sum() + q.log_sum());
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
    forced.divergences.push_back(Divergence(session.backend(), other, logits));
    forced.num_same += Likeliest(logits) == Likeliest(other);
  });
  AskOptions same_length = options;
  same_length.max_tokens = static_cast<uint32_t>(exact.ids.size());
  LECTERN_ASSIGN(forced.answer, session.Ask(question, same_length));
  return forced;
}

}  // namespace lectern
