// Keeps an answer from being one given sentence, such as a refusal that was found too unlikely. All
// other answers keep their proportions: tokens are drawn from the model's distribution on condition
// that the answer does not begin with the sentence.
#ifndef LECTERN_ENGINE_ASKING_BARRED_SENTENCE_H_
#define LECTERN_ENGINE_ASKING_BARRED_SENTENCE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace lectern {

// The sentence's first tokens may still be drawn, because "The" begins many answers: a token counts
// as likely as the answers that begin with it and do not go on to the whole sentence. Greedy
// decoding so leaves the sentence at the first token where most answers go on to it. One thread.
class BarredSentence {
 public:
  // `ids`: the sentence's tokens, 1 or more. `logprobs`: as many natural logarithms, of each
  // token's probability after the question and those before it, at most 0.
  BarredSentence(std::vector<int32_t> ids, std::vector<double> logprobs);
  // Whether all tokens that were pushed are the sentence's first, and not yet all of it.
  bool is_open() const { return is_open_; }
  // Returns the logits [vocabulary] of the token after those that were pushed, lowered for the
  // sentence's own: by ln(1 - p), where p is the probability that the rest of the sentence follows
  // it; its last token gets -infinity. Returns `logits` themselves unless is_open(). The view ends
  // with the next call. May throw bad_alloc.
  std::span<const float> Condition(std::span<const float> logits);
  // Takes the token that was drawn.
  void Push(int32_t id);

 private:
  std::vector<int32_t> ids_;
  std::vector<double> penalties_;  // of each token, <= 0
  std::vector<float> logits_;
  size_t num_pushed_ = 0;
  bool is_open_ = true;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_BARRED_SENTENCE_H_
