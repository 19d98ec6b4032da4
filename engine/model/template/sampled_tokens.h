// Tells a caller which tokens an answer was made of and how likely each was, when the text of each
// is shown (AskOptions::on_token; the field logprobs of OpenAI's format).
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

// A token and the natural logarithm of its probability: the softmax of the model's own logits,
// before temperature, penalties, biases and the choice of the likeliest.
struct LikelyToken {
  int32_t id = 0;
  double logprob = 0;      // at most 0; -infinity for a token whose logit is NaN
  // The bytes that it stands for in running text, not always whole characters; a view into the
  // tokenizer.
  std::string_view bytes;
};
// A token of the answer, and the likeliest tokens in its place, which need not include it.
struct SampledToken : LikelyToken {
  // As many as were asked for, at most the vocabulary's, the likeliest first. Valid during the call
  // of the receiver.
  std::span<const LikelyToken> likeliest;
};

// Turns one step's logits [vocabulary] into log-probabilities, summed in double. NaN logits count
// as impossible; if a logit is +infinity, all tokens do. Borrows the logits.
class LogProbabilities {
 public:
  explicit LogProbabilities(std::span<const float> logits);
  // The log-probability of a token of the vocabulary, which is not checked; at most 0, -infinity
  // for a NaN.
  double Of(int32_t id) const;
  // The likeliest first, among equals the lower id; all where `count` is more than the vocabulary.
  std::vector<int32_t> Likeliest(size_t count) const;

 private:
  std::span<const float> logits_;
  double log_sum_ = 0;  // of the exponentials
};

// Hands each token of the answer to `on_token` when its text is no longer held back, in their
// order. Left out are thoughts, control tokens, and tokens whose text a stop text cut off. A token
// whose text is partly shown is told. One thread.
class SampledTokens {
 public:
  using Receiver = std::function<void(const SampledToken&)>;
  // `num_likeliest`: tokens in SampledToken::likeliest; may be 0. Does nothing where `on_token` is
  // empty. `tokenizer`, `text` and `on_token` must outlive this.
  SampledTokens(const Tokenizer& tokenizer, const AnswerText& text, size_t num_likeliest,
                const Receiver& on_token)
      : tokenizer_(tokenizer), text_(text), num_likeliest_(num_likeliest), on_token_(on_token) {}

  // Takes a token that `text` has just taken, and the logits [vocabulary] that it was drawn from;
  // none: it was the only one that could come.
  // `was_thinking` and `brought_before`: text.is_thinking() and text.num_brought() before `text`
  // took it.
  void Push(int32_t id, std::span<const float> logits, bool was_thinking, uint64_t brought_before);
  void Flush();  // tells the rest; call it after text.Flush()

 private:
  // A token whose text is not shown yet.
  struct Waiting {
    LikelyToken token;
    std::vector<LikelyToken> likeliest;
    uint64_t begin, end;  // bytes of the answer, as AnswerText::num_brought counts them
  };
  // Tells the tokens whose text is shown by now.
  void Tell();

  const Tokenizer& tokenizer_;
  const AnswerText& text_;
  const size_t num_likeliest_;
  const Receiver& on_token_;
  std::deque<Waiting> waiting_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_SAMPLED_TOKENS_H_
