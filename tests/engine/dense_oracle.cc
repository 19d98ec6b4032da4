#include "tests/engine/dense_oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numbers>
#include <stdexcept>

namespace lectern::testing {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// To nearest, ties to even, by scaling: `bits` of mantissa, exponents from `min_exponent`.
double RoundTo(double value, int bits, int min_exponent) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const double quantum = std::ldexp(1.0, exponent - bits);
  return std::nearbyint(value / quantum) * quantum;
}

// The largest of 32 values becomes 127 steps, the others whole numbers of them.
std::vector<double> RoundedInGroups(std::vector<double> x) {
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    double largest = 0;
    for (size_t i = begin; i < begin + 32; ++i) largest = std::max(largest, std::abs(x[i]));
    if (largest == 0) continue;
    for (size_t i = begin; i < begin + 32; ++i) {
      x[i] = std::nearbyint(x[i] / largest * 127) / 127 * largest;
    }
  }
  return x;
}

// Four sums at a time: nearly all of the oracle's time goes here and in Add.
double Dot(const double* a, const double* b, size_t count) {
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return sums[0] + sums[1] + (sums[2] + sums[3]);
}
// sum += factor * x
void Add(double factor, const double* __restrict x, double* __restrict sum, size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] += factor * x[i];
}

// Llama's name of a tensor that a folder of EXAONE 3.5 has under its own.
std::string UsualName(std::string name) {
  if (!name.starts_with("transformer.")) return name;
  static constexpr const char* kNames[][2] = {{"transformer.wte", "model.embed_tokens"},
                                              {"transformer.ln_f", "model.norm"},
                                              {"transformer.h.", "model.layers."},
                                              {"attn.attention.out_proj", "self_attn.o_proj"},
                                              {"attn.attention", "self_attn"},
                                              {"ln_1", "input_layernorm"},
                                              {"ln_2", "post_attention_layernorm"},
                                              {"c_fc_0", "gate_proj"},
                                              {"c_fc_1", "up_proj"},
                                              {"mlp.c_proj", "mlp.down_proj"}};
  for (const auto& [theirs, ours] : kNames) {
    const size_t at = name.find(theirs);
    if (at != name.npos) name.replace(at, std::strlen(theirs), ours);
  }
  return name;
}

double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

}  // namespace

DenseOracle::DenseOracle(const std::string& folder, const std::string& kv_type)
    : kv_type_(kv_type) {
  ReadConfig(folder);
  ReadWeights(folder);
  keys_.resize(layers_);
  values_.resize(layers_);
}

void DenseOracle::ReadConfig(const std::string& folder) {
  const auto config = nlohmann::json::parse(ReadFile(folder + "/config.json"));
  const std::string type = config["model_type"];
  hidden_ = config["hidden_size"];
  layers_ = config["num_hidden_layers"];
  heads_ = config["num_attention_heads"];
  kv_heads_ = config["num_key_value_heads"];
  dim_ = config.value("head_dim", hidden_ / heads_);
  is_centred_ = is_parallel_ = type.starts_with("cohere");
  epsilon_ = config[is_centred_ ? "layer_norm_eps" : "rms_norm_eps"];
  tied_ = config["tie_word_embeddings"];
  rope_.theta = config.value("rope_theta", 10000.0);
  if (config.contains("rope_parameters")) {
    const auto& all = config["rope_parameters"];
    rope_.theta = (all.contains("full_attention") ? all["full_attention"] : all)["rope_theta"];
  }
  if (config.contains("rope_scaling") && !config["rope_scaling"].is_null()) {
    if (config["rope_scaling"]["rope_type"] != "linear") throw std::runtime_error("oracle: RoPE");
    rope_.factor = config["rope_scaling"]["factor"];
  }
  local_rope_ = rope_;
  if (config.contains("rope_local_base_freq")) local_rope_.theta = config["rope_local_base_freq"];
  if (config.contains("rope_local_base_freq") || type == "olmo3") local_rope_.factor = 1;
  rope_.dims = local_rope_.dims =
      static_cast<size_t>(static_cast<double>(dim_) *
                          config.value("partial_rotary_factor", type.starts_with("glm") ? 0.5 : 1));
  rope_.neighbours = local_rope_.neighbours = type.starts_with("glm") || type.starts_with("cohere");
  is_gemma_ = type.starts_with("gemma");
  scale_ = 1 / std::sqrt(config.value("query_pre_attn_scalar", static_cast<double>(dim_)));
  if (is_gemma_) embedding_scale_ = std::sqrt(static_cast<double>(hidden_));
  if (type.starts_with("granite")) {
    embedding_scale_ = config.value("embedding_multiplier", 1.0);
    residual_scale_ = config.value("residual_multiplier", 1.0);
    scale_ = config.value("attention_multiplier", 1.0);
    logit_scale_ = 1 / config.value("logits_scaling", 1.0);
  }
  if (type == "granitemoehybrid") {
    unturned_period_ = config.value("position_embedding_type", "") == "rope" ? 0 : 1;
  }
  if (is_parallel_) logit_scale_ = config.value("logit_scale", 0.0625);
  if (type == "smollm3") unturned_period_ = config.value("no_rope_layer_interval", 4);
  if (type == "gpt_oss") glu_limit_ = config.value("swiglu_limit", 7.0);
  used_experts_ = config.value("num_experts_per_tok", 0);
  normalises_experts_ = type == "mixtral" || type == "gpt_oss" || type == "granitemoe" ||
                        config.value("norm_topk_prob", false);
  softcap_ = config.value("attn_logit_softcapping", 0.0);
  logit_softcap_ = config.value("final_logit_softcapping", 0.0);
  for (const char* const plain : {"llama", "qwen", "granite", "olmo2", "olmoe", "smollm3", "glm"}) {
    if (type.starts_with(plain)) return;
  }
  if (type == "cohere") return;
  if (config.contains("sliding_window") && !config["sliding_window"].is_null()) {
    window_ = config["sliding_window"];
  }
  only_windows_turn_ = window_ > 0 && (type == "exaone4" || type == "cohere2");
  if (config.contains("layer_types")) {
    for (const std::string kind : config["layer_types"]) {
      windowed_.push_back(kind == "sliding_attention");
    }
  }
  if (type == "olmo3") period_ = 4;
  if (type == "exaone4" || type == "cohere2") period_ = config.value("sliding_window_pattern", 4);
  if (type == "gemma2") period_ = 2;
  if (type == "gemma3_text") period_ = config.value("sliding_window_pattern", 6);
}

void DenseOracle::ReadWeights(const std::string& folder) {
  const std::string bytes = ReadFile(folder + "/model.safetensors");
  uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), 8);
  const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    const char* data = bytes.data() + 8 + header_bytes;
    Matrix values;
    if (tensor["dtype"] == "F32") {
      for (size_t at = begin; at < end; at += 4) {
        float value;
        std::memcpy(&value, data + at, 4);
        values.push_back(value);
      }
    } else if (tensor["dtype"] == "BF16") {
      for (size_t at = begin; at < end; at += 2) {
        uint32_t half = 0;
        std::memcpy(reinterpret_cast<char*>(&half) + 2, data + at, 2);
        float value;
        std::memcpy(&value, &half, 4);
        values.push_back(value);
      }
    } else {
      throw std::runtime_error("the oracle reads F32 and BF16 only");
    }
    weights_[UsualName(name)] = std::move(values);
  }
}

double DenseOracle::Round(double value) const {
  if (kv_type_ == "f16") return RoundTo(value, 10, -14);
  if (kv_type_ == "bf16") return RoundTo(value, 7, -126);
  return static_cast<float>(value);
}

bool DenseOracle::IsTurned(size_t layer) const {
  if (only_windows_turn_) return WindowOf(layer) > 0;
  return unturned_period_ == 0 || (layer + 1) % unturned_period_ != 0;
}

DenseOracle::NormNames DenseOracle::NormsOf(const std::string& layer) const {
  const auto name = [&](const char* norm) { return layer + norm + ".weight"; };
  const std::string input = name("input_layernorm");
  if (weights_.contains(name("post_self_attn_layernorm"))) {
    return {input, name("post_self_attn_layernorm"), name("post_attention_layernorm"),
            name("post_mlp_layernorm")};
  }
  if (weights_.contains(name("post_feedforward_layernorm"))) {
    return {input, name("post_attention_layernorm"), name("pre_feedforward_layernorm"),
            name("post_feedforward_layernorm")};
  }
  return {input, "", name("post_attention_layernorm"), ""};
}

size_t DenseOracle::WindowOf(size_t layer) const {
  if (!windowed_.empty()) return windowed_[layer] ? window_ : 0;
  return period_ > 0 && (layer + 1) % period_ == 0 ? 0 : window_;
}

std::vector<double> DenseOracle::Norm(const Matrix& input, const std::string& name) const {
  if (!weights_.contains(name)) return input;
  const Matrix& weight = Weight(name);
  Matrix x = input;
  double mean = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  if (is_centred_) {
    for (double& v : x) v -= mean;
  }
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon_);
  Matrix y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * (weight[i] + (is_gemma_ ? 1 : 0));
  return y;
}

std::vector<double> DenseOracle::Apply(const Matrix& weight, const Matrix& input) const {
  const Matrix x = rounds_inputs_ ? RoundedInGroups(input) : input;
  Matrix y(weight.size() / x.size());
  for (size_t row = 0; row < y.size(); ++row) {
    y[row] = Dot(weight.data() + row * x.size(), x.data(), x.size());
  }
  return y;
}

std::vector<double> DenseOracle::Project(const std::string& name, const Matrix& input) const {
  Matrix y = Apply(Weight(name + ".weight"), input);
  const auto bias = weights_.find(name + ".bias");
  if (bias == weights_.end()) return y;
  for (size_t i = 0; i < y.size(); ++i) y[i] += bias->second[i];
  return y;
}

void DenseOracle::NormHeads(Matrix& heads, const std::string& name) const {
  if (!weights_.contains(name)) return;
  // OLMo 2 has one norm over all heads.
  const auto width = static_cast<ptrdiff_t>(Weight(name).size());
  for (auto head = heads.begin(); head != heads.end(); head += width) {
    const Matrix y = Norm({head, head + width}, name);
    std::copy(y.begin(), y.end(), head);
  }
}

void DenseOracle::Rotate(Matrix& heads, const Rope& rope, size_t position) const {
  const size_t half = rope.dims / 2;
  for (size_t h = 0; h < heads.size() / dim_; ++h) {
    double* x = heads.data() + h * dim_;
    for (size_t i = 0; i < half; ++i) {
      // The angle is float32 by definition (transformers); all else is float64.
      const float frequency =
          1.0f / std::pow(static_cast<float>(rope.theta),
                          static_cast<float>(2 * i) / static_cast<float>(rope.dims));
      const float angle =
          static_cast<float>(position) * (frequency / static_cast<float>(rope.factor));
      const double c = std::cos(double{angle}), s = std::sin(double{angle});
      const size_t first = rope.neighbours ? 2 * i : i;
      const size_t second = rope.neighbours ? first + 1 : i + half;
      const double a = x[first], b = x[second];
      x[first] = a * c - b * s;
      x[second] = b * c + a * s;
    }
  }
}

DenseOracle::Heads DenseOracle::HeadsOf(size_t layer, const Matrix& x, size_t position) const {
  const std::string p = "model.layers." + std::to_string(layer) + ".self_attn.";
  Heads heads;
  if (weights_.contains(p + "qkv_proj.weight")) {
    const Matrix all = Project(p + "qkv_proj", x);
    const auto k = all.begin() + static_cast<ptrdiff_t>(heads_ * dim_);
    const auto v = k + static_cast<ptrdiff_t>(kv_heads_ * dim_);
    heads = {{all.begin(), k}, {k, v}, {v, all.end()}};
  } else {
    heads = {Project(p + "q_proj", x), Project(p + "k_proj", x), Project(p + "v_proj", x)};
  }
  NormHeads(heads.q, p + "q_norm.weight");
  NormHeads(heads.k, p + "k_norm.weight");
  const Rope& rope = WindowOf(layer) > 0 ? local_rope_ : rope_;
  if (IsTurned(layer)) {
    Rotate(heads.q, rope, position);
    Rotate(heads.k, rope, position);
  }
  for (double& value : heads.k) value = Round(value);
  for (double& value : heads.v) value = Round(value);
  return heads;
}

// The attention output of all heads side by side, before the output projection.
std::vector<double> DenseOracle::Attend(size_t layer, const Matrix& q, size_t position) {
  const size_t width = kv_heads_ * dim_, window = WindowOf(layer);
  const size_t begin = window > 0 && position >= window ? position + 1 - window : 0;
  Matrix attention(heads_ * dim_), weight(position + 1 - begin);
  for (size_t h = 0; h < heads_; ++h) {
    const size_t kv = h / (heads_ / kv_heads_) * dim_;
    const double* const keys = keys_[layer].data() + begin * width + kv;
    const double* const values = values_[layer].data() + begin * width + kv;
    for (size_t j = 0; j < weight.size(); ++j) {
      weight[j] = Dot(&q[h * dim_], keys + j * width, dim_) * scale_;
      if (softcap_ > 0) weight[j] = softcap_ * std::tanh(weight[j] / softcap_);
    }
    if (!kept_.empty()) {
      for (size_t j = 0; j < weight.size(); ++j) {
        if (!IsKept(layer, kv / dim_, begin + j)) weight[j] = -INFINITY;
      }
    }
    const std::string sinks = "model.layers." + std::to_string(layer) + ".self_attn.sinks";
    const double sink = weights_.contains(sinks) ? Weight(sinks)[h] : -INFINITY;
    const double largest = std::max(sink, *std::max_element(weight.begin(), weight.end()));
    double sum = std::exp(sink - largest);
    for (double& w : weight) sum += w = std::exp(w - largest);
    for (double& w : weight) w /= sum;
    Matrix& last = last_attention_[layer][h];
    std::ranges::fill(last, 0.0);
    for (size_t j = 0; j < weight.size(); ++j) {
      attention_[layer][h][begin + j] += weight[j];
      last[begin + j] = weight[j];
    }
    double* const squares = squares_[layer][kv / dim_].data() + begin;
    for (size_t j = 0; begin + j + 10 <= position; ++j) squares[j] += weight[j] * weight[j];
    for (size_t j = 0; j < weight.size(); ++j) {
      Add(weight[j], values + j * width, &attention[h * dim_], dim_);
    }
  }
  return attention;
}

std::vector<double> DenseOracle::Gated(const Matrix& gate, const Matrix& up, const Matrix& down,
                                       const Matrix& x) const {
  Matrix inner = Apply(gate, x);
  const Matrix other = Apply(up, x);
  for (size_t i = 0; i < inner.size(); ++i) {
    inner[i] = inner[i] / (1 + std::exp(-inner[i])) * other[i];
  }
  return Apply(down, inner);
}

// Inputs come first in its matrices, and gate and up take turns among the outputs.
std::vector<double> DenseOracle::TurnedExpert(const std::string& layer, size_t e, size_t count,
                                              const Matrix& input) const {
  const std::string name = layer + "mlp.experts.";
  const auto apply = [&](const std::string& part, const Matrix& plain) {
    const Matrix x = rounds_inputs_ ? RoundedInGroups(plain) : plain;
    const Matrix& all = Weight(name + part);
    const Matrix& bias = Weight(name + part + "_bias");
    const size_t outputs = bias.size() / count;
    Matrix y(bias.begin() + static_cast<ptrdiff_t>(e * outputs),
             bias.begin() + static_cast<ptrdiff_t>((e + 1) * outputs));
    for (size_t i = 0; i < x.size(); ++i) {
      Add(x[i], all.data() + (e * x.size() + i) * outputs, y.data(), outputs);
    }
    return y;
  };
  const Matrix both = apply("gate_up_proj", input);
  Matrix inner(both.size() / 2);
  for (size_t i = 0; i < inner.size(); ++i) {
    const double gate = std::min(both[2 * i], glu_limit_);
    const double up = std::clamp(both[2 * i + 1], -glu_limit_, glu_limit_);
    inner[i] = (up + 1) * gate / (1 + std::exp(-1.702 * gate));
  }
  return apply("down_proj", inner);
}

// Every expert is asked, and those that do not count get a weight of 0.
std::vector<double> DenseOracle::Experts(const std::string& layer, const Matrix& x) const {
  struct Names {
    std::string router, expert, gate, up, down;
  };
  const Names all[] = {
      {"mlp.gate", "mlp.experts.", ".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"},
      {"block_sparse_moe.gate", "block_sparse_moe.experts.", ".w1.weight", ".w3.weight",
       ".w2.weight"},
      {"block_sparse_moe.router.layer", "", "", "", ""},
      {"mlp.router", "", "", "", ""}};
  const auto found = std::ranges::find_if(
      all, [&](const Names& names) { return weights_.contains(layer + names.router + ".weight"); });
  if (found == std::end(all)) return {};
  const Matrix& router = Weight(layer + found->router + ".weight");
  const size_t count = router.size() / x.size();
  std::vector<std::pair<double, size_t>> scores(count);  // negated, so that the best come first
  double sum = 0;
  for (size_t e = 0; e < count; ++e) {
    scores[e] = {-Dot(router.data() + e * x.size(), x.data(), x.size()), e};
    if (glu_limit_ > 0) scores[e].first -= Weight(layer + "mlp.router.bias")[e];
  }
  std::ranges::sort(scores);
  for (size_t i = 0; i < (normalises_experts_ ? used_experts_ : count); ++i) {
    sum += std::exp(-scores[i].first);
  }
  Matrix y(x.size());
  for (size_t i = 0; i < used_experts_; ++i) {
    const size_t e = scores[i].second;
    Matrix out;
    if (glu_limit_ > 0) {
      out = TurnedExpert(layer, e, count, x);
    } else if (found->expert.empty()) {
      const Matrix& both = Weight(layer + "block_sparse_moe.input_linear.weight");
      const Matrix& down = Weight(layer + "block_sparse_moe.output_linear.weight");
      const auto from = [&](const Matrix& of, size_t parts, size_t part) {
        const size_t size = of.size() / parts;
        const auto begin = of.begin() + static_cast<ptrdiff_t>(part * size);
        return Matrix(begin, begin + static_cast<ptrdiff_t>(size));
      };
      out = Gated(from(both, 2 * count, 2 * e), from(both, 2 * count, 2 * e + 1),
                  from(down, count, e), x);
    } else {
      const std::string own = layer + found->expert + std::to_string(e);
      out = Gated(Weight(own + found->gate), Weight(own + found->up), Weight(own + found->down), x);
    }
    Add(std::exp(-scores[i].first) / sum, out.data(), y.data(), y.size());
  }
  const std::string shared = layer + "mlp.shared_expert";
  if (!weights_.contains(shared + "_gate.weight")) return y;
  const double logit = Dot(Weight(shared + "_gate.weight").data(), x.data(), x.size());
  const Matrix out = Gated(Weight(shared + ".gate_proj.weight"), Weight(shared + ".up_proj.weight"),
                           Weight(shared + ".down_proj.weight"), x);
  Add(1 / (1 + std::exp(-logit)), out.data(), y.data(), y.size());
  return y;
}

std::vector<double> DenseOracle::Mlp(const std::string& prefix, const Matrix& x) const {
  const Matrix mixed = Experts(prefix.substr(0, prefix.size() - 4), x);
  if (!mixed.empty()) return mixed;
  Matrix gate, up;
  const std::string shared = prefix.substr(0, prefix.size() - 4) + "shared_mlp.";  // Granite 4
  const bool is_shared = weights_.contains(shared + "input_linear.weight");
  if (is_shared) {
    const Matrix both = Project(shared + "input_linear", x);
    const auto half = both.begin() + static_cast<ptrdiff_t>(both.size() / 2);
    gate = {both.begin(), half}, up = {half, both.end()};
  } else if (weights_.contains(prefix + "gate_up_proj.weight")) {
    const Matrix both = Project(prefix + "gate_up_proj", x);
    const auto half = both.begin() + static_cast<ptrdiff_t>(both.size() / 2);
    gate = {both.begin(), half}, up = {half, both.end()};
  } else {
    gate = Project(prefix + "gate_proj", x), up = Project(prefix + "up_proj", x);
  }
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = gate[i];
    gate[i] = up[i] * (is_gemma_ ? GeluTanh(g) : g / (1 + std::exp(-g)));
  }
  return Project(is_shared ? shared + "output_linear" : prefix + "down_proj", gate);
}

std::vector<double> DenseOracle::Append(const std::vector<int32_t>& ids) {
  const size_t first = num_tokens_;
  std::vector<Matrix> residual;
  const Matrix& embedding = Weight("model.embed_tokens.weight");
  for (const int32_t id : ids) {
    const auto* row = embedding.data() + static_cast<size_t>(id) * hidden_;
    residual.emplace_back(row, row + hidden_);
    for (double& x : residual.back()) x *= embedding_scale_;
  }
  cosines_.assign(layers_, {});
  squares_.assign(layers_, std::vector<Matrix>(kv_heads_, Matrix(first + ids.size())));
  attention_.assign(layers_, std::vector<Matrix>(heads_, Matrix(first + ids.size())));
  last_attention_ = attention_;
  for (size_t layer = 0; layer < layers_; ++layer) {
    const std::string p = "model.layers." + std::to_string(layer) + ".";
    const size_t from = only_logits_ && layer + 1 == layers_ ? ids.size() - 1 : 0;
    const NormNames norms = NormsOf(p);
    std::vector<Matrix> queries;
    for (size_t t = 0; t < ids.size(); ++t) {
      Heads heads = HeadsOf(layer, Norm(residual[t], norms.attention), first + t);
      queries.push_back(std::move(heads.q));
      keys_[layer].insert(keys_[layer].end(), heads.k.begin(), heads.k.end());
      values_[layer].insert(values_[layer].end(), heads.v.begin(), heads.v.end());
    }
    for (size_t t = from; t < ids.size(); ++t) {
      auto o = Project(p + "self_attn.o_proj", Attend(layer, queries[t], first + t));
      o = Norm(o, norms.attention_post);
      for (double& x : o) x *= residual_scale_;
      const Matrix before_attention = residual[t];
      double product = 0, before = 0, after = 0;
      for (size_t i = 0; i < hidden_; ++i) {
        before += residual[t][i] * residual[t][i];
        product += residual[t][i] * (residual[t][i] + o[i]);
        residual[t][i] += o[i];
        after += residual[t][i] * residual[t][i];
      }
      cosines_[layer].push_back(product / std::sqrt(before * after));
      auto down = Mlp(p + "mlp.", is_parallel_ ? Norm(before_attention, norms.attention)
                                               : Norm(residual[t], norms.mlp));
      down = Norm(down, norms.mlp_post);
      for (size_t i = 0; i < hidden_; ++i) residual[t][i] += residual_scale_ * down[i];
    }
  }
  num_tokens_ += ids.size();
  Matrix logits = Apply(tied_ ? embedding : Weight("lm_head.weight"),
                        Norm(residual.back(), "model.norm.weight"));
  for (double& x : logits) x *= logit_scale_;
  if (logit_softcap_ > 0) {
    for (double& x : logits) x = logit_softcap_ * std::tanh(x / logit_softcap_);
  }
  return logits;
}

void DenseOracle::Truncate(size_t num_tokens) {
  num_tokens_ = num_tokens;
  for (auto& layer : keys_) layer.resize(num_tokens * kv_heads_ * dim_);
  for (auto& layer : values_) layer.resize(num_tokens * kv_heads_ * dim_);
}

}  // namespace lectern::testing
