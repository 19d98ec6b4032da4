// The parts of a transformer's layers that do not depend on what is attended to, done by a device
// in the place of engine/forward/transformer.h.
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

// Immutable; thread-safe, with Activations of their own each. Every call has the errors of the
// device, and of its memory.
class LinearLayers {
 public:
  virtual ~LinearLayers() = default;

  virtual const std::shared_ptr<Device>& device() const = 0;

  // Takes the stream and the device memory of `a`, where it has none: the first step would.
  virtual Status Prepare(Activations& a) const = 0;
  // The same, and what AddAttention measures cosines with.
  virtual Status PrepareCosines(Activations& a) const = 0;
  // Activations::residual and angles, where they are new, -> projected (after RoPE, scaled), keys,
  // values, on the host; but for what Activations::keeps_queries and keeps_rows, or
  // attends_on_device, leave to the device, and where that is all, nothing waits.
  virtual Status Project(size_t layer, size_t num_tokens, Activations& a) const = 0;
  // The attention's output, in the order of query heads -> the residual stream. It is `projected`
  // of the host, or, with Activations::is_attended or attends_on_device, of the device. `cosines`:
  // as Transformer::AddAttention.
  virtual Status AddAttention(size_t layer, size_t num_tokens, Activations& a,
                              std::span<double> cosines) const = 0;
  virtual Status AddMlp(size_t layer, size_t num_tokens, Activations& a) const = 0;
  virtual Status Logits(size_t first, size_t num_tokens, Activations& a,
                        Rows<float> logits) const = 0;
  // The layers of a token that attends on the device: what `layers` enqueues, which is recorded at
  // the second token of the same Activations::graph_key, and from then on is one launch. Where that
  // cannot be recorded, it is enqueued for each token.
  virtual Status RunRecorded(Activations& a, FunctionRef<Status()> layers) const = 0;
  // Nothing that was enqueued for `a` runs any more.
  virtual Status Wait(Activations& a) const = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_FORWARD_LINEAR_LAYERS_H_
