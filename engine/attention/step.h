// The interface of a forward pass's attention, with one implementation for the host (host_step.h)
// and one for a device (engine/gpu/step.h). A session picks one of them for each pass.
#ifndef LECTERN_ENGINE_ATTENTION_STEP_H_
#define LECTERN_ENGINE_ATTENTION_STEP_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/attention/conversation.h"
#include "engine/document/retrieval_heads.h"
#include "engine/forward/transformer.h"
#include "index/budget_plan.h"
#include "index/lookup.h"
#include "store/cancel_flag.h"

namespace lectern {

// The most tokens of a pass that attend apart: one that was drawn, and the proposals behind it
// (engine/asking/proposals.h). Each has a row of logits: 16 MiB for a vocabulary of 262,144. From 8
// rows on a row costs about as much as the one before, so that more would gain little.
inline constexpr size_t kMostApart = 16, kMostProposed = kMostApart - 1;

// Attention that the last token of each pass paid to the document, summed over query heads, layers
// and passes.
struct AttentionSums {
  std::vector<double> masses;   // [tokens of the fixed context]; empty: not wanted
  std::vector<double> squares;  // the same sums over squared probabilities
  // Attention of the model's retrieval heads alone, as they count in question and answer. Empty:
  // not wanted. A device leaves it as it is.
  std::vector<double> retrieved;
  std::span<const RetrievalWeights> heads;  // [layers], for `retrieved`; borrowed
  // The sum that `masses` would have if everything had been read; unread rows count with their
  // estimate.
  double document_mass = 0;
};

// The same sums of one token of a pass whose tokens attend apart, to be added to the others if the
// token stays. Empty: not wanted.
struct TokenSums {
  std::span<double> squares, retrieved;  // [tokens of the fixed context]
};

// Rounds a share of attention, in [0, 1], to a multiple of 2^-32. A double holds sums of such
// numbers exactly up to 2^21, so the sums do not depend on the order in which tokens are added:
// tokens that are decoded together leave the bits that they leave one by one.
inline double ToExactShare(double share) {
  constexpr double kUnit = 0x1.8p20;  // doubles of this size are 2^-32 apart
  return (share + kUnit) - kUnit;
}

// The inputs of one forward pass. Everything is borrowed until Finish; `sums` until CollectSums
// after it, or until the next pass begins.
struct StepPlan {
  size_t num_tokens = 1;   // tokens of the pass; R = num_tokens * query group
  // Each token attends as in a pass of its own behind those before it: it chooses the rows that it
  // reads, and its output has the same bits. `weights` is then empty, the rows of the conversation
  // are on the host, and no probe watches layers.
  bool attends_apart = false;
  uint32_t num_past = 0;   // tokens of the conversation before it
  double kv_budget = 1;    // (0, 1]: the budget that was asked for
  // Shares of layers and heads at this budget; nullptr: everything is read.
  const BudgetPlan* budgets = nullptr;
  bool tail = true;  // mean values stand for rows that are not read
  SelectionRule rule = {};
  // Replaces Lookup where the pass is not exact, as DocumentAttentionArgs::selector; nullptr:
  // Lookup.
  const Selector* selector = nullptr;
  // Whether missed attention was measured with this rule and these policies, so that estimates can
  // be calibrated.
  bool is_measured = false;
  // As DocumentAttentionArgs::max_missed; below 0: no limit.
  double max_missed = -1;
  std::span<const float> weights = {};  // [R], as in LookupArgs::row_weights
  Conversation* conversation = nullptr;  // never nullptr in a pass; the pass appends to it
  AttentionSums* sums = nullptr;         // never nullptr in a pass; the pass adds to it
  // With attends_apart, [num_tokens - 1]: the pass adds to these for all tokens but the first.
  std::span<const TokenSums> later_sums = {};
  // Also sums squared attention to the conversation, which must then be a HostConversation.
  bool observes_conversation = false;
  const CancelFlag* cancel = nullptr;  // nullptr: the pass cannot be cancelled
};

// The amounts that a pass read of the document. Fraction and missed shares are means over the
// layers that are not windowed.
struct StepRead {
  double fraction = 0;                // share of the document's K and V bytes
  uint64_t bytes = 0;                 // as in DocumentRead, summed over layers
  uint64_t window_bytes = 0;          // likewise
  double missed = 0;                  // DocumentRead::missed_mass
  double missed_bound = 0;            // likewise
  // No layer has a bound above StepPlan::max_missed; true where no bound was asked for.
  bool bound_holds = true;
};

// Counts of one layer that is not windowed. num_layers is the model's number of such layers, and
// dense_bytes those of all its rows; both are above 0.
struct LayerCount {
  size_t num_layers;
  uint64_t bytes, dense_bytes;
  double missed, missed_bound = 0;
};
// Adds a layer's counts to a step's.
inline void AddLayer(const LayerCount& layer, StepRead& step) {
  const auto num_layers = static_cast<double>(layer.num_layers);
  step.fraction +=
      static_cast<double>(layer.bytes) / static_cast<double>(layer.dense_bytes) / num_layers;
  step.bytes += layer.bytes;
  step.missed += layer.missed / num_layers;
  step.missed_bound += layer.missed_bound / num_layers;
}

// Serves one session; one thread at a time.
class StepAttention {
 public:
  virtual ~StepAttention() = default;

  // Prepares a pass. False: this implementation cannot do the pass, the host must. After an error
  // nothing has begun.
  virtual Result<bool> Begin(const StepPlan& plan) = 0;
  // Attends in one layer, after all layers below it: queries, keys and values in, attention output
  // out. The output goes to `a`, or, on a device, to row `row` of the device's part of `a`. Appends
  // the tokens to the layer's conversation; after an error the caller truncates it, as some layers
  // have them. kCancelled, errors of Document::Heads (kChecksumMismatch, kCorrupt), of a Selector
  // and of the device.
  virtual Status Attend(uint32_t layer, Activations& a, size_t row) = 0;
  // Ends the pass after its last layer. Errors of the device.
  virtual Result<StepRead> Finish() = 0;
  // Called instead of Finish after an error: returns when nothing of the pass runs any more.
  virtual void GiveUp() {}
  // As Activations::graph_key: above 0 if the attention's output stays on a device.
  virtual uint64_t graph_key() const { return 0; }
  // Adds to StepPlan::sums whatever was gathered for them elsewhere; call it before they are read.
  // Errors of the device.
  virtual Status CollectSums() = 0;
};

// Weight of each query row in the selection of what a pass reads: [num_tokens * group], summing to
// 1. Empty, as for one token: all rows count the same. In longer passes the last token and at most
// 15 earlier ones (up to 31 in documents below kLongDocument), evenly spread, have a weight; all
// others have 0. The weight of a token is shared equally by its `group` rows. `document_tokens` is
// above 0.
std::vector<float> RowWeights(size_t num_tokens, size_t group, size_t document_tokens);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_STEP_H_
