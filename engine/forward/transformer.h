// One stack of Llama layers, used by indexing and by asking. The two differ in attention only, so
// the caller supplies the attention of each layer.
#ifndef LECTERN_ENGINE_FORWARD_TRANSFORMER_H_
#define LECTERN_ENGINE_FORWARD_TRANSFORMER_H_

#include <array>
#include <memory>
#include <vector>

#include "engine/forward/linear_layers.h"
#include "engine/forward/output_head.h"
#include "engine/forward/routing.h"
#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/function_ref.h"
#include "kernels/thread_pool.h"

namespace lectern {

class DeviceStream;
struct DeviceActivations;

// Activations of up to `max_tokens` tokens, reused from step to step. One thread at a time.
struct Activations {
  // Allocates every array but `before` and `low_rank`. `num_threads`: of the pool that runs steps.
  Activations(const ModelConfig& config, size_t max_tokens, size_t num_threads);

  size_t max_tokens;
  std::vector<float> residual;   // [tokens, hidden]
  // [tokens, hidden]: residual stream before attention, if cosines are measured.
  std::vector<float> before;
  std::vector<float> normed;     // [tokens, hidden]
  // [tokens, heads * head_dim]: queries, later the attention's output.
  std::vector<float> projected;
  std::vector<float> keys;       // [tokens, kv heads * head_dim]
  std::vector<float> values;     // [tokens, kv heads * head_dim]
  std::vector<float> gate, up;   // [tokens, ModelConfig::widest_mlp()]
  // With experts: inputs, later outputs, of the rows that go to experts, [tokens * used, hidden];
  // what the MLP gives, [tokens, hidden]; the router's scores, [tokens, experts].
  std::vector<float> expert_rows, mlp_output, scores;
  Routing routing;
  // [tokens, hidden]: where MLP and attention read the same norm, its output until the MLP runs.
  std::vector<float> mlp_input;
  // Cosines and sines of RoPE, [tokens, dims / 2]: for layers that see everything, and for windowed
  // ones. The second is empty where both use the same angles.
  struct Angles {
    std::vector<float> cosine, sine;
  };
  std::array<Angles, 2> angles;
  // The rows of one kv head's query group lie together: [kv heads][tokens * group, head_dim]. Row
  // token * group + j is query head kv_head * group + j.
  std::vector<float> queries, attended;
  Int8Buffer rounded;          // input of packed products: [tokens, columns]
  std::vector<float> scratch;  // [threads][scratch_per_thread]
  size_t scratch_per_thread;
  std::vector<float> low_rank;      // [tokens, rank] of an adapter; taken at the first step
  OutputHead head;                  // takes its buffers at the first step that wants few logits
  // With a transformer on a device: its stream, and the device's counterparts of these arrays. Both
  // are made at the first step.
  std::shared_ptr<DeviceStream> stream;
  std::shared_ptr<DeviceActivations> device;
  bool is_embedded = false;  // residual and angles are newer than the device's copies
  // The attention's output is in the device's `projected`, not in `attended`.
  bool is_attended = false;
  // The attention of this step is done on the device: queries, keys and values do not come to the
  // host, and the attention's output is always the device's.
  bool attends_on_device = false;
  // With a device: leave queries, or keys and values, there.
  bool keeps_queries = false, keeps_rows = false;
  // Above 0: steps of one token with equal keys enqueue the same work on the device.
  uint64_t graph_key = 0;
};

// A model's layers on the CPU, or with the linear parts on a device. Immutable after construction;
// each thread needs its own Activations.
class Transformer {
 public:
  // Borrows all arguments. `length`: number of tokens that the RoPE angles are frozen for, where
  // the recipe depends on it. `device` multiplies matrices; nullptr: the CPU does.
  Transformer(const Model& model, const Backend& backend, ThreadPool& threads, uint64_t length = 0,
              const LinearLayers* device = nullptr);

  const Model& model() const { return model_; }
  const Backend& backend() const { return backend_; }
  ThreadPool& threads() const { return threads_; }
  const LinearLayers* device() const { return device_; }

  // Sets residual to the embeddings of `ids`, times the model's embedding scale, and the RoPE
  // angles for positions from first_position on; sets Activations::is_embedded. Asserted: each id
  // is in the vocabulary, and there are at most Activations::max_tokens of them.
  void Embed(std::span<const int32_t> ids, size_t first_position, Activations& a) const;
  // Computes queries (grouped), keys and values of the layer from the residual stream; queries and
  // keys are after RoPE, queries also times the model's query scale. With a device some of them may
  // stay there (Activations::keeps_queries, keeps_rows, attends_on_device). This and the functions
  // below fail only on a device, with the codes of LinearLayers; on the CPU they use normed, gate,
  // up and the buffers of packed products. They may throw bad_alloc: `before` and `low_rank` are
  // taken when they are first needed. Not checked: `layer` is one of the model's, and num_tokens is
  // at most Activations::max_tokens.
  Status Project(size_t layer, size_t num_tokens, Activations& a) const;
  // Adds the attention's output (`attended`, or the device's copy) to the residual stream through
  // the output projection, then the MLP's output.
  Status Finish(size_t layer, size_t num_tokens, Activations& a) const {
    LECTERN_RETURN_IF_ERROR(AddAttention(layer, num_tokens, a));
    return AddMlp(layer, num_tokens, a);
  }
  // Adds the attention's output; if that is in `attended`, overwrites `projected` with it.
  // `cosines`, for the last so many tokens: cosine between the residual stream before and after
  // attention, 1 where one of them is zero; empty: not measured.
  Status AddAttention(size_t layer, size_t num_tokens, Activations& a,
                      std::span<double> cosines = {}) const;
  // Adds the MLP's output to the residual stream.
  Status AddMlp(size_t layer, size_t num_tokens, Activations& a) const;
  // Runs every layer over the embedded tokens. `attend` turns queries, keys and values into
  // `attended`; its first error ends the run and is returned, with residual as it then was.
  Status RunLayers(size_t num_tokens, Activations& a,
                   FunctionRef<Status(uint32_t layer)> attend) const;
  // RunLayers for one token. With Activations::attends_on_device a graph that was recorded for its
  // graph_key may do it; then `attend` is not called.
  Status RunToken(Activations& a, FunctionRef<Status(uint32_t layer)> attend) const;
  // Logits [num_tokens, vocab] of the residual rows from `first` on, after the last layer: final
  // norm, output matrix and the model's softcap. Leaves the residual stream as it is. Those that
  // are not `wanted` may be -infinity.
  Status Logits(size_t first, size_t num_tokens, Activations& a, Rows<float> logits,
                const WantedLogits& wanted = {}) const;

  // Rows of one kv head in Activations::queries or attended.
  Rows<float> Grouped(std::vector<float>& grouped, size_t kv_head, size_t num_tokens) const {
    const ModelConfig& c = model_.config();
    const size_t rows = num_tokens * c.query_group();
    return {grouped.data() + kv_head * rows * c.head_dim, rows, c.head_dim};
  }

  // Copies query rows [tokens, heads * head_dim], as projected, into the order of Grouped;
  // `grouped` is another array and has room for them.
  void GroupHeads(const std::vector<float>& rows, size_t num_tokens,
                  std::vector<float>& grouped) const;

 private:
  // Does Project on the CPU, but that queries stay as projected: writes a.projected [tokens, heads
  // * head_dim], a.keys and a.values [tokens, kv heads * head_dim], with biases, head norms and
  // RoPE applied, queries also times the model's query scale. Uses a.angles, which Embed set.
  // Overwrites a.normed, a.scratch and the buffers of packed and low-rank products. With an adapter
  // it may throw bad_alloc.
  void ProjectHere(size_t layer, size_t num_tokens, Activations& a) const;
  // Turns a.projected and a.keys by RoPE, in place, with the angles of the layer. Pairs that are
  // neighbours are separated first.
  void Turn(size_t layer, size_t num_tokens, Activations& a) const;
  // The cosines of AddAttention, between `before` and the residual stream as it is now.
  void MeasureCosines(size_t num_tokens, const Activations& a, std::span<double> cosines) const;
  // output = input * weight^T, or += with `accumulate`, on all threads; and what the adapter adds
  // to this matrix, where `added` is there. `input` and `output` do not overlap.
  void MatMul(Rows<const float> input, const WeightMatrix& weight, const LowRank& added,
              Rows<float> output, bool accumulate, Activations& a) const;
  // output += scale (input * A^T) * B^T.
  void AddLowRank(Rows<const float> input, const LowRank& added, Rows<float> output,
                  Activations& a) const;
  // Rounds the input to int8 in a.steps and a.scales, where it stays until the next call.
  Int8Rows Quantise(Rows<const float> input, Activations& a) const;
  // Returns `num_tokens` rows of the residual stream from `first` on after the norm by `weight`
  // [hidden], which it writes to a.normed on the calling thread alone; the rows of the residual
  // stream themselves where the model has no such norm (`weight` is empty).
  Rows<const float> Normed(const std::vector<float>& weight, size_t first, size_t num_tokens,
                           Activations& a) const;
  // RMSNorm, in place, of each head in the rows [tokens, heads * head_dim] by one `weight`
  // [head_dim] for all heads, or of whole rows by a weight as wide. Does nothing if it is empty.
  void NormHeads(Rows<float> rows, const std::vector<float>& weight) const;
  // Multiplies `input` [tokens, n] by a part's last matrix, with its adapter, adds `bias` (may be
  // empty), and adds the result to a.residual: directly, or if `post_norm` is not empty or the
  // model scales its parts, normed and scaled in a.normed first. `input` lies in neither.
  void AddPart(Rows<const float> input, const WeightMatrix& weight, const LowRank& added,
               std::span<const float> bias, const std::vector<float>& post_norm,
               Activations& a) const;
  // Returns the rows [tokens, width] that the layer's down matrix takes, or its shared expert's:
  // activation(gate * input) times up * input. They are in a.gate; a.up is overwritten, too.
  Rows<const float> GatedRows(size_t layer, Rows<const float> input, Activations& a) const;
  // Writes a.mlp_output [tokens, hidden]: the sum of the chosen experts' outputs times their
  // weights, and of the shared expert's output. `input` [tokens, hidden] is not in it.
  void RunExperts(size_t layer, Rows<const float> input, Activations& a) const;
  // The chosen experts' outputs, in a.expert_rows, of the rows of a.routing.
  void RunChosen(size_t layer, Rows<const float> input, Activations& a) const;
  // Adds `part` [tokens, hidden] to a.residual, normed and scaled as AddPart does; it is changed.
  void AddScaled(Rows<float> part, const std::vector<float>& post_norm, Activations& a) const;
  // Rows [begin, end) of `weight` times the input rows: `input` as floats, or rounded to int8.
  void MatMulColumns(Rows<const float> input, const Int8Rows& quantised, const WeightMatrix& weight,
                     Rows<float> output, size_t begin, size_t end, bool accumulate, size_t slot,
                     Activations& a) const;
  // Empty where the model has no adapter.
  const LayerAdapter& AdapterOf(size_t layer) const;

  const Model& model_;
  const Backend& backend_;
  ThreadPool& threads_;
  const LinearLayers* const device_;
  std::array<RopeTable, 2> rope_;  // as Activations::angles
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_FORWARD_TRANSFORMER_H_
