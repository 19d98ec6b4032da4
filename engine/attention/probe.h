// Watches and steers a session's forward passes: for calibration, evaluation and tests.
#ifndef LECTERN_ENGINE_ATTENTION_PROBE_H_
#define LECTERN_ENGINE_ATTENTION_PROBE_H_

#include <functional>
#include <span>

#include "engine/attention/document_attention.h"

namespace lectern {

// The attention of one layer in one forward pass, when it is done.
struct LayerStep {
  uint32_t layer;
  size_t num_tokens;
  const DocumentRead& read;
  // Per kv head [R, head_dim] and [R]: the finished output and its log-sum-exp.
  std::span<const Rows<float>> attended;
  std::span<const std::span<float>> lse;
  // Log-sum-exp of the document's part alone: exp(document_lse - lse) is its share of the mass.
  std::span<const std::span<float>> document_lse;
  std::span<const float> weights;  // as LookupArgs::row_weights
};

// Members that are empty change nothing. A pass that is watched layer by layer, or whose rows are
// chosen by `selector`, is led by the host; a device then does the parts that it has rows for.
struct Probe {
  // Called in each layer that is not windowed, by the thread that leads a shared step.
  std::function<void(const LayerStep&)> on_layer;
  // Called in Ask with the logits [vocab] that the first token of the answer is drawn from.
  std::function<void(std::span<const float>)> on_first_logits;
  // Chooses the rows that are read in the place of Lookup, where the budget is below 1.
  Selector selector;
  // The document that AttendAgain attends to in the place of the session's: one of the same text,
  // model and shape. Borrowed.
  const Document* attended_again = nullptr;

  bool leads_layers() const { return on_layer || selector; }
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_PROBE_H_
