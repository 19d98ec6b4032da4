// Decides whether a session's answer is the model's own sentence for "the document does not say",
// by the probability that the model gives to it.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "engine/asking/ask.h"
#include "engine/asking/barred_sentence.h"
#include "engine/model/formats/text.h"
#include "engine/model/template/sampled_tokens.h"

namespace lectern {
namespace {

// ln(p / (1 - p)) of a probability p with this natural logarithm; a p of 1 counts as a little less.
double LogOddsOf(double logprob) {
  const double below = std::min(logprob, -1e-12);
  return below - std::log(-std::expm1(below));
}

// The probability whose log-odds are the mean of those of two probabilities, which are given by
// their logarithms.
double MeanByOdds(double first, double second) {
  return 1 / (1 + std::exp(-(LogOddsOf(first) + LogOddsOf(second)) / 2));
}

}  // namespace

Result<std::vector<int32_t>> DocumentSession::RefusalTokens(const NextPrompt& next,
                                                            uint64_t room) const {
  const Adapter* const adapter = model_->adapter();
  if (adapter == nullptr || !adapter->settings().refusal || next.is_thinking ||
      probe_.leads_layers() || probe_.on_token || !probe_.answer.empty()) {
    return std::vector<int32_t>();
  }
  LECTERN_ASSIGN(TokenizedText sentence,
                 model_->tokenizer().EncodeContinuation(adapter->settings().refusal->text));
  if (sentence.ids.size() > room) sentence.ids.clear();
  return std::move(sentence.ids);
}

// Runs all tokens but the last, whose probability follows from the row before it, in one pass
// behind the question, and takes their rows away again.
Result<std::vector<double>> DocumentSession::LogProbabilitiesOf(std::span<const int32_t> ids,
                                                                double kv_budget,
                                                                const AskOptions& options) {
  std::vector<double> logprobs = {LogProbabilities(buffers_.logits).Of(ids.front())};
  if (ids.size() == 1) return logprobs;
  LECTERN_RETURN_IF_ERROR(attention_.CollectSums());
  const std::vector<float> first = buffers_.logits;
  const Totals totals = totals_;
  AttentionSums kept;
  kept.heads = sums_.heads;
  std::swap(kept, sums_);
  totals_.is_aside = true;
  const size_t num_rows = ids.size() - 1;
  const Status status = Step(ids.first(num_rows), kv_budget, options.tail, options.cancel).status();
  Status ended = status.ok() ? attention_.CollectSums() : status;
  if (ended.ok()) conversation_.Truncate(conversation_.num_tokens() - num_rows);
  // Step left the logits of the last row; a pass of that row alone may have run elsewhere.
  const size_t vocab = buffers_.logits.size(), num_others = num_rows - 1;
  std::vector<float> others(num_others * vocab);
  if (ended.ok() && num_others > 0) {
    ended = transformer_.Logits(0, num_others, *buffers_.activations,
                                {others.data(), num_others, vocab});
  }
  if (ended.ok()) {
    for (size_t i = 0; i < num_others; ++i) {
      logprobs.push_back(LogProbabilities({others.data() + i * vocab, vocab}).Of(ids[i + 1]));
    }
    logprobs.push_back(LogProbabilities(buffers_.logits).Of(ids.back()));
  }
  sums_ = std::move(kept);
  // The receipt counts all bytes; its shares are those of the question and the answer.
  const StepRead read = totals_.all;
  totals_ = totals;
  totals_.all.bytes = read.bytes, totals_.all.window_bytes = read.window_bytes;
  buffers_.logits = first;
  if (!ended.ok()) return ended;
  return logprobs;
}

bool DocumentSession::SaysRefusal(const Answer& answer) const {
  if (answer.is_refused) return true;
  const Adapter* const adapter = model_->adapter();
  return adapter != nullptr && adapter->settings().refusal &&
         TrimWhiteSpace(answer.text) == TrimWhiteSpace(adapter->settings().refusal->text);
}

Status DocumentSession::DecideRefusal(std::vector<int32_t> refusal, double kv_budget,
                                      const AskOptions& options, NextPrompt& next, Answer& answer) {
  LECTERN_ASSIGN(const std::vector<double> logprobs,
                 LogProbabilitiesOf(refusal, kv_budget, options));
  const double logprob = std::accumulate(logprobs.begin(), logprobs.end(), 0.0);
  const double threshold =
      options.refuse_at > 0 ? options.refuse_at : model_->adapter()->settings().refusal->threshold;
  answer.refusal_probability = totals_.unfocused_refusal
                                   ? MeanByOdds(*totals_.unfocused_refusal, logprob)
                                   : std::exp(logprob);
  const bool is_likely = threshold < 1 && answer.refusal_probability >= threshold;
  if (is_likely && next.constraint) {
    Warn(options, "refusal_likely",
         "the model would rather have said that the document does not answer this", answer);
    return {};
  }
  answer.is_refused = is_likely;
  if (is_likely) {
    next.refusal = std::move(refusal);
  } else if (threshold < 1 && (!next.constraint || next.constraint->has_plain())) {
    next.barred = std::make_unique<BarredSentence>(std::move(refusal), logprobs);
  }
  return {};
}

}  // namespace lectern
