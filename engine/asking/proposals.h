// Lookup decoding: proposes the next tokens of an answer, so that one pass over the weights checks
// several of them. An answer quotes its document, so the latest tokens are looked up there and in
// the conversation, and what followed them is proposed. A proposal that is wrong costs time alone:
// each token is drawn from the model's own logits, as without proposals.
#ifndef LECTERN_ENGINE_ASKING_PROPOSALS_H_
#define LECTERN_ENGINE_ASKING_PROPOSALS_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/asking/token_runs.h"
#include "engine/attention/step.h"
#include "engine/forward/pass_costs.h"

namespace lectern {

// How often a token was the one that followed the same run before, by the run's length. Counts
// every drawn token that had a run, proposed or not, so proposals begin again when they would be
// right. Older tokens count less.
class HitRates {
 public:
  void Count(size_t length, bool is_hit);
  // The probability that the token behind a run of this length is the one that followed before.
  double Of(size_t length) const;

 private:
  static constexpr size_t kGroups = 6;
  static size_t GroupOf(size_t length);
  struct Rate {
    double hits = 0, tokens = 0;
  };
  std::array<Rate, kGroups> rates_;
};

// The proposals of one session. One thread at a time.
class Proposals {
 public:
  // Begins an answer. `document`: tokens of the fixed context, the same in every call; behind them
  // come those of the conversation and of the question. Makes room for `room` more. May throw
  // bad_alloc.
  void Begin(std::span<const int32_t> document, std::span<const int32_t> conversation,
             std::span<const int32_t> question, size_t room);
  // Takes the answer's next token, and counts whether it would have been proposed.
  void Drew(int32_t id);
  // The costs that decide how many tokens are worth proposing.
  struct Costs {
    const PassCosts& linear;
    size_t num_sessions = 1;  // that share a pass
    double attention = 0;     // seconds that a token of this session takes beside the weights
  };
  // The tokens that may follow the one that was drawn last: at most `most` and kMostProposed of
  // them, as many as are worth their costs; perhaps none. Valid until the next call.
  std::span<const int32_t> Next(size_t most, const Costs& costs);
  // Whether there was a token to propose when Next last proposed none.
  bool has_declined() const { return has_declined_; }
  // Bytes of memory for so many tokens.
  static uint64_t Bytes(size_t num_tokens) { return TokenRuns::Bytes(num_tokens); }

 private:
  TokenRuns runs_;
  size_t document_tokens_ = 0;
  TokenRuns::Run run_;  // of the latest tokens
  HitRates rates_;
  std::array<int32_t, kMostProposed> proposed_;
  bool has_declined_ = false;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_PROPOSALS_H_
