// One stack of Llama layers, used by indexing and by asking. Only the attention differs, so that is
// what the caller supplies, layer by layer.
#ifndef LECTERN_ENGINE_FORWARD_TRANSFORMER_H_
#define LECTERN_ENGINE_FORWARD_TRANSFORMER_H_

#include <array>
#include <memory>
#include <vector>

#include "engine/forward/linear_layers.h"
#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/function_ref.h"
#include "kernels/thread_pool.h"

namespace lectern {

class DeviceStream;
struct DeviceActivations;

// Activations of up to `max_tokens` tokens; reused from step to step. One thread at a time.
struct Activations {
  Activations(const ModelConfig& config, size_t max_tokens, size_t num_threads);

  size_t max_tokens;
  std::vector<float> residual;   // [tokens, hidden]
  std::vector<float> before;  // [tokens, hidden]: the residual stream, where cosines are measured
  std::vector<float> normed;     // [tokens, hidden]
  std::vector<float> projected;  // [tokens, heads * head_dim]: queries, later attention output
  std::vector<float> keys;       // [tokens, kv heads * head_dim]
  std::vector<float> values;     // [tokens, kv heads * head_dim]
  std::vector<float> gate, up;   // [tokens, intermediate]
  // Of RoPE, [tokens, dims / 2]: of layers that see everything and of windowed ones. The second is
  // empty where they do not differ.
  struct Angles {
    std::vector<float> cosine, sine;
  };
  std::array<Angles, 2> angles;
  // Rows of one kv head's query group are together: [kv heads][tokens * group, head_dim], row
  // token * group + j is query head kv_head * group + j.
  std::vector<float> queries, attended;
  std::vector<int8_t> steps;        // of what is multiplied with packed weights: [tokens, columns]
  std::vector<float> scales, sums;  // [tokens, columns / kPackedGroup]
  std::vector<float> scratch;       // [threads][scratch_per_thread]
  size_t scratch_per_thread;
  // Of a transformer on a device: the residual stream and what follows from it until queries, keys
  // and values, and where these are worked out; both made at the first step.
  std::shared_ptr<DeviceStream> stream;
  std::shared_ptr<DeviceActivations> device;
  bool is_embedded = false;  // residual and angles are newer than the device's
  bool is_attended = false;  // the attention's output is the device's `projected`, not `attended`
  // Of steps whose attention is done there: queries, keys and values do not come to the host, and
  // the attention's output is always the device's.
  bool attends_on_device = false;
  // Of a device: queries, keys and values do not come to the host.
  bool keeps_queries = false, keeps_rows = false;
  uint64_t graph_key = 0;  // > 0: steps of one token with the same one enqueue the same there
};

class Transformer {
 public:
  // Borrows all of them. `length`: of the text that angles are frozen for, where the recipe depends
  // on it. `device`: where matrices are multiplied; nullptr: here.
  Transformer(const Model& model, const Backend& backend, ThreadPool& threads, uint64_t length = 0,
              const LinearLayers* device = nullptr);

  const Model& model() const { return model_; }
  const Backend& backend() const { return backend_; }
  ThreadPool& threads() const { return threads_; }
  const LinearLayers* device() const { return device_; }

  // Sets residual to the embeddings of `ids`, and the RoPE angles of positions first_position ….
  void Embed(std::span<const int32_t> ids, size_t first_position, Activations& a) const;
  // residual -> queries (grouped), keys, values of the layer; queries and keys after RoPE. This and
  // the next ones fail on a device alone, with the codes of LinearLayers.
  Status Project(size_t layer, size_t num_tokens, Activations& a) const;
  // attended (grouped; or what the device has of it) -> residual, through the output projection and
  // then the MLP.
  Status Finish(size_t layer, size_t num_tokens, Activations& a) const {
    LECTERN_RETURN_IF_ERROR(AddAttention(layer, num_tokens, a));
    return AddMlp(layer, num_tokens, a);
  }
  // `cosines`: of the last so many tokens, between the residual stream before and after; empty:
  // they are not measured.
  Status AddAttention(size_t layer, size_t num_tokens, Activations& a,
                      std::span<double> cosines = {}) const;
  Status AddMlp(size_t layer, size_t num_tokens, Activations& a) const;
  // Every layer: `attend` turns queries, keys and values into attended; its first error ends it.
  Status RunLayers(size_t num_tokens, Activations& a,
                   FunctionRef<Status(uint32_t layer)> attend) const;
  // RunLayers of one token. With Activations::attends_on_device it may be done by a graph that was
  // recorded for its graph_key: `attend` is not called then.
  Status RunToken(Activations& a, FunctionRef<Status(uint32_t layer)> attend) const;
  // Logits [num_tokens, vocab] of the residuals from row `first` on.
  Status Logits(size_t first, size_t num_tokens, Activations& a, Rows<float> logits) const;

  // Rows of one kv head in Activations::queries or attended.
  Rows<float> Grouped(std::vector<float>& grouped, size_t kv_head, size_t num_tokens) const {
    const ModelConfig& c = model_.config();
    const size_t rows = num_tokens * c.query_group();
    return {grouped.data() + kv_head * rows * c.head_dim, rows, c.head_dim};
  }

  // Query rows [tokens, heads * head_dim], as they are projected, in the order of Grouped.
  void GroupHeads(const std::vector<float>& rows, size_t num_tokens,
                  std::vector<float>& grouped) const;

 private:
  void ProjectHere(size_t layer, size_t num_tokens, Activations& a) const;
  void MeasureCosines(size_t num_tokens, const Activations& a, std::span<double> cosines) const;
  void MatMul(Rows<const float> input, const WeightMatrix& weight, Rows<float> output,
              bool accumulate, Activations& a) const;
  // In a.steps and a.scales, until the next call.
  Int8Rows Quantise(Rows<const float> input, Activations& a) const;
  void Norm(const std::vector<float>& weight, size_t num_tokens, Activations& a) const;
  // Of heads that lie side by side in rows; none where `weight` is empty.
  void NormHeads(Rows<float> rows, const std::vector<float>& weight) const;
  // residual += output of a part: at once, or, where the model norms it first, through a.normed.
  void AddPart(Rows<const float> input, const WeightMatrix& weight, std::span<const float> bias,
               const std::vector<float>& post_norm, Activations& a) const;

  const Model& model_;
  const Backend& backend_;
  ThreadPool& threads_;
  const LinearLayers* const device_;
  std::array<RopeTable, 2> rope_;  // as Activations::angles
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_FORWARD_TRANSFORMER_H_
