// The interface of a transformer's linear parts on a device: everything in a layer but the
// attention. engine/forward/transformer.h uses it instead of its own products.
#ifndef LECTERN_ENGINE_FORWARD_LINEAR_LAYERS_H_
#define LECTERN_ENGINE_FORWARD_LINEAR_LAYERS_H_

#include <memory>
#include <span>

#include "kernels/function_ref.h"
#include "kernels/types.h"
#include "store/status.h"

namespace lectern {

class Device;
struct Activations;

// Immutable; thread-safe as long as every thread has its own Activations. Every call may fail with
// errors of the device and of its memory: kOutOfMemory, kIoError, kInternal. Then nothing that it
// enqueued runs any more, and its results hold anything. Not checked: `layer` is one of the
// model's, and num_tokens is at most Activations::max_tokens.
class LinearLayers {
 public:
  virtual ~LinearLayers() = default;

  virtual const std::shared_ptr<Device>& device() const = 0;

  // Takes the stream and the device memory of `a` if it has none yet; otherwise the first step
  // would.
  virtual Status Prepare(Activations& a) const = 0;
  // The same, and the memory with which AddAttention measures cosines.
  virtual Status PrepareCosines(Activations& a) const = 0;
  // Computes projected (queries after RoPE, scaled), keys and values from Activations::residual and
  // angles, copying these to the device if they are newer. Each token's queries lie side by side:
  // Transformer::GroupHeads groups them. Results come to the host, except for those that
  // Activations::keeps_queries, keeps_rows or attends_on_device leave on the device; if all stay
  // there, nothing waits, and residual and angles must stay as they are until the next wait
  // (Logits, Wait). Clears Activations::is_embedded, perhaps also where it fails: then embed again.
  virtual Status Project(size_t layer, size_t num_tokens, Activations& a) const = 0;
  // Adds the attention's output (in the order of query heads) to the residual stream. It is
  // `projected` of the host, or of the device with Activations::is_attended (which is cleared) or
  // attends_on_device. `cosines`: as in Transformer::AddAttention; if there are any, it waits.
  virtual Status AddAttention(size_t layer, size_t num_tokens, Activations& a,
                              std::span<double> cosines) const = 0;
  // Adds the MLP's output to the residual stream.
  virtual Status AddMlp(size_t layer, size_t num_tokens, Activations& a) const = 0;
  // Logits [num_tokens, vocab] of the residual rows from `first` on; the rows of `logits` lie side
  // by side. Waits.
  virtual Status Logits(size_t first, size_t num_tokens, Activations& a,
                        Rows<float> logits) const = 0;
  // Runs the layers of a token whose attention is on the device. `layers` enqueues them. At the
  // second token with the same Activations::graph_key they are recorded as a graph, and from then
  // on they are one launch, and `layers` is not called. If the key is 0, or if they cannot be
  // recorded, they are enqueued for each token. Errors of `layers` too.
  virtual Status RunRecorded(Activations& a, FunctionRef<Status()> layers) const = 0;
  // Returns when nothing that was enqueued for `a` runs any more. `a` has its stream already.
  virtual Status Wait(Activations& a) const = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_FORWARD_LINEAR_LAYERS_H_
