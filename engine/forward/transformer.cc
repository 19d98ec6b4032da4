#include "engine/forward/transformer.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

// Sizes of work items for the threads; they change the speed only. By hand; no measurement
// is on record.
// Columns of a matrix product: whole panels of packed weights.
constexpr size_t kColumnsPerItem = 64;
constexpr size_t kTokensPerItem = 32;    // tokens of an operation on rows
constexpr size_t kInlineWork = 1 << 16;  // multiplications; for fewer, waking a thread costs more

// The embedding of one token as floats, from stored or packed rows.
void EmbeddingOf(const Backend& backend, const WeightMatrix& embedding, size_t id,
                 Rows<float> out) {
  if (!embedding.is_packed()) {
    return backend.to_float_rows(embedding.rows.Slice(id, id + 1), out);
  }
  for (size_t i = 0; i < out.num_cols; ++i) out[0][i] = PackedElement(embedding.packed, id, i);
}

void AddBias(std::span<const float> bias, Rows<float> rows) {
  if (bias.empty()) return;
  for (size_t r = 0; r < rows.num_rows; ++r) {
    for (size_t c = 0; c < bias.size(); ++c) rows[r][c] += bias[c];
  }
}

// Columns [begin, end) of a bias that may be empty.
std::span<const float> BiasPart(const std::vector<float>& bias, size_t begin, size_t end) {
  if (bias.empty()) return {};
  return std::span(bias).subspan(begin, end - begin);
}

void AddRows(Rows<const float> from, Rows<float> to) {
  for (size_t r = 0; r < to.num_rows; ++r) {
    for (size_t c = 0; c < to.num_cols; ++c) to[r][c] += from[r][c];
  }
}

// Subtracts from each row its mean.
void Centre(Rows<const float> from, Rows<float> to) {
  for (size_t r = 0; r < to.num_rows; ++r) {
    double sum = 0;
    for (size_t c = 0; c < to.num_cols; ++c) sum += double{from[r][c]};
    const auto mean = static_cast<float>(sum / static_cast<double>(to.num_cols));
    for (size_t c = 0; c < to.num_cols; ++c) to[r][c] = from[r][c] - mean;
  }
}

// 2 if windowed layers rotate keys by other angles, else 1.
size_t NumRopeTables(const ModelConfig& config) {
  return config.window > 0 && config.local_rope != config.rope ? 2 : 1;
}

// Reorders heads whose rotated pairs are neighbours (2i, 2i + 1) into the order (i, i + half) that
// the RoPE kernel expects. Only the first `dims` numbers of a head are in pairs.
void SeparatePairs(Rows<float> heads, size_t head_dim, size_t dims) {
  float head[kWidestHead];
  const size_t half = dims / 2;
  for (size_t t = 0; t < heads.num_rows; ++t) {
    for (size_t begin = 0; begin < heads.num_cols; begin += head_dim) {
      float* const x = heads[t] + begin;
      std::copy_n(x, dims, head);
      for (size_t i = 0; i < half; ++i) x[i] = head[2 * i], x[half + i] = head[2 * i + 1];
    }
  }
}

}  // namespace

// Allocates the buffers of a pass over `tokens` tokens. `rounded` has room for the input of the
// widest of the matrices.
Activations::Activations(const ModelConfig& config, size_t tokens, size_t num_threads)
    : max_tokens(tokens) {
  const size_t heads = size_t{config.num_heads} * config.head_dim;
  const size_t kv_heads = size_t{config.num_kv_heads} * config.head_dim;
  residual.resize(tokens * config.hidden_size);
  normed.resize(tokens * config.hidden_size);
  projected.resize(tokens * heads);
  keys.resize(tokens * kv_heads);
  values.resize(tokens * kv_heads);
  gate.resize(tokens * config.widest_mlp());
  up.resize(tokens * config.widest_mlp());
  const size_t rows = config.experts.count > 0 ? tokens * config.experts.used : 0;
  expert_rows.resize(rows * config.hidden_size);
  if (rows > 0) mlp_output.resize(tokens * config.hidden_size);
  scores.resize(tokens * config.experts.count);
  if (config.parallel) mlp_input.resize(tokens * config.hidden_size);
  for (size_t kind = 0; kind < NumRopeTables(config); ++kind) {
    const RopeRecipe& recipe = kind == 0 ? config.rope : config.local_rope;
    angles[kind].cosine.resize(tokens * recipe.dims / 2);
    angles[kind].sine.resize(tokens * recipe.dims / 2);
  }
  queries.resize(tokens * heads);
  attended.resize(tokens * heads);
  scratch_per_thread =
      std::max({MatMulScratch(config.hidden_size), MatMulScratch(heads),
                MatMulScratch(config.intermediate_size), MatMulScratch(config.experts.width),
                MatMulScratch(config.experts.shared_width)});
  scratch.resize(num_threads * scratch_per_thread);
  const size_t widest = std::max<size_t>({config.hidden_size, heads, config.intermediate_size});
  const size_t most = std::max({tokens * widest, tokens * config.experts.shared_width,
                                rows * config.hidden_size, rows * config.experts.width});
  rounded.Resize(most / kPackedGroup * kPackedGroup);
}

Transformer::Transformer(const Model& model, const Backend& backend, ThreadPool& threads,
                         uint64_t length, const LinearLayers* device)
    : model_(model), backend_(backend), threads_(threads), device_(device) {
  const ModelConfig& config = model.config();
  rope_[0] = MakeRopeTable(config.rope, length);
  if (NumRopeTables(config) == 2) rope_[1] = MakeRopeTable(config.local_rope, length);
}

void Transformer::Embed(std::span<const int32_t> ids, size_t first_position, Activations& a) const {
  const ModelConfig& config = model_.config();
  assert(ids.size() <= a.max_tokens);
  for (size_t t = 0; t < ids.size(); ++t) {
    assert(ids[t] >= 0 && static_cast<uint32_t>(ids[t]) < config.vocab_size);
    float* const row = a.residual.data() + t * config.hidden_size;
    EmbeddingOf(backend_, model_.weights().embedding(), static_cast<size_t>(ids[t]),
                {row, 1, config.hidden_size});
    for (size_t i = 0; config.embedding_scale != 1 && i < config.hidden_size; ++i) {
      row[i] *= config.embedding_scale;
    }
  }
  for (size_t kind = 0; kind < NumRopeTables(config); ++kind) {
    const RopeTable& table = rope_[kind];
    const size_t half = table.frequencies.size();
    Activations::Angles& angles = a.angles[kind];
    for (size_t i = 0; i < ids.size() * half; ++i) {
      // In float32, as transformers computes it: the model was trained with exactly these angles.
      const float angle =
          static_cast<float>(first_position + i / half) * table.frequencies[i % half];
      angles.cosine[i] = std::cos(angle) * table.attention_factor;
      angles.sine[i] = std::sin(angle) * table.attention_factor;
    }
  }
  a.is_embedded = true;
}

const LayerAdapter& Transformer::AdapterOf(size_t layer) const {
  static const LayerAdapter kNothing;
  return model_.adapter() ? model_.adapter()->layer(layer) : kNothing;
}

void Transformer::AddLowRank(Rows<const float> input, const LowRank& added, Rows<float> output,
                             Activations& a) const {
  const size_t rank = added.rank(), num_tokens = input.num_rows;
  a.low_rank.resize(std::max(a.low_rank.size(), num_tokens * rank));
  // Both products are small, so threads share tokens and not columns.
  const auto run = [&](size_t item, size_t slot) {
    const size_t begin = item * kTokensPerItem;
    const size_t end = std::min(begin + kTokensPerItem, num_tokens);
    const Rows<float> inner(a.low_rank.data() + begin * rank, end - begin, rank);
    const std::span<float> scratch =
        std::span<float>(a.scratch).subspan(slot * a.scratch_per_thread, a.scratch_per_thread);
    backend_.matmul({.input = input.Slice(begin, end),
                     .weight = added.a,
                     .output = inner,
                     .column_begin = 0,
                     .column_end = rank,
                     .accumulate = false,
                     .scratch = scratch});
    for (size_t i = 0; i < inner.num_rows * rank; ++i) inner.data[i] *= added.scale;
    backend_.matmul({.input = inner,
                     .weight = added.b,
                     .output = output.Slice(begin, end),
                     .column_begin = 0,
                     .column_end = output.num_cols,
                     .accumulate = true,
                     .scratch = scratch});
  };
  const size_t items = (num_tokens + kTokensPerItem - 1) / kTokensPerItem;
  if (items == 1) return run(0, 0);
  threads_.ParallelFor(items, run);
}

void Transformer::MatMulColumns(Rows<const float> input, const Int8Rows& quantised,
                                const WeightMatrix& weight, Rows<float> output, size_t begin,
                                size_t end, bool accumulate, size_t slot, Activations& a) const {
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
}

void Transformer::MatMul(Rows<const float> input, const WeightMatrix& weight, const LowRank& added,
                         Rows<float> output, bool accumulate, Activations& a) const {
  static_assert(kColumnsPerItem % kPackedColumns == 0);
  const size_t columns = weight.num_rows();
  const Int8Rows quantised = weight.is_packed() ? Quantise(input, a) : Int8Rows();
  const auto run = [&](size_t begin, size_t end, size_t slot) {
    MatMulColumns(input, quantised, weight, output, begin, end, accumulate, slot, a);
  };
  // Small products run on the calling thread.
  if (input.num_rows * columns * weight.num_cols() <= kInlineWork) {
    run(0, columns, 0);
  } else {
    const size_t items = (columns + kColumnsPerItem - 1) / kColumnsPerItem;
    threads_.ParallelFor(items, [&](size_t item, size_t slot) {
      const size_t begin = item * kColumnsPerItem;
      run(begin, std::min(begin + kColumnsPerItem, columns), slot);
    });
  }
  if (added.is_there()) AddLowRank(input, added, output, a);
}

Int8Rows Transformer::Quantise(Rows<const float> input, Activations& a) const {
  const size_t items = (input.num_rows + kTokensPerItem - 1) / kTokensPerItem;
  const auto run = [&](size_t item, size_t) {
    const size_t begin = item * kTokensPerItem;
    const size_t end = std::min(begin + kTokensPerItem, input.num_rows);
    backend_.quantise_rows(a.rounded.Args(input.Slice(begin, end), begin));
  };
  if (items == 1) {
    run(0, 0);
  } else {
    threads_.ParallelFor(items, run);
  }
  return a.rounded.rows(input.num_rows, input.num_cols);
}

Rows<const float> Transformer::Normed(const std::vector<float>& weight, size_t first,
                                      size_t num_tokens, Activations& a) const {
  const ModelConfig& config = model_.config();
  const size_t hidden = config.hidden_size;
  const Rows<const float> residual(a.residual.data() + first * hidden, num_tokens, hidden);
  if (weight.empty()) return residual;
  const Rows<float> normed(a.normed.data(), num_tokens, hidden);
  // LayerNorm is RMSNorm of a row that its mean was subtracted from.
  if (config.centred_norms) Centre(residual, normed);
  backend_.rms_norm({.input = config.centred_norms ? Rows<const float>(normed) : residual,
                     .weight = weight,
                     .epsilon = config.rms_norm_epsilon,
                     .output = normed});
  return normed;
}

void Transformer::NormHeads(Rows<float> rows, const std::vector<float>& weight) const {
  if (weight.empty()) return;
  const Rows<float> heads(rows.data, rows.num_rows * rows.num_cols / weight.size(), weight.size());
  backend_.rms_norm({.input = heads,
                     .weight = weight,
                     .epsilon = model_.config().rms_norm_epsilon,
                     .output = heads});
}

void Transformer::AddPart(Rows<const float> input, const WeightMatrix& weight, const LowRank& added,
                          std::span<const float> bias, const std::vector<float>& post_norm,
                          Activations& a) const {
  const size_t hidden = model_.config().hidden_size;
  const float scale = model_.config().residual_scale;
  const Rows<float> residual(a.residual.data(), input.num_rows, hidden);
  if (post_norm.empty() && scale == 1) {
    MatMul(input, weight, added, residual, true, a);
    return AddBias(bias, residual);
  }
  const Rows<float> part(a.normed.data(), input.num_rows, hidden);
  MatMul(input, weight, added, part, false, a);
  AddBias(bias, part);
  AddScaled(part, post_norm, a);
}

void Transformer::AddScaled(Rows<float> part, const std::vector<float>& post_norm,
                            Activations& a) const {
  const size_t hidden = model_.config().hidden_size;
  const float scale = model_.config().residual_scale;
  if (!post_norm.empty()) {
    backend_.rms_norm({.input = part,
                       .weight = post_norm,
                       .epsilon = model_.config().rms_norm_epsilon,
                       .output = part});
  }
  for (size_t i = 0; scale != 1 && i < part.num_rows * hidden; ++i) part.data[i] *= scale;
  AddRows(part, {a.residual.data(), part.num_rows, hidden});
}

void Transformer::ProjectHere(size_t layer, size_t num_tokens, Activations& a) const {
  const ModelConfig& config = model_.config();
  const LayerWeights& weights = model_.weights().layer(layer);
  const size_t dim = config.head_dim;
  const size_t q_cols = config.num_heads * dim, kv_cols = config.num_kv_heads * dim;
  const Rows<float> q(a.projected.data(), num_tokens, q_cols);
  const Rows<float> k(a.keys.data(), num_tokens, kv_cols);
  const Rows<float> v(a.values.data(), num_tokens, kv_cols);

  const Rows<const float> normed = Normed(weights.attention_norm, 0, num_tokens, a);
  if (config.parallel) {
    std::copy_n(normed.data, num_tokens * config.hidden_size, a.mlp_input.data());
  }
  const LayerAdapter& adapter = AdapterOf(layer);
  MatMul(normed, weights.q, adapter.q, q, false, a);
  MatMul(normed, weights.k, adapter.k, k, false, a);
  MatMul(normed, weights.v, adapter.v, v, false, a);
  AddBias(weights.q_bias, q);
  AddBias(weights.k_bias, k);
  AddBias(weights.v_bias, v);
  // Biases come before the norms of queries and keys, and these before RoPE, as in the models'
  // definition. The norms' weights have the order of the matrices' rows.
  NormHeads(q, weights.q_norm);
  NormHeads(k, weights.k_norm);
  Turn(layer, num_tokens, a);
  if (config.query_scale != 1) {
    for (size_t i = 0; i < num_tokens * q_cols; ++i) q.data[i] *= config.query_scale;
  }
}

// Pairs are separated in layers that are not turned, too, so that all files of a model, whatever
// their order of rows, give the same bits.
void Transformer::Turn(size_t layer, size_t num_tokens, Activations& a) const {
  const ModelConfig& config = model_.config();
  const size_t dim = config.head_dim;
  const Rows<float> q(a.projected.data(), num_tokens, config.num_heads * dim);
  const Rows<float> k(a.keys.data(), num_tokens, config.num_kv_heads * dim);
  if (config.rope.has_neighbours) {
    SeparatePairs(q, dim, config.rope.dims);
    SeparatePairs(k, dim, config.rope.dims);
  }
  if (!config.is_turned(layer)) return;
  const bool is_local = NumRopeTables(config) == 2 && config.is_windowed(layer);
  const Activations::Angles& angles = a.angles[is_local];
  const size_t half = rope_[is_local].frequencies.size();
  const Rows<const float> cosine(angles.cosine.data(), num_tokens, half);
  const Rows<const float> sine(angles.sine.data(), num_tokens, half);
  backend_.rope({.heads = q, .head_dim = dim, .cosine = cosine, .sine = sine});
  backend_.rope({.heads = k, .head_dim = dim, .cosine = cosine, .sine = sine});
}

Status Transformer::Project(size_t layer, size_t num_tokens, Activations& a) const {
  if (device_ != nullptr) {
    LECTERN_RETURN_IF_ERROR(device_->Project(layer, num_tokens, a));
    if (a.attends_on_device || a.keeps_queries) return {};
  } else {
    ProjectHere(layer, num_tokens, a);
  }
  GroupHeads(a.projected, num_tokens, a.queries);
  return {};
}

void Transformer::GroupHeads(const std::vector<float>& rows, size_t num_tokens,
                             std::vector<float>& grouped) const {
  const ModelConfig& config = model_.config();
  const size_t q_cols = size_t{config.num_heads} * config.head_dim;
  const size_t group_cols = size_t{config.query_group()} * config.head_dim;
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    float* to = Grouped(grouped, head, num_tokens).data;
    for (size_t t = 0; t < num_tokens; ++t) {
      std::copy_n(rows.data() + t * q_cols + head * group_cols, group_cols, to + t * group_cols);
    }
  }
}

Status Transformer::AddAttention(size_t layer, size_t num_tokens, Activations& a,
                                 std::span<double> cosines) const {
  if (a.is_attended || a.attends_on_device) {
    return device_->AddAttention(layer, num_tokens, a, cosines);
  }
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
  if (device_ != nullptr) return device_->AddAttention(layer, num_tokens, a, cosines);
  const LayerWeights& weights = model_.weights().layer(layer);
  if (!cosines.empty()) a.before = a.residual;
  AddPart(attention, weights.o, AdapterOf(layer).o, weights.o_bias, weights.attention_post_norm, a);
  if (!cosines.empty()) MeasureCosines(num_tokens, a, cosines);
  return {};
}

void Transformer::MeasureCosines(size_t num_tokens, const Activations& a,
                                 std::span<double> cosines) const {
  const size_t hidden = model_.config().hidden_size, first = num_tokens - cosines.size();
  threads_.ParallelFor(cosines.size(), [&](size_t item, size_t) {
    const float* before = a.before.data() + (first + item) * hidden;
    const float* after = a.residual.data() + (first + item) * hidden;
    double product = 0, before_norm = 0, after_norm = 0;
    for (size_t i = 0; i < hidden; ++i) {
      product += double{before[i]} * after[i];
      before_norm += double{before[i]} * before[i];
      after_norm += double{after[i]} * after[i];
    }
    const double norms = std::sqrt(before_norm * after_norm);
    cosines[item] = norms > 0 ? product / norms : 1;
  });
}

Status Transformer::AddMlp(size_t layer, size_t num_tokens, Activations& a) const {
  if (device_ != nullptr) return device_->AddMlp(layer, num_tokens, a);
  const ModelConfig& config = model_.config();
  const LayerWeights& weights = model_.weights().layer(layer);
  const Rows<const float> normed =
      config.parallel ? Rows<const float>(a.mlp_input.data(), num_tokens, config.hidden_size)
                      : Normed(weights.mlp_norm, 0, num_tokens, a);
  if (config.has_experts(layer)) {
    RunExperts(layer, normed, a);
    AddScaled({a.mlp_output.data(), num_tokens, config.hidden_size}, weights.mlp_post_norm, a);
    return {};
  }
  AddPart(GatedRows(layer, normed, a), weights.down, AdapterOf(layer).down, weights.down_bias,
          weights.mlp_post_norm, a);
  return {};
}

Rows<const float> Transformer::GatedRows(size_t layer, Rows<const float> input,
                                         Activations& a) const {
  const LayerWeights& weights = model_.weights().layer(layer);
  const size_t num_tokens = input.num_rows, ffn = weights.gate.num_rows();
  const LayerAdapter& adapter = AdapterOf(layer);
  MatMul(input, weights.gate, adapter.gate, {a.gate.data(), num_tokens, ffn}, false, a);
  MatMul(input, weights.up, adapter.up, {a.up.data(), num_tokens, ffn}, false, a);
  threads_.ParallelFor((num_tokens + kTokensPerItem - 1) / kTokensPerItem, [&](size_t item,
                                                                               size_t) {
    const size_t begin = item * kTokensPerItem, rows = std::min(kTokensPerItem, num_tokens - begin);
    const Rows<float> gate(a.gate.data() + begin * ffn, rows, ffn);
    const Rows<float> up(a.up.data() + begin * ffn, rows, ffn);
    AddBias(weights.gate_bias, gate);
    AddBias(weights.up_bias, up);
    backend_.glu(
        {.gate = gate, .up = up, .output = gate, .activation = model_.config().activation});
  });
  return {a.gate.data(), num_tokens, ffn};
}

void Transformer::RunExperts(size_t layer, Rows<const float> input, Activations& a) const {
  const ModelConfig& config = model_.config();
  const LayerWeights& weights = model_.weights().layer(layer);
  const size_t num_tokens = input.num_rows, hidden = config.hidden_size;
  const TypedRows router = {reinterpret_cast<const std::byte*>(weights.router.data()), Dtype::kF32,
                            config.experts.count, hidden};
  const Rows<float> scores(a.scores.data(), num_tokens, config.experts.count);
  MatMul(input, router, {}, scores, false, a);
  AddBias(weights.router_bias, scores);
  Route(scores, config.experts, &a.routing);

  const Rows<float> output(a.mlp_output.data(), num_tokens, hidden);
  const bool has_shared = config.experts.shared_width > 0;
  if (has_shared) MatMul(GatedRows(layer, input, a), weights.down, {}, output, false, a);
  RunChosen(layer, input, a);
  const size_t used = config.experts.used;
  threads_.ParallelFor((num_tokens + kTokensPerItem - 1) / kTokensPerItem, [&](size_t item,
                                                                               size_t) {
    const size_t begin = item * kTokensPerItem, end = std::min(begin + kTokensPerItem, num_tokens);
    for (size_t t = begin; t < end; ++t) {
      float shared = 0;
      if (has_shared) {
        double sum = 0;
        for (size_t c = 0; c < hidden; ++c) sum += double{weights.shared_gate[c]} * input[t][c];
        shared = static_cast<float>(1 / (1 + std::exp(-sum)));
      }
      for (size_t c = 0; c < hidden; ++c) output[t][c] = has_shared ? shared * output[t][c] : 0;
      // In the order of experts, whatever other tokens are in the step.
      for (size_t j = 0; j < used; ++j) {
        const size_t row = a.routing.rows[t * used + j];
        const float weight = a.routing.weights[row];
        const float* const from = a.expert_rows.data() + row * hidden;
        for (size_t c = 0; c < hidden; ++c) output[t][c] += weight * from[c];
      }
    }
  });
}

// Two rounds of work items, each of some columns of one expert: a token alone has little work for
// the threads in one expert, and enough in all that it goes to.
void Transformer::RunChosen(size_t layer, Rows<const float> input, Activations& a) const {
  const ModelConfig& config = model_.config();
  const std::vector<ExpertWeights>& experts = model_.weights().layer(layer).experts;
  const size_t hidden = config.hidden_size, width = config.experts.width;
  const size_t num_rows = a.routing.tokens.size();
  const Rows<float> rows(a.expert_rows.data(), num_rows, hidden);
  const Rows<float> inner(a.gate.data(), num_rows, width), up(a.up.data(), num_rows, width);
  for (size_t row = 0; row < num_rows; ++row) {
    std::copy_n(input[a.routing.tokens[row]], hidden, rows[row]);
  }
  const auto is_packed = [&](WeightMatrix ExpertWeights::*matrix) {
    return std::ranges::any_of(a.routing.groups, [&](const Routing::Group& group) {
      return (experts[group.expert].*matrix).is_packed();
    });
  };
  // Calls run(expert, its rows, of them in int8, first column, behind the last, thread) for columns
  // [0, columns) of every chosen expert's product with `from`.
  const auto for_columns = [&](Rows<const float> from, size_t columns, bool quantises,
                               const auto& run) {
    const Int8Rows all = quantises ? Quantise(from, a) : Int8Rows();
    const size_t chunks = (columns + kColumnsPerItem - 1) / kColumnsPerItem;
    threads_.ParallelFor(a.routing.groups.size() * chunks, [&](size_t item, size_t slot) {
      const Routing::Group& group = a.routing.groups[item / chunks];
      const size_t begin = item % chunks * kColumnsPerItem;
      const Int8Rows own = quantises ? all.Slice(group.begin, group.end) : Int8Rows();
      run(experts[group.expert], group, from.Slice(group.begin, group.end), own, begin,
          std::min(begin + kColumnsPerItem, columns), slot);
    });
  };
  for_columns(rows, width, is_packed(&ExpertWeights::gate) || is_packed(&ExpertWeights::up),
              [&](const ExpertWeights& expert, const Routing::Group& group, Rows<const float> own,
                  const Int8Rows& quantised, size_t begin, size_t end, size_t slot) {
                const Rows<float> gates = inner.Slice(group.begin, group.end);
                const Rows<float> ups = up.Slice(group.begin, group.end);
                MatMulColumns(own, quantised, expert.gate, gates, begin, end, false, slot, a);
                MatMulColumns(own, quantised, expert.up, ups, begin, end, false, slot, a);
                const Rows<float> gate_part(gates.data + begin, own.num_rows, end - begin, width);
                const Rows<float> up_part(ups.data + begin, own.num_rows, end - begin, width);
                AddBias(BiasPart(expert.gate_bias, begin, end), gate_part);
                AddBias(BiasPart(expert.up_bias, begin, end), up_part);
                backend_.glu({.gate = gate_part,
                              .up = up_part,
                              .output = gate_part,
                              .activation = config.activation,
                              .limit = config.glu_limit,
                              .alpha = config.glu_alpha});
              });
  for_columns(inner, hidden, is_packed(&ExpertWeights::down),
              [&](const ExpertWeights& expert, const Routing::Group& group, Rows<const float> own,
                  const Int8Rows& quantised, size_t begin, size_t end, size_t slot) {
                const Rows<float> out = rows.Slice(group.begin, group.end);
                MatMulColumns(own, quantised, expert.down, out, begin, end, false, slot, a);
                AddBias(BiasPart(expert.down_bias, begin, end),
                        {out.data + begin, own.num_rows, end - begin, hidden});
              });
}

Status Transformer::RunLayers(size_t num_tokens, Activations& a,
                              FunctionRef<Status(uint32_t layer)> attend) const {
  for (uint32_t layer = 0; layer < model_.config().num_layers; ++layer) {
    LECTERN_RETURN_IF_ERROR(Project(layer, num_tokens, a));
    LECTERN_RETURN_IF_ERROR(attend(layer));
    LECTERN_RETURN_IF_ERROR(Finish(layer, num_tokens, a));
  }
  return {};
}

Status Transformer::RunToken(Activations& a, FunctionRef<Status(uint32_t layer)> attend) const {
  const auto layers = [&] { return RunLayers(1, a, attend); };
  return a.attends_on_device ? device_->RunRecorded(a, layers) : layers();
}

// A softcap may make logits equal that were not, so bounds of what goes into it are not enough.
Status Transformer::Logits(size_t first, size_t num_tokens, Activations& a, Rows<float> logits,
                           const WantedLogits& wanted) const {
  if (device_ != nullptr) return device_->Logits(first, num_tokens, a, logits);
  model_.weights().copy().CountPass();
  const ModelConfig& config = model_.config();
  const Rows<const float> normed = Normed(model_.weights().final_norm(), first, num_tokens, a);
  const WeightMatrix& output = model_.weights().output();
  if (!wanted.all() && output.is_packed() && output.packed.has_planes() &&
      config.logit_softcap <= 0 &&
      a.head.FindLikely(Quantise(normed, a), output.packed, wanted, backend_, threads_, logits)) {
    return {};
  }
  MatMul(normed, output, {}, logits, false, a);
  Softcap(backend_, logits, config.logit_softcap);
  return {};
}

}  // namespace lectern
