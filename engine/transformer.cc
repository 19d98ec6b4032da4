#include "engine/transformer.h"

#include <algorithm>
#include <cmath>

#include "store/shard_layout.h"

namespace lectern {
namespace {

constexpr size_t kColumnsPerItem = 64;   // of a matrix product: whole panels of packed weights
constexpr size_t kTokensPerItem = 32;    // of a row-wise operation
constexpr size_t kInlineWork = 1 << 16;  // multiplications below which waking a thread costs more

void EmbeddingOf(const Backend& backend, const WeightMatrix& embedding, size_t id,
                 Rows<float> out) {
  if (!embedding.is_packed()) {
    return backend.to_float_rows(embedding.rows.Slice(id, id + 1), out);
  }
  for (size_t i = 0; i < out.num_cols; ++i) out[0][i] = PackedElement(embedding.packed, id, i);
}

// Heads whose pairs are neighbours become such whose pairs are (i, i + half).
void SeparatePairs(Rows<float> heads, size_t head_dim) {
  float head[kMaxHeadDim];
  const size_t half = head_dim / 2;
  for (size_t t = 0; t < heads.num_rows; ++t) {
    for (size_t begin = 0; begin < heads.num_cols; begin += head_dim) {
      float* const x = heads[t] + begin;
      std::copy_n(x, head_dim, head);
      for (size_t i = 0; i < half; ++i) x[i] = head[2 * i], x[half + i] = head[2 * i + 1];
    }
  }
}

}  // namespace

Activations::Activations(const ModelConfig& config, size_t tokens, size_t num_threads)
    : max_tokens(tokens) {
  const size_t heads = size_t{config.num_heads} * config.head_dim;
  const size_t kv_heads = size_t{config.num_kv_heads} * config.head_dim;
  residual.resize(tokens * config.hidden_size);
  normed.resize(tokens * config.hidden_size);
  projected.resize(tokens * heads);
  keys.resize(tokens * kv_heads);
  values.resize(tokens * kv_heads);
  gate.resize(tokens * config.intermediate_size);
  up.resize(tokens * config.intermediate_size);
  cosine.resize(tokens * config.head_dim / 2);
  sine.resize(tokens * config.head_dim / 2);
  queries.resize(tokens * heads);
  attended.resize(tokens * heads);
  scratch_per_thread = std::max({MatMulScratch(config.hidden_size), MatMulScratch(heads),
                                 MatMulScratch(config.intermediate_size)});
  scratch.resize(num_threads * scratch_per_thread);
  const size_t widest = std::max<size_t>({config.hidden_size, heads, config.intermediate_size});
  steps.resize(tokens * widest);
  scales.resize(tokens * (widest / kPackedGroup));
  sums.resize(scales.size());
}

void Transformer::Embed(std::span<const int32_t> ids, size_t first_position, Activations& a) const {
  const ModelConfig& config = model_.config();
  assert(ids.size() <= a.max_tokens);
  const std::vector<float>& frequencies = model_.inverse_frequencies();
  const size_t half = frequencies.size();
  for (size_t t = 0; t < ids.size(); ++t) {
    assert(ids[t] >= 0 && static_cast<uint32_t>(ids[t]) < config.vocab_size);
    const auto id = static_cast<size_t>(ids[t]);
    EmbeddingOf(backend_, model_.weights().embedding(), id,
                {a.residual.data() + t * config.hidden_size, 1, config.hidden_size});
    for (size_t i = 0; i < half; ++i) {
      // In float32, as transformers does: the model was trained with these very angles.
      const float angle = static_cast<float>(first_position + t) * frequencies[i];
      a.cosine[t * half + i] = std::cos(angle);
      a.sine[t * half + i] = std::sin(angle);
    }
  }
}

void Transformer::MatMul(Rows<const float> input, const WeightMatrix& weight, Rows<float> output,
                         bool accumulate, Activations& a) const {
  static_assert(kColumnsPerItem % kPackedColumns == 0);
  const size_t columns = weight.num_rows();
  const Int8Rows quantised = weight.is_packed() ? Quantise(input, a) : Int8Rows();
  const auto run = [&](size_t begin, size_t end, size_t slot) {
    if (weight.is_packed()) {
      return backend_.packed_matmul({.input = quantised,
                                     .weight = weight.packed,
                                     .output = output,
                                     .column_begin = begin,
                                     .column_end = end,
                                     .accumulate = accumulate});
    }
    backend_.matmul({.input = input,
                     .weight = weight.rows,
                     .output = output,
                     .column_begin = begin,
                     .column_end = end,
                     .accumulate = accumulate,
                     .scratch = std::span<float>(a.scratch).subspan(slot * a.scratch_per_thread,
                                                                    a.scratch_per_thread)});
  };
  if (input.num_rows * columns * weight.num_cols() <= kInlineWork) return run(0, columns, 0);
  const size_t items = (columns + kColumnsPerItem - 1) / kColumnsPerItem;
  threads_.ParallelFor(items, [&](size_t item, size_t slot) {
    const size_t begin = item * kColumnsPerItem;
    run(begin, std::min(begin + kColumnsPerItem, columns), slot);
  });
}

Int8Rows Transformer::Quantise(Rows<const float> input, Activations& a) const {
  const size_t cols = input.num_cols, num_groups = cols / kPackedGroup;
  const size_t items = (input.num_rows + kTokensPerItem - 1) / kTokensPerItem;
  const auto run = [&](size_t item, size_t) {
    const size_t begin = item * kTokensPerItem;
    const size_t end = std::min(begin + kTokensPerItem, input.num_rows);
    backend_.quantise_rows(
        {.input = input.Slice(begin, end),
         .steps = std::span<int8_t>(a.steps).subspan(begin * cols, (end - begin) * cols),
         .scales =
             std::span<float>(a.scales).subspan(begin * num_groups, (end - begin) * num_groups),
         .sums = std::span<float>(a.sums).subspan(begin * num_groups, (end - begin) * num_groups)});
  };
  if (items == 1) {
    run(0, 0);
  } else {
    threads_.ParallelFor(items, run);
  }
  return {a.steps.data(), a.scales.data(), a.sums.data(), input.num_rows, cols};
}

void Transformer::Norm(const std::vector<float>& weight, size_t num_tokens, Activations& a) const {
  const size_t hidden = model_.config().hidden_size;
  backend_.rms_norm({.input = Rows<const float>(a.residual.data(), num_tokens, hidden),
                     .weight = weight,
                     .epsilon = model_.config().rms_norm_epsilon,
                     .output = {a.normed.data(), num_tokens, hidden}});
}

void Transformer::Project(size_t layer, size_t num_tokens, Activations& a) const {
  const ModelConfig& config = model_.config();
  const LayerWeights& weights = model_.weights().layer(layer);
  const size_t hidden = config.hidden_size, dim = config.head_dim;
  const size_t q_cols = config.num_heads * dim, kv_cols = config.num_kv_heads * dim;
  const Rows<float> q(a.projected.data(), num_tokens, q_cols);
  const Rows<float> k(a.keys.data(), num_tokens, kv_cols);
  const Rows<float> v(a.values.data(), num_tokens, kv_cols);

  Norm(weights.attention_norm, num_tokens, a);
  const Rows<const float> normed(a.normed.data(), num_tokens, hidden);
  MatMul(normed, weights.q, q, false, a);
  MatMul(normed, weights.k, k, false, a);
  MatMul(normed, weights.v, v, false, a);
  if (config.rope.has_neighbours) {
    SeparatePairs(q, dim);
    SeparatePairs(k, dim);
  }
  const Rows<const float> cosine(a.cosine.data(), num_tokens, dim / 2);
  const Rows<const float> sine(a.sine.data(), num_tokens, dim / 2);
  backend_.rope({.heads = q, .head_dim = dim, .cosine = cosine, .sine = sine});
  backend_.rope({.heads = k, .head_dim = dim, .cosine = cosine, .sine = sine});

  const size_t group_cols = config.query_group() * dim;
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    float* to = Grouped(a.queries, head, num_tokens).data;
    for (size_t t = 0; t < num_tokens; ++t) {
      std::copy_n(q[t] + head * group_cols, group_cols, to + t * group_cols);
    }
  }
}

void Transformer::AddAttention(size_t layer, size_t num_tokens, Activations& a) const {
  const ModelConfig& config = model_.config();
  const size_t q_cols = size_t{config.num_heads} * config.head_dim;
  const size_t group_cols = size_t{config.query_group()} * config.head_dim;
  const Rows<float> attention(a.projected.data(), num_tokens, q_cols);
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    const float* from = Grouped(a.attended, head, num_tokens).data;
    for (size_t t = 0; t < num_tokens; ++t) {
      std::copy_n(from + t * group_cols, group_cols, attention[t] + head * group_cols);
    }
  }
  const Rows<float> residual(a.residual.data(), num_tokens, config.hidden_size);
  MatMul(attention, model_.weights().layer(layer).o, residual, true, a);
}

void Transformer::AddMlp(size_t layer, size_t num_tokens, Activations& a) const {
  const ModelConfig& config = model_.config();
  const LayerWeights& weights = model_.weights().layer(layer);
  const size_t hidden = config.hidden_size, ffn = config.intermediate_size;
  Norm(weights.mlp_norm, num_tokens, a);
  const Rows<const float> normed(a.normed.data(), num_tokens, hidden);
  MatMul(normed, weights.gate, {a.gate.data(), num_tokens, ffn}, false, a);
  MatMul(normed, weights.up, {a.up.data(), num_tokens, ffn}, false, a);
  threads_.ParallelFor((num_tokens + kTokensPerItem - 1) / kTokensPerItem, [&](size_t item,
                                                                               size_t) {
    const size_t begin = item * kTokensPerItem, rows = std::min(kTokensPerItem, num_tokens - begin);
    const Rows<float> gate(a.gate.data() + begin * ffn, rows, ffn);
    backend_.swiglu({.gate = gate,
                     .up = Rows<const float>(a.up.data() + begin * ffn, rows, ffn),
                     .output = gate});
  });
  MatMul(Rows<const float>(a.gate.data(), num_tokens, ffn), weights.down,
         {a.residual.data(), num_tokens, hidden}, true, a);
}

Status Transformer::RunLayers(size_t num_tokens, Activations& a,
                              FunctionRef<Status(uint32_t layer)> attend) const {
  for (uint32_t layer = 0; layer < model_.config().num_layers; ++layer) {
    Project(layer, num_tokens, a);
    LECTERN_RETURN_IF_ERROR(attend(layer));
    Finish(layer, num_tokens, a);
  }
  return {};
}

void Transformer::Logits(size_t first, size_t num_tokens, Activations& a,
                         Rows<float> logits) const {
  const ModelConfig& config = model_.config();
  const size_t hidden = config.hidden_size;
  const Rows<float> normed(a.normed.data(), num_tokens, hidden);
  backend_.rms_norm(
      {.input = Rows<const float>(a.residual.data() + first * hidden, num_tokens, hidden),
       .weight = model_.weights().final_norm(),
       .epsilon = config.rms_norm_epsilon,
       .output = normed});
  MatMul(normed, model_.weights().output(), logits, false, a);
}

}  // namespace lectern
