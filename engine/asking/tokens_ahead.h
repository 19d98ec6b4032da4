// Tokens of an answer whose steps were taken before they were drawn: lookup decoding's pass checks
// proposed tokens together with the one before them, and keeps here what each of them left, until
// it turns out to be the token that is drawn.
#ifndef LECTERN_ENGINE_ASKING_TOKENS_AHEAD_H_
#define LECTERN_ENGINE_ASKING_TOKENS_AHEAD_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/asking/proposals.h"
#include "engine/attention/step.h"
#include "kernels/types.h"
#include "store/ram_limit.h"

namespace lectern {

// One session's. One thread at a time.
class TokensAhead {
 public:
  // Sizes of what a token leaves.
  struct Shape {
    size_t vocab = 0, document_tokens = 0;
    bool has_squares = false, has_retrieved = false;  // of AttentionSums
    size_t num_sums() const { return size_t{has_squares} + size_t{has_retrieved}; }
  };
  // Bytes that Begin takes, beside the proposals.
  static uint64_t Bytes(const Shape& shape);

  // Begins an answer: takes memory, which later answers of the same shape find, and forgets the
  // tokens and counts of the answer before. May throw bad_alloc.
  // `has_limit`: memory is limited, and `share` is what Begin takes of it.
  void Begin(const Shape& shape, bool has_limit, RamLimit::Share share);
  // Ends the answer. Gives reserved memory back where there is a limit.
  void End();
  bool is_on() const { return is_on_; }  // between Begin and End
  Proposals& proposals() { return proposals_; }

  // Begins a pass over a drawn token and `proposed`, 1 to kMostProposed: empties the sums.
  void BeginPass(int32_t drawn, std::span<const int32_t> proposed);
  // The pass, for which the session fills logits() [tokens, vocab] and sums().
  std::span<const int32_t> ids() const { return std::span(ids_).first(num_tokens_); }
  Rows<float> logits() { return {logits_.get(), num_tokens_, shape_.vocab}; }
  std::span<const TokenSums> sums() const { return std::span(sums_).first(num_tokens_ - 1); }
  // The pass is done; `reads` [tokens]. From now on its proposals wait to be drawn.
  void EndPass(std::span<const StepRead> reads);

  // Whether a drawn token is the next of the waiting ones. If it is, it leaves them, and taken()
  // tells what its step read; the caller adds its sums by AddSums.
  bool Take(int32_t id);
  const StepRead& taken() const { return reads_[next_ - 1]; }
  void AddSums(AttentionSums& sums) const;
  std::span<const float> taken_logits() const {
    return {logits_.get() + (next_ - 1) * shape_.vocab, shape_.vocab};
  }
  // Whether tokens wait whose rows the conversation must forget before the next pass.
  bool is_waiting() const { return next_ < num_waiting_; }
  void Drop() { num_waiting_ = 0; }

  // Averages the seconds that each token of a pass took beside the weights.
  void TookAttention(double seconds, size_t num_tokens);
  double attention() const { return attention_; }
  uint64_t num_proposed() const { return num_proposed_; }
  uint64_t num_accepted() const { return num_accepted_; }

 private:
  Proposals proposals_;
  bool is_on_ = false, has_limit_ = false;
  Shape shape_;
  RamLimit::Share share_;
  std::unique_ptr<float[]> logits_;            // [kMostApart, vocab]
  std::unique_ptr<double[]> sum_numbers_;      // [kMostProposed][num_sums][document_tokens]
  std::array<TokenSums, kMostProposed> sums_;  // views of sum_numbers_
  std::array<int32_t, kMostApart> ids_{};
  std::array<StepRead, kMostApart> reads_;
  // Tokens of the last pass; how many of them wait or have waited; and the next that waits.
  size_t num_tokens_ = 0, num_waiting_ = 0, next_ = 0;
  double attention_ = 0;
  uint64_t num_proposed_ = 0, num_accepted_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_TOKENS_AHEAD_H_
