// The attention of a session's forward passes: one interface for the host (host_step.h) and a
// device (engine/gpu/step.h). A session picks one of them for each pass.
#ifndef LECTERN_ENGINE_ATTENTION_STEP_H_
#define LECTERN_ENGINE_ATTENTION_STEP_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/attention/conversation.h"
#include "engine/forward/transformer.h"
#include "index/budget_plan.h"
#include "index/lookup.h"
#include "store/cancel_flag.h"

namespace lectern {

// Attention paid to the document by the last token of each pass, summed over query heads, layers
// and passes.
struct AttentionSums {
  std::vector<double> masses;   // [tokens of the fixed context]; empty: not wanted
  std::vector<double> squares;  // the same of its squares
  // The sum that `masses` would have, had everything been read: the tail stands for the rest.
  double document_mass = 0;
};

// One forward pass. Everything is borrowed until Finish.
struct StepPlan {
  size_t num_tokens = 1;   // of the pass; R = num_tokens * query group
  uint32_t num_past = 0;   // tokens of the conversation before it
  double kv_budget = 1;    // (0, 1]: of the ask
  // Shares of layers and heads at this budget; nullptr: everything is read.
  const BudgetPlan* budgets = nullptr;
  bool tail = true;
  SelectionRule rule = {};
  // Missed attention was measured with this rule and these policies: estimates are calibrated.
  bool is_measured = false;
  // As DocumentAttentionArgs::max_missed. Below 0: no limit.
  double max_missed = -1;
  std::span<const float> weights = {};  // [R], as LookupArgs::row_weights
  Conversation* conversation = nullptr;
  AttentionSums* sums = nullptr;
  bool observes_conversation = false;  // also sums the squares of attention to the conversation
  const CancelFlag* cancel = nullptr;
};

// The share and the bytes of the document that a pass read: means over layers that are not
// windowed.
struct StepRead {
  double fraction = 0;                // of the document's K and V bytes
  uint64_t bytes = 0;                 // as DocumentRead's, of all layers
  uint64_t window_bytes = 0;          // likewise
  double missed = 0;                  // DocumentRead::missed_mass
  double missed_bound = 0;            // likewise
  bool bound_holds = true;            // StepPlan::max_missed, in every layer, by the bound
};

// Counts of one layer that is not windowed; a model has `num_layers` such layers.
struct LayerCount {
  size_t num_layers;
  uint64_t bytes, dense_bytes;
  double missed, missed_bound = 0;
};
inline void AddLayer(const LayerCount& layer, StepRead& step) {
  const auto num_layers = static_cast<double>(layer.num_layers);
  step.fraction +=
      static_cast<double>(layer.bytes) / static_cast<double>(layer.dense_bytes) / num_layers;
  step.bytes += layer.bytes;
  step.missed += layer.missed / num_layers;
  step.missed_bound += layer.missed_bound / num_layers;
}

// One session's; one thread at a time.
class StepAttention {
 public:
  virtual ~StepAttention() = default;

  // Makes ready for a pass. false: the pass is the host's to attend. Errors leave nothing begun.
  virtual Result<bool> Begin(const StepPlan& plan) = 0;
  // Queries, keys and values of a layer -> its attention output: in `a`, or, of a device, in row
  // `row` of what the device has of `a`. kCancelled, kChecksumMismatch, errors of the device.
  virtual Status Attend(uint32_t layer, Activations& a, size_t row) = 0;
  // After the last layer. Errors of the device.
  virtual Result<StepRead> Finish() = 0;
  // In the place of Finish, after an error: nothing of the pass runs any more.
  virtual void GiveUp() {}
  // As Activations::graph_key: > 0 where the attention's output stays on a device.
  virtual uint64_t graph_key() const { return 0; }
  // Brings home what was gathered for StepPlan::sums and is not in them yet.
  virtual Status CollectSums() = 0;
};

// How much each row of a pass counts in the selection of what it reads: [num_tokens * group], of
// sum 1; empty where all count the same.
std::vector<float> RowWeights(size_t num_tokens, size_t group, size_t document_tokens);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_STEP_H_
