#include "engine/gpu/linear_layers.h"

#include <algorithm>
#include <utility>

#include "engine/forward/transformer.h"
#include "kernels/cuda/rows/matmul.h"
#include "kernels/cuda/rows/row_cosines.h"
#include "kernels/cuda/rows/rows.h"

namespace lectern {
namespace {

constexpr const char* kWhat = "a step";

}  // namespace

Result<std::shared_ptr<const DeviceTransformer>> DeviceTransformer::Load(
    std::shared_ptr<Device> device, std::shared_ptr<const Model> model, const Backend& backend,
    ThreadPool& threads) {
  auto transformer = std::make_shared<DeviceTransformer>();
  LECTERN_ASSIGN(const auto stream, DeviceStream::Create(device));
  LECTERN_ASSIGN(transformer->weights_,
                 DeviceWeights::Load(*stream, *model, backend, threads));
  transformer->device_ = std::move(device);
  transformer->model_ = std::move(model);
  return std::shared_ptr<const DeviceTransformer>(std::move(transformer));
}

// The work of one call. The first error of what it enqueues is kept, and nothing is enqueued after
// it. Where it is not ok from the first, a_.device may be missing: then nothing but status() may be
// called.
class DeviceTransformer::Step {
 public:
  Step(const DeviceTransformer& transformer, size_t num_tokens, Activations& a)
      : config_(transformer.model_->config()),
        weights_(*transformer.weights_),
        num_tokens_(num_tokens),
        a_(a) {
    status_ = Prepare(transformer);
  }
  ~Step() {
    if (!status_.ok() && a_.stream && !a_.stream->is_recording()) {
      (void)a_.stream->stream().Wait();
    }
  }
  Step(const Step&) = delete;
  bool ok() const { return status_.ok(); }
  Status status() { return std::move(status_); }

  // Uploads what Embed left on the host (residuals and angles), if that is newer.
  void BringResidual() {
    if (!a_.is_embedded) return;
    Upload(a_.residual.data(), num_tokens_ * config_.hidden_size, d().residual);
    for (size_t kind = 0; kind < a_.angles.size(); ++kind) {
      const size_t count = a_.angles[kind].cosine.size() / a_.max_tokens * num_tokens_;
      Upload(a_.angles[kind].cosine.data(), count, d().cosine[kind]);
      Upload(a_.angles[kind].sine.data(), count, d().sine[kind]);
    }
    a_.is_embedded = false;
  }

  // Norms the residuals and multiplies them to queries, keys and values. For one token the three
  // lie side by side, so that one product makes them all, and one launch rotates queries and keys
  // if queries need no scale of their own. The results that the host needs are downloaded.
  void Project(size_t layer) {
    const DeviceWeights::Layer& w = weights_.layer(layer);
    BringResidual();
    Norm(On(d().residual, config_.hidden_size), w.attention_norm, Input(config_.hidden_size));
    const size_t num_queries = num_tokens_ * q_cols(), num_keys = num_tokens_ * kv_cols();
    d().keys = d().projected.data() + num_queries;
    d().values = d().keys + num_keys;
    const DeviceRows q = On(d().projected.data(), q_cols()), k = On(d().keys, kv_cols());
    const DeviceRows v = On(d().values, kv_cols());
    const DeviceRows all = On(d().projected.data(), q_cols() + 2 * kv_cols());
    if (num_tokens_ == 1) {
      Multiply(config_.hidden_size, weights_.Rows(w.qkv), all, false);
    } else {
      size_t first = 0;
      for (const DeviceRows& part : {q, k, v}) {
        Multiply(config_.hidden_size, weights_.Rows(w.qkv, first, part.num_cols), part, false);
        first += part.num_cols;
      }
    }
    AddBias(w.q_bias, q);
    AddBias(w.k_bias, k);
    AddBias(w.v_bias, v);
    NormHeads(q, w.q_norm);
    NormHeads(k, w.k_norm);
    const bool is_local = !a_.angles[1].cosine.empty() && config_.is_windowed(layer);
    if (num_tokens_ == 1 && config_.query_scale == 1) {
      Rotate(On(d().projected.data(), q_cols() + kv_cols()), is_local, 1);
    } else {
      Rotate(q, is_local, config_.query_scale);
      Rotate(k, is_local, 1);
    }
    const bool keeps_queries = a_.attends_on_device || a_.keeps_queries;
    const bool keeps_rows = a_.attends_on_device || a_.keeps_rows;
    if (!keeps_queries) Download(d().projected, num_queries, a_.projected.data());
    if (!keeps_rows) {
      Download(d().projected, num_keys, a_.keys.data(), num_queries);
      Download(d().projected, num_keys, a_.values.data(), num_queries + num_keys);
    }
    if (!keeps_queries || !keeps_rows) Wait();
  }

  // Adds the attention's output and measures cosines, for which it keeps a copy of the residuals of
  // these tokens and waits for the result.
  void AddAttention(size_t layer, std::span<double> cosines) {
    if (cosines.empty()) return AddAttention(layer);
    const size_t hidden = config_.hidden_size, skipped = (num_tokens_ - cosines.size()) * hidden;
    if (status_.ok()) status_ = ReserveCosines();
    if (!status_.ok()) return;
    DeviceRows after = On(d().residual, hidden), before = On(d().before, hidden);
    after.data = d().residual.data() + skipped;
    after.num_rows = before.num_rows = cosines.size();
    Try([&] {
      return stream().kernels().copy_on_device(stream().handle(), before.data, after.data,
                                               cosines.size() * hidden * sizeof(float));
    });
    AddAttention(layer);
    Try([&] { return CudaRowCosines(stream(), {before, after, d().similarities.data()}); });
    std::vector<float> found(cosines.size());
    Download(d().similarities, found.size(), found.data());
    Wait();
    std::ranges::copy(found, cosines.begin());
  }

  Status ReserveCosines() {
    DeviceStream& s = *a_.stream;
    LECTERN_RETURN_IF_ERROR(d().before.Reserve(s, a_.max_tokens * config_.hidden_size, kWhat));
    return d().similarities.Reserve(s, a_.max_tokens, kWhat);
  }

  void AddAttention(size_t layer) {
    const DeviceWeights::Layer& w = weights_.layer(layer);
    if (!std::exchange(a_.is_attended, false) && !a_.attends_on_device) {
      Upload(a_.projected.data(), num_tokens_ * q_cols(), d().projected);
    }
    Round(On(d().projected, q_cols()));
    AddPart(q_cols(), w.o, w.o_bias, w.attention_post_norm);
  }

  // Adds the MLP's output to the residuals.
  void AddMlp(size_t layer) {
    const DeviceWeights::Layer& w = weights_.layer(layer);
    const size_t ffn = config_.intermediate_size;
    Norm(On(d().residual, config_.hidden_size), w.mlp_norm, Input(config_.hidden_size));
    const DeviceRows both = On(d().gate_up, 2 * ffn);
    Multiply(config_.hidden_size, weights_.Rows(w.gate_up), both, false);
    Try([&] {
      return CudaGlu(stream(),
                     {.gate = {both.data, Dtype::kF32, num_tokens_, ffn, both.stride},
                      .up = {d().gate_up.data() + ffn, Dtype::kF32, num_tokens_, ffn, both.stride},
                      .output = Input(ffn),
                      .activation = config_.activation});
    });
    AddPart(ffn, w.down, {}, w.mlp_post_norm);
  }

  // Computes the logits of the step's tokens from row `first` of the residuals on.
  void Logits(size_t first, Rows<float> logits) {
    const size_t hidden = config_.hidden_size, vocab = config_.vocab_size;
    assert(logits.num_cols == vocab && logits.stride == vocab);
    if (status_.ok()) {
      status_ = d().logits.Reserve(*a_.stream, num_tokens_ * vocab, kWhat);
    }
    DeviceRows residual = On(d().residual, hidden);
    residual.data = d().residual.data() + first * hidden;
    Norm(residual, weights_.final_norm(), Input(hidden));
    const DeviceRows output = On(d().logits, vocab);
    Multiply(hidden, weights_.Rows(weights_.output()), output, false);
    if (config_.logit_softcap > 0) {
      Try([&] { return CudaSoftcap(stream(), {output, config_.logit_softcap}); });
    }
    Download(d().logits, num_tokens_ * vocab, logits.data);
    Wait();
  }

 private:
  DeviceActivations& d() { return *a_.device; }
  CudaStream& stream() { return a_.stream->stream(); }
  size_t q_cols() const { return size_t{config_.num_heads} * config_.head_dim; }
  size_t kv_cols() const { return size_t{config_.num_kv_heads} * config_.head_dim; }

  template <typename Enqueue>
  void Try(const Enqueue& enqueue) {
    if (status_.ok()) status_ = a_.stream->Check(enqueue());
  }

  // Takes the stream and the buffers of a_ where it has none, or too small ones. kIoError where the
  // device is lost.
  Status Prepare(const DeviceTransformer& transformer) {
    LECTERN_RETURN_IF_ERROR(transformer.device_->CheckAlive());
    if (!a_.stream) {
      LECTERN_ASSIGN(a_.stream, DeviceStream::Create(transformer.device_));
    }
    if (!a_.device) a_.device = std::make_shared<DeviceActivations>();
    if (d().max_tokens >= a_.max_tokens) return {};
    const size_t n = a_.max_tokens, hidden = config_.hidden_size;
    const size_t widest = std::max<size_t>({hidden, q_cols(), config_.intermediate_size});
    DeviceStream& s = *a_.stream;
    LECTERN_RETURN_IF_ERROR(d().residual.Reserve(s, n * hidden, kWhat));
    LECTERN_RETURN_IF_ERROR(d().input.Reserve(s, n * widest, kWhat));
    if (config_.post_norms) LECTERN_RETURN_IF_ERROR(d().part.Reserve(s, n * hidden, kWhat));
    LECTERN_RETURN_IF_ERROR(d().projected.Reserve(s, n * (q_cols() + 2 * kv_cols()), kWhat));
    LECTERN_RETURN_IF_ERROR(d().gate_up.Reserve(s, 2 * n * config_.intermediate_size, kWhat));
    for (size_t kind = 0; kind < a_.angles.size(); ++kind) {
      const size_t size = a_.angles[kind].cosine.size();
      LECTERN_RETURN_IF_ERROR(d().cosine[kind].Reserve(s, size, kWhat));
      LECTERN_RETURN_IF_ERROR(d().sine[kind].Reserve(s, size, kWhat));
    }
    d().max_tokens = n;
    return {};
  }

  DeviceRows On(float* data, size_t cols) const {
    return {data, Dtype::kF32, num_tokens_, cols, cols};
  }
  DeviceRows On(const DeviceArray<float>& array, size_t cols) const {
    return On(array.data(), cols);
  }
  // The rows that the next matrix is multiplied by.
  DeviceRows Input(size_t cols) {
    return {d().input.data(), weights_.dtype(), num_tokens_, cols, cols};
  }

  void Norm(const DeviceRows& input, const DeviceArray<float>& weight, const DeviceRows& output) {
    Try([&] {
      return CudaRmsNorm(stream(), {.input = input,
                                    .weight = weight.data(),
                                    .epsilon = config_.rms_norm_epsilon,
                                    .output = output});
    });
  }

  // Normalises heads that lie side by side in rows; does nothing where there is no weight.
  void NormHeads(const DeviceRows& rows, const DeviceArray<float>& weight) {
    if (weight.empty()) return;
    const size_t dim = config_.head_dim;
    const DeviceRows heads = {rows.data, Dtype::kF32, rows.num_rows * rows.num_cols / dim, dim,
                              dim};
    Norm(heads, weight, heads);
  }

  void Multiply(size_t input_cols, const DeviceRows& weight, const DeviceRows& output,
                bool accumulate) {
    Try([&] {
      return CudaMatMul(stream(), {.input = Input(input_cols),
                                   .weight = weight,
                                   .output = output,
                                   .accumulate = accumulate});
    });
  }

  void AddBias(const DeviceArray<float>& bias, const DeviceRows& rows) {
    if (bias.empty()) return;
    Try([&] { return CudaAdd(stream(), {rows, bias.data(), 0}); });
  }

  void Rotate(const DeviceRows& heads, bool is_local, float scale) {
    const auto half =
        static_cast<uint32_t>(a_.angles[is_local].cosine.size() / a_.max_tokens);
    Try([&] {
      return CudaRope(stream(), {.heads = heads,
                                 .head_dim = config_.head_dim,
                                 .cosine = d().cosine[is_local].data(),
                                 .sine = d().sine[is_local].data(),
                                 .half = half,
                                 .scale = scale,
                                 .output = heads});
    });
  }

  // -> Input.
  void Round(const DeviceRows& rows) {
    Try([&] {
      return CudaStoreRows(stream(), {.input = rows,
                                      .num_heads = 1,
                                      .head_dim = static_cast<uint32_t>(rows.num_cols),
                                      .dtype = weights_.dtype(),
                                      .output = d().input.data(),
                                      .scales = nullptr,
                                      .rows_per_head = static_cast<uint32_t>(rows.num_rows),
                                      .first_position = 0});
    });
  }

  // residual += matrix * Input: at once, or, where the model norms it first, through `part`.
  void AddPart(size_t input_cols, const DeviceWeights::Matrix& weight,
               const DeviceArray<float>& bias, const DeviceArray<float>& post_norm) {
    const DeviceRows residual = On(d().residual, config_.hidden_size);
    if (post_norm.empty()) {
      Multiply(input_cols, weights_.Rows(weight), residual, true);
      return AddBias(bias, residual);
    }
    const DeviceRows part = On(d().part, config_.hidden_size);
    Multiply(input_cols, weights_.Rows(weight), part, false);
    AddBias(bias, part);
    Norm(part, post_norm, part);
    Try([&] { return CudaAdd(stream(), {residual, d().part.data(), config_.hidden_size}); });
  }

  void Upload(const float* from, size_t count, const DeviceArray<float>& to) {
    if (status_.ok() && count > 0) status_ = to.Upload(*a_.stream, from, count);
  }
  void Download(const DeviceArray<float>& from, size_t count, float* to, size_t at = 0) {
    if (status_.ok()) status_ = from.Download(*a_.stream, to, count, at);
  }
  void Wait() {
    if (status_.ok()) status_ = a_.stream->Wait();
  }

  const ModelConfig& config_;
  const DeviceWeights& weights_;
  const size_t num_tokens_;
  Activations& a_;
  Status status_;
};

Status DeviceTransformer::Prepare(Activations& a) const { return Step(*this, 0, a).status(); }

Status DeviceTransformer::PrepareCosines(Activations& a) const {
  Step step(*this, 0, a);
  return step.ok() ? step.ReserveCosines() : step.status();
}

Status DeviceTransformer::Project(size_t layer, size_t num_tokens, Activations& a) const {
  Step step(*this, num_tokens, a);
  if (step.ok()) step.Project(layer);
  return step.status();
}

Status DeviceTransformer::AddAttention(size_t layer, size_t num_tokens, Activations& a,
                                       std::span<double> cosines) const {
  Step step(*this, num_tokens, a);
  if (step.ok()) step.AddAttention(layer, cosines);
  return step.status();
}

Status DeviceTransformer::AddMlp(size_t layer, size_t num_tokens, Activations& a) const {
  Step step(*this, num_tokens, a);
  if (step.ok()) step.AddMlp(layer);
  return step.status();
}

Status DeviceTransformer::RunRecorded(Activations& a, FunctionRef<Status()> layers) const {
  {
    Step step(*this, 1, a);
    if (step.ok()) step.BringResidual();
    LECTERN_RETURN_IF_ERROR(step.status());
  }
  DeviceActivations& d = *a.device;
  CudaStream& stream = a.stream->stream();
  if (a.graph_key > 0 && d.recorded_key == a.graph_key) {
    return device_->Check(d.recorded.Launch(stream));
  }
  // The first one takes what memory there is to take.
  const bool is_first = std::exchange(d.last_key, a.graph_key) != a.graph_key;
  if (a.graph_key == 0 || is_first || !d.can_record) return layers();
  d.recorded_key = 0;
  const Status recorded = a.stream->Record(d.recorded, layers);
  if (recorded.ok()) {
    d.recorded_key = a.graph_key;
    return device_->Check(d.recorded.Launch(stream));
  }
  if (recorded.code() != Code::kIoError && recorded.code() != Code::kOutOfMemory) return recorded;
  d.can_record = false;
  return layers();
}

Status DeviceTransformer::Logits(size_t first, size_t num_tokens, Activations& a,
                                 Rows<float> logits) const {
  Step step(*this, num_tokens, a);
  if (step.ok()) step.Logits(first, logits);
  return step.status();
}

Status DeviceTransformer::Wait(Activations& a) const { return a.stream->Wait(); }

}  // namespace lectern
