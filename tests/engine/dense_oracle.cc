#include "tests/engine/dense_oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
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

}  // namespace

DenseOracle::DenseOracle(const std::string& folder, const std::string& kv_type)
    : kv_type_(kv_type) {
  const auto config = nlohmann::json::parse(ReadFile(folder + "/config.json"));
  hidden_ = config["hidden_size"];
  layers_ = config["num_hidden_layers"];
  heads_ = config["num_attention_heads"];
  kv_heads_ = config["num_key_value_heads"];
  dim_ = config.value("head_dim", hidden_ / heads_);
  vocab_ = config["vocab_size"];
  epsilon_ = config["rms_norm_eps"];
  theta_ = config["rope_theta"];
  tied_ = config["tie_word_embeddings"];

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
    weights_[name] = std::move(values);
  }
  keys_.resize(layers_);
  values_.resize(layers_);
}

double DenseOracle::Round(double value) const {
  if (kv_type_ == "f16") return RoundTo(value, 10, -14);
  if (kv_type_ == "bf16") return RoundTo(value, 7, -126);
  return static_cast<float>(value);
}

std::vector<double> DenseOracle::Norm(const std::vector<double>& x, const Matrix& weight) const {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon_);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
  return y;
}

std::vector<double> DenseOracle::Apply(const Matrix& weight,
                                       const std::vector<double>& input) const {
  const std::vector<double> x = rounds_inputs_ ? RoundedInGroups(input) : input;
  std::vector<double> y(weight.size() / x.size());
  for (size_t row = 0; row < y.size(); ++row) {
    y[row] = Dot(weight.data() + row * x.size(), x.data(), x.size());
  }
  return y;
}

void DenseOracle::Rotate(std::vector<double>& heads, size_t num_heads, size_t position) const {
  const size_t half = dim_ / 2;
  for (size_t h = 0; h < num_heads; ++h) {
    double* x = heads.data() + h * dim_;
    for (size_t i = 0; i < half; ++i) {
      // The angle is float32 by definition (transformers); all else is float64.
      const float frequency = 1.0f / std::pow(static_cast<float>(theta_),
                                              static_cast<float>(2 * i) / static_cast<float>(dim_));
      const float angle = static_cast<float>(position) * frequency;
      const double c = std::cos(double{angle}), s = std::sin(double{angle});
      const double a = x[i], b = x[i + half];
      x[i] = a * c - b * s;
      x[i + half] = b * c + a * s;
    }
  }
}

std::vector<double> DenseOracle::Append(const std::vector<int32_t>& ids) {
  const size_t first = num_tokens_, width = kv_heads_ * dim_;
  const double scale = 1 / std::sqrt(static_cast<double>(dim_));
  std::vector<std::vector<double>> residual;
  const Matrix& embedding = Weight("model.embed_tokens.weight");
  for (const int32_t id : ids) {
    const auto* row = embedding.data() + static_cast<size_t>(id) * hidden_;
    residual.emplace_back(row, row + hidden_);
  }
  cosines_.assign(layers_, {});
  const std::vector<double> none(first + ids.size());
  squares_.assign(layers_, std::vector<std::vector<double>>(kv_heads_, none));
  for (size_t layer = 0; layer < layers_; ++layer) {
    const std::string p = "model.layers." + std::to_string(layer) + ".";
    std::vector<std::vector<double>> queries;
    for (size_t t = 0; t < ids.size(); ++t) {
      const auto x = Norm(residual[t], Weight(p + "input_layernorm.weight"));
      auto q = Apply(Weight(p + "self_attn.q_proj.weight"), x);
      auto k = Apply(Weight(p + "self_attn.k_proj.weight"), x);
      auto v = Apply(Weight(p + "self_attn.v_proj.weight"), x);
      Rotate(q, heads_, first + t);
      Rotate(k, kv_heads_, first + t);
      for (double& value : k) value = Round(value);
      for (double& value : v) value = Round(value);
      queries.push_back(std::move(q));
      keys_[layer].insert(keys_[layer].end(), k.begin(), k.end());
      values_[layer].insert(values_[layer].end(), v.begin(), v.end());
    }
    for (size_t t = 0; t < ids.size(); ++t) {
      std::vector<double> attention(heads_ * dim_);
      for (size_t h = 0; h < heads_; ++h) {
        const size_t kv = h / (heads_ / kv_heads_) * dim_;
        const double* const keys = keys_[layer].data() + kv;
        std::vector<double> weight(first + t + 1);
        for (size_t j = 0; j < weight.size(); ++j) {
          weight[j] = Dot(&queries[t][h * dim_], keys + j * width, dim_) * scale;
        }
        if (!kept_.empty()) {
          for (size_t j = 0; j < weight.size(); ++j) {
            if (!IsKept(layer, kv / dim_, j)) weight[j] = -INFINITY;
          }
        }
        const double largest = *std::max_element(weight.begin(), weight.end());
        double sum = 0;
        for (double& w : weight) sum += w = std::exp(w - largest);
        for (double& w : weight) w /= sum;
        double* const squares = squares_[layer][kv / dim_].data();
        for (size_t j = 0; j + 10 <= first + t; ++j) squares[j] += weight[j] * weight[j];
        for (size_t j = 0; j < weight.size(); ++j) {
          Add(weight[j], values_[layer].data() + j * width + kv, &attention[h * dim_], dim_);
        }
      }
      const auto o = Apply(Weight(p + "self_attn.o_proj.weight"), attention);
      double product = 0, before = 0, after = 0;
      for (size_t i = 0; i < hidden_; ++i) {
        before += residual[t][i] * residual[t][i];
        product += residual[t][i] * (residual[t][i] + o[i]);
        residual[t][i] += o[i];
        after += residual[t][i] * residual[t][i];
      }
      cosines_[layer].push_back(product / std::sqrt(before * after));
      const auto x = Norm(residual[t], Weight(p + "post_attention_layernorm.weight"));
      auto gate = Apply(Weight(p + "mlp.gate_proj.weight"), x);
      const auto up = Apply(Weight(p + "mlp.up_proj.weight"), x);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      const auto down = Apply(Weight(p + "mlp.down_proj.weight"), gate);
      for (size_t i = 0; i < hidden_; ++i) residual[t][i] += down[i];
    }
  }
  num_tokens_ += ids.size();
  return Apply(tied_ ? embedding : Weight("lm_head.weight"),
               Norm(residual.back(), Weight("model.norm.weight")));
}

void DenseOracle::Truncate(size_t num_tokens) {
  num_tokens_ = num_tokens;
  for (auto& layer : keys_) layer.resize(num_tokens * kv_heads_ * dim_);
  for (auto& layer : values_) layer.resize(num_tokens * kv_heads_ * dim_);
}

}  // namespace lectern::testing
