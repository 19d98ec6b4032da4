// Tells a caller which tokens an answer was made of, and how likely each was, at the time when the
// text of each is shown.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_SAMPLED_TOKENS_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_SAMPLED_TOKENS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model/template/answer_text.h"
#include "engine/model/tokenizer/tokenizer.h"

namespace lectern {

// A token and the logarithm of its probability: of the softmax of the model's own logits, before
// temperature, penalties, biases and the choice of the likeliest.
struct LikelyToken {
  int32_t id = 0;
  double logprob = 0;      // at most 0; -infinity for a token whose logit is NaN
  std::string_view bytes;  // what it stands for in running text; not always whole characters
};
struct SampledToken : LikelyToken {
  std::span<const LikelyToken> likeliest;  // as many as were asked for, the likeliest first
};

// Turns one step's logits into log-probabilities. NaN logits count as impossible.
class LogProbabilities {
 public:
  explicit LogProbabilities(std::span<const float> logits);
  double Of(int32_t id) const;
  std::vector<int32_t> Likeliest(size_t count) const;  // among equals the lower id first

 private:
  std::span<const float> logits_;
  double log_sum_ = 0;  // of the exponentials
};

// Hands each token of the answer to `on_token` when its text is no longer held back, in their
// order. Thoughts, control tokens and what a stop text cut off are not told. One thread.
class SampledTokens {
 public:
  using Receiver = std::function<void(const SampledToken&)>;
  // Does nothing where `on_token` is empty. All arguments must outlive this.
  SampledTokens(const Tokenizer& tokenizer, const AnswerText& text, size_t num_likeliest,
                const Receiver& on_token)
      : tokenizer_(tokenizer), text_(text), num_likeliest_(num_likeliest), on_token_(on_token) {}

  // A token that `text` has just taken, drawn from these logits. `was_thinking` and
  // `brought_before` are `text`'s before it took the token.
  void Push(int32_t id, std::span<const float> logits, bool was_thinking, uint64_t brought_before);
  void Flush();  // after that of `text`

 private:
  struct Waiting {
    LikelyToken token;
    std::vector<LikelyToken> likeliest;
    uint64_t begin, end;  // bytes of the answer, as AnswerText::num_brought counts them
  };
  void Tell();

  const Tokenizer& tokenizer_;
  const AnswerText& text_;
  const size_t num_likeliest_;
  const Receiver& on_token_;
  std::deque<Waiting> waiting_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_SAMPLED_TOKENS_H_
