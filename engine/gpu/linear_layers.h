// Runs the steps of engine/forward/transformer.h on a device. The host does what depends on
// positions: it looks embeddings up and finds the angles, by the same code for both. If the host
// leads the attention, queries, keys and values come back to it; if the device does all of it
// (engine/gpu/step.h), nothing comes back before the logits.
//
// Matrices are multiplied in f16 or bf16 with float sums; the residual stream stays in f32, on the
// device from a step's first layer to its last. The tests compare logits with those of the CPU:
// where everything is read they lie within 1.5e-2 of their spread (4e-2 with bf16). With a smaller
// budget some of the rows that are read differ from the CPU's (engine/gpu/lookup.h), most of all
// for a question; the logits are then as close to those of all rows.
#ifndef LECTERN_ENGINE_GPU_LINEAR_LAYERS_H_
#define LECTERN_ENGINE_GPU_LINEAR_LAYERS_H_

#include <memory>
#include <span>

#include "engine/forward/linear_layers.h"
#include "engine/gpu/device.h"
#include "engine/gpu/weights.h"
#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/function_ref.h"
#include "kernels/thread_pool.h"

namespace lectern {

// The buffers for up to so many tokens; a step makes them for Activations that have none. One
// thread at a time.
struct DeviceActivations {
  size_t max_tokens = 0;
  DeviceArray<float> residual;            // [tokens, hidden]
  DeviceArray<float> part;                // [tokens, hidden]: what is normed before it is added
  // [tokens, hidden] and [tokens], where cosines are measured: see PrepareCosines.
  DeviceArray<float> before, similarities;
  DeviceArray<uint16_t> input;            // [tokens, …], of the weights' type
  // The result of the last Project: queries [tokens, heads * head_dim], then keys and values
  // [tokens, kv heads * head_dim], so that those of one token are one product. The attention's
  // output takes the place of the queries.
  DeviceArray<float> projected;
  float *keys = nullptr, *values = nullptr;  // in it
  DeviceArray<float> gate_up;                // [tokens, 2 * intermediate]
  DeviceArray<float> cosine[2], sine[2];  // [tokens, dims / 2], as Activations::angles
  DeviceArray<float> logits;              // [tokens, vocab]
  // All layers of a token, of one Activations::graph_key, and the key of the last token.
  CudaGraph recorded;
  uint64_t recorded_key = 0, last_key = 0;
  bool can_record = true;
};

// Immutable; thread-safe, with Activations of their own each.
class DeviceTransformer final : public LinearLayers {
 public:
  // Shares device and model, borrows the rest until it returns. Uploads the weights. Codes of
  // DeviceWeights::Load and DeviceStream::Create.
  static Result<std::shared_ptr<const DeviceTransformer>> Load(std::shared_ptr<Device> device,
                                                               std::shared_ptr<const Model> model,
                                                               const Backend& backend,
                                                               ThreadPool& threads);

  const std::shared_ptr<Device>& device() const override { return device_; }
  Status Prepare(Activations& a) const override;
  Status PrepareCosines(Activations& a) const override;
  Status Project(size_t layer, size_t num_tokens, Activations& a) const override;
  Status AddAttention(size_t layer, size_t num_tokens, Activations& a,
                      std::span<double> cosines) const override;
  Status AddMlp(size_t layer, size_t num_tokens, Activations& a) const override;
  Status Logits(size_t first, size_t num_tokens, Activations& a, Rows<float> logits) const override;
  Status RunRecorded(Activations& a, FunctionRef<Status()> layers) const override;
  Status Wait(Activations& a) const override;

 private:
  class Step;

  std::shared_ptr<Device> device_;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<const DeviceWeights> weights_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_LINEAR_LAYERS_H_
