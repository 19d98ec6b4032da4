// A session's probe: watches and steers its forward passes, for calibration, evaluation and tests,
// on the path that users take.
#ifndef LECTERN_ENGINE_ATTENTION_PROBE_H_
#define LECTERN_ENGINE_ATTENTION_PROBE_H_

#include <functional>
#include <span>

#include "engine/attention/document_attention.h"

namespace lectern {

// The data that a watcher sees of one layer's attention in one forward pass, when the layer is
// done. Everything is borrowed until the watcher returns.
struct LayerStep {
  uint32_t layer;
  size_t num_tokens;
  const DocumentRead& read;
  // Per kv head [R, head_dim] and [R]: the finished output and its log-sum-exp.
  std::span<const Rows<float>> attended;
  std::span<const std::span<float>> lse;
  // Log-sum-exp over the document alone: exp(document_lse - lse) is the document's share of the
  // mass.
  std::span<const std::span<float>> document_lse;
  std::span<const float> weights;  // as in LookupArgs::row_weights
};

// Attention probabilities of one query head in a question's pass, by position of the document:
// [tokens of the fixed context]. Borrowed until the watcher returns.
struct HeadStep {
  uint32_t layer, head;
  std::span<const double> all_rows;  // mean over the question's rows, or some of many
  std::span<const double> last_row;
};

// Empty members change nothing. If on_layer, on_head or selector is set, the host leads the pass
// layer by layer; a device then does only the parts that it has rows for.
struct Probe {
  // Called after each layer that is not windowed, by the thread that leads a shared step.
  std::function<void(const LayerStep&)> on_layer;
  // Called for each query head of such a layer, in passes of several tokens. It costs about as much
  // as the pass itself.
  std::function<void(const HeadStep&)> on_head;
  // Called by Ask with the logits [vocab] from which the first token of the answer is drawn.
  std::function<void(std::span<const float>)> on_first_logits;
  // Called by Ask for each token of the answer, the end of the text too: the logits [vocab] from
  // which it was drawn, and its id.
  std::function<void(std::span<const float>, int32_t)> on_token;
  // The first tokens of the answer, which are taken whatever the logits say (teacher forcing): two
  // passes at different budgets then see the same tokens, and their logits can be compared.
  std::span<const int32_t> answer;
  // Chooses the rows to read instead of Lookup, where the budget is below 1. An error of it ends
  // the pass.
  Selector selector;
  // The document that AttendAgain attends to instead of the session's: one of the same text, model
  // and shape. Borrowed.
  const Document* attended_again = nullptr;

  bool leads_layers() const { return on_layer || on_head || selector; }
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_PROBE_H_
