#include "tools/doctor/kernel_test.h"

#include <algorithm>
#include <cmath>

#include "engine/forward/transformer.h"
#include "tools/quantities.h"

namespace lectern::doctor {
namespace {

constexpr size_t kNumTokens = 12;       // fewer than any window, so that masks do not matter
constexpr size_t kColumnsPerItem = 64;  // whole panels of packed weights
constexpr size_t kSampledRows = 48;     // of a matrix, whose products are also found exactly
// Largest error of an output, in root mean squares of its row. Sums of floats in another order are
// off by 1e-6 to 1e-5 of them on the models that we know, a wrong lane by about 1.
constexpr double kMaxError = 1e-3;
// The int8 rounding's effect over the expected one, both as root mean squares over some thousand
// products: 0.9 to 1.1 on the models that we know, whatever their types.
constexpr double kMaxRounding = 1.5;

using Floats = std::vector<float>;
using tools::Short;

// Views of values as so many rows of equal length.
Rows<float> AsRows(Floats& values, size_t num_rows) {
  return {values.data(), num_rows, values.size() / num_rows};
}
Rows<const float> AsRows(const Floats& values, size_t num_rows) {
  return {values.data(), num_rows, values.size() / num_rows};
}

// Runs one layer with two backends and keeps the largest difference. One use: Run, then the
// getters.
class LayerComparison {
 public:
  LayerComparison(const Model& model, const Backend& fast, ThreadPool& threads)
      : model_(model),
        config_(model.config()),
        weights_(model.weights().layer(0)),
        defined_(*FindBackend("scalar")),
        fast_(fast),
        threads_(threads) {}

  // Runs every kernel, but compares none after weights that give values that are not finite.
  void Run() {
    const size_t n = kNumTokens;
    const Transformer transformer(model_, defined_, threads_, n);
    Activations a(config_, n, threads_.num_threads());
    // Tokens from all over the vocabulary, by Knuth's multiplicative hash: the same in every run.
    std::vector<int32_t> ids;
    for (size_t i = 0; i < n; ++i) {
      ids.push_back(static_cast<int32_t>((i * 2654435761u + 17) % config_.vocab_size));
    }
    transformer.Embed(ids, 0, a);
    Floats residual(a.residual.begin(), a.residual.begin() + Count(n * config_.hidden_size));
    Read(model_.weights().embedding(), "embed_tokens");

    const Floats normed = Norm(residual, n, weights_.attention_norm, "input_layernorm");
    Floats q = Multiply(normed, weights_.q, "q_proj"), k = Multiply(normed, weights_.k, "k_proj");
    const Floats v = Multiply(normed, weights_.v, "v_proj");
    q = NormHeads(std::move(q), weights_.q_norm, "q_norm");
    k = NormHeads(std::move(k), weights_.k_norm, "k_norm");
    q = Turn(std::move(q), a, "q_proj");
    k = Turn(std::move(k), a, "k_proj");
    AddTo(residual, Multiply(Attend(q, k, v), weights_.o, "o_proj"), n,
          weights_.attention_post_norm, "the norm after attention");

    const Floats mlp_input = Norm(residual, n, weights_.mlp_norm, "the norm before the MLP");
    const Floats gate = Multiply(mlp_input, weights_.gate, "gate_proj");
    const Floats up = Multiply(mlp_input, weights_.up, "up_proj");
    AddTo(residual, Multiply(Activate(gate, up), weights_.down, "down_proj"), n,
          weights_.mlp_post_norm, "the norm after the MLP");
  }

  const std::string& damaged() const { return damaged_; }  // weights; empty: none
  const std::string& worst() const { return worst_; }      // kernel and what it worked on
  double error() const { return error_; }
  bool has_rounding() const { return expected_squares_ > 0; }
  // Root mean squares of what int8 rounding adds to products, in those of the products.
  double rounding() const { return std::sqrt(rounding_squares_ / product_squares_); }
  double expected_rounding() const { return std::sqrt(expected_squares_ / product_squares_); }

 private:
  static ptrdiff_t Count(size_t count) { return static_cast<ptrdiff_t>(count); }

  // Compares the definition's outputs with the fast kernel's, and keeps the worst. The unit of a
  // difference is the root mean square of its row: outputs of layers differ by orders of magnitude,
  // and floats that cancel have no relative error of their own. If the definition itself gives a
  // value that is not finite, the weights are at fault and nothing further is compared.
  void Compare(const Floats& defined, const Floats& fast, size_t num_rows, const char* kernel,
               const std::string& of) {
    if (!damaged_.empty()) return;
    const Rows<const float> expected = AsRows(defined, num_rows), found = AsRows(fast, num_rows);
    for (size_t r = 0; r < num_rows; ++r) {
      double squares = 0;
      for (size_t c = 0; c < expected.num_cols; ++c) {
        const double x = expected[r][c];
        if (!std::isfinite(x)) {
          damaged_ = "row " + std::to_string(c) + " of " + of + " of layer 0"
                     " gives values that are not finite";
          return;
        }
        squares += x * x;
      }
      const double unit = std::sqrt(squares / static_cast<double>(expected.num_cols));
      for (size_t c = 0; c < expected.num_cols; ++c) {
        const double difference = std::abs(double{found[r][c]} - expected[r][c]);
        const double error = difference == 0 ? 0 : difference / unit;
        // A kernel that reads what an earlier one gave as NaN is not the one at fault.
        if (std::isinf(error_) || error <= error_) continue;
        error_ = std::isfinite(error) ? error : INFINITY;
        worst_ = std::string(kernel) + " of " + of;
      }
    }
  }

  // Calls `run(backend, output)` for both backends, compares the outputs, and returns the
  // definition's for the next kernel. `of` names the weights or the input in messages.
  template <typename Run>
  Floats Both(size_t count, size_t num_rows, const char* kernel, const std::string& of,
              const Run& run) {
    Floats defined(count), fast(count);
    run(defined_, defined);
    run(fast_, fast);
    Compare(defined, fast, num_rows, kernel, of);
    return defined;
  }

  // Tests to_float_rows on the matrix's first rows.
  void Read(const WeightMatrix& matrix, const std::string& of) {
    if (matrix.is_packed()) return;  // no kernel turns packed rows into floats
    const size_t rows = std::min<size_t>(matrix.num_rows(), kSampledRows);
    Both(rows * matrix.num_cols(), rows, "to_float_rows", of,
         [&](const Backend& backend, Floats& out) {
           backend.to_float_rows(matrix.rows.Slice(0, rows), AsRows(out, rows));
         });
  }

  // RMS norm of each row; the rows as they are where a model has no such norm. What else a model
  // does with them (LayerNorm's mean, scales) needs no kernel.
  Floats Norm(const Floats& input, size_t num_rows, const Floats& weight, const std::string& of) {
    if (weight.empty()) return input;
    return Both(input.size(), num_rows, "rms_norm", of, [&](const Backend& backend, Floats& out) {
      backend.rms_norm({.input = AsRows(input, num_rows),
                        .weight = weight,
                        .epsilon = config_.rms_norm_epsilon,
                        .output = AsRows(out, num_rows)});
    });
  }
  // The norm of each head that some models have (Qwen 3, Gemma 3); others have no weight for it.
  Floats NormHeads(Floats heads, const Floats& weight, const std::string& of) {
    if (weight.empty()) return heads;
    return Norm(heads, heads.size() / weight.size(), weight, of);
  }

  // RoPE at positions 0 to 11.
  Floats Turn(Floats heads, const Activations& a, const std::string& of) {
    const Activations::Angles& angles = a.angles[0];
    const size_t half = config_.rope.dims / 2;
    return Both(heads.size(), kNumTokens, "rope", of, [&](const Backend& backend, Floats& out) {
      out = heads;
      backend.rope({.heads = AsRows(out, kNumTokens),
                    .head_dim = config_.head_dim,
                    .cosine = {angles.cosine.data(), kNumTokens, half},
                    .sine = {angles.sine.data(), kNumTokens, half}});
    });
  }

  // Causal attention -> [tokens, heads * head_dim]. Each query head is run on its own with its
  // group's keys, which tells in messages the head that is wrong.
  Floats Attend(const Floats& q, const Floats& k, const Floats& v) {
    const size_t n = kNumTokens, dim = config_.head_dim;
    std::vector<uint32_t> visible;
    for (uint32_t t = 0; t < n; ++t) visible.push_back(t + 1);
    Floats attended(q.size());
    for (size_t head = 0; head < config_.num_heads; ++head) {
      const size_t kv_head = head / config_.query_group();
      const Floats queries = OfHead(q, head), keys = OfHead(k, kv_head),
                   values = OfHead(v, kv_head);
      const auto rows = [&](const Floats& of) {
        return TypedRows{reinterpret_cast<const std::byte*>(of.data()), Dtype::kF32, n, dim};
      };
      const Floats out = Both(n * dim, n, "attend", "head " + std::to_string(head),
                              [&](const Backend& backend, Floats& output) {
                                Floats max(n), sum(n), scratch(AttendScratch(n, dim));
                                const AttentionState state = {AsRows(output, n), max, sum};
                                ResetState(state);
                                backend.attend({.queries = AsRows(queries, n),
                                                .keys = rows(keys),
                                                .values = rows(values),
                                                .scale = 1 / std::sqrt(static_cast<float>(dim)),
                                                .softcap = config_.attention_softcap,
                                                .visible = visible,
                                                .state = state,
                                                .logits = {},
                                                .scratch = scratch});
                                FinishState(state, state.out, {});
                              });
      for (size_t t = 0; t < n; ++t) {
        std::copy_n(out.data() + t * dim, dim,
                    attended.data() + (t * config_.num_heads + head) * dim);
      }
    }
    return attended;
  }
  // The rows of one head, [tokens, head_dim].
  Floats OfHead(const Floats& heads, size_t head) const {
    const size_t dim = config_.head_dim, row = heads.size() / kNumTokens;
    Floats own;
    for (size_t t = 0; t < kNumTokens; ++t) {
      const auto begin = heads.begin() + Count(t * row + head * dim);
      own.insert(own.end(), begin, begin + Count(dim));
    }
    return own;
  }

  // The MLP's gate: activation(gate) * up.
  Floats Activate(const Floats& gate, const Floats& up) {
    return Both(gate.size(), kNumTokens, "glu", "gate_proj",
                [&](const Backend& backend, Floats& out) {
                  backend.glu({.gate = AsRows(gate, kNumTokens),
                               .up = AsRows(up, kNumTokens),
                               .output = AsRows(out, kNumTokens),
                               .activation = config_.activation});
                });
  }

  // Adds a block's output to the residual, after the norm that some models have there.
  void AddTo(Floats& residual, Floats part, size_t num_rows, const Floats& post_norm,
             const std::string& of) {
    if (!post_norm.empty()) part = Norm(part, num_rows, post_norm, of);
    for (size_t i = 0; i < residual.size(); ++i) residual[i] += part[i];
  }

  // --- products ---

  // The input in int8, by the backend's kernel.
  Int8Buffer Quantise(const Backend& backend, const Floats& input) const {
    Int8Buffer rounded(input.size());
    backend.quantise_rows(rounded.Args(AsRows(input, kNumTokens)));
    return rounded;
  }

  // input * matrix^T by both backends -> [tokens, rows of the matrix].
  Floats Multiply(const Floats& input, const WeightMatrix& matrix, const std::string& of) {
    Int8Buffer quantised;
    if (matrix.is_packed()) {
      quantised = Quantise(defined_, input);
      const Int8Buffer fast = Quantise(fast_, input);
      const bool is_same = quantised.steps == fast.steps && quantised.scales == fast.scales &&
                           quantised.sums == fast.sums && quantised.half_sums == fast.half_sums;
      if (!is_same && damaged_.empty() && Finite(quantised.scales)) {
        error_ = INFINITY;  // they promise the same bits
        worst_ = "quantise_rows of " + of;
      }
    }
    Floats output =
        Both(kNumTokens * matrix.num_rows(), kNumTokens, "a product", of,
             [&](const Backend& backend, Floats& out) {
               Product(backend, input, quantised, matrix, AsRows(out, kNumTokens));
             });
    if (matrix.is_packed() && damaged_.empty()) MeasureRounding(input, matrix, output);
    return output;
  }
  static bool Finite(const Floats& values) {
    return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
  }

  // The product by one backend, in panels of columns that the threads share.
  void Product(const Backend& backend, const Floats& input, const Int8Buffer& quantised,
               const WeightMatrix& matrix, Rows<float> output) {
    const size_t columns = matrix.num_rows(), cols = matrix.num_cols();
    threads_.ParallelFor((columns + kColumnsPerItem - 1) / kColumnsPerItem, [&](size_t i, size_t) {
      const size_t begin = i * kColumnsPerItem, end = std::min(begin + kColumnsPerItem, columns);
      if (matrix.is_packed()) {
        return backend.packed_matmul({.input = quantised.rows(kNumTokens, cols),
                                      .weight = matrix.packed,
                                      .output = output,
                                      .column_begin = begin,
                                      .column_end = end});
      }
      Floats scratch(MatMulScratch(cols));
      backend.matmul({.input = AsRows(input, kNumTokens),
                      .weight = matrix.rows,
                      .output = output,
                      .column_begin = begin,
                      .column_end = end,
                      .scratch = scratch});
    });
  }

  // Adds up, over some of the matrix's rows, the squared error of the definition's products of
  // rounded inputs against exact products in double, and the error to expect. A value that is
  // rounded to steps of width w has an error of w / sqrt(12) in root mean square (uniform within
  // the step); errors of different values add as variances.
  void MeasureRounding(const Floats& input, const WeightMatrix& matrix, const Floats& output) {
    const size_t cols = matrix.num_cols(), rows = matrix.num_rows();
    const size_t stride = std::max<size_t>(1, rows / kSampledRows);
    const Rows<const float> inputs = AsRows(input, kNumTokens), found = AsRows(output, kNumTokens);
    std::vector<double> variances;  // [tokens][groups], of a rounded value
    for (size_t begin = 0; begin < input.size(); begin += kPackedGroup) {
      float most = 0;
      for (size_t i = begin; i < begin + kPackedGroup; ++i) {
        most = std::max(most, std::abs(input[i]));
      }
      const double width = most / 127.0;
      variances.push_back(width * width / 12);
    }
    Floats row(cols);
    for (size_t r = 0; r < rows; r += stride) {
      for (size_t c = 0; c < cols; ++c) row[c] = PackedElement(matrix.packed, r, c);
      for (size_t t = 0; t < kNumTokens; ++t) {
        double exact = 0, variance = 0;
        for (size_t c = 0; c < cols; ++c) {
          exact += double{row[c]} * inputs[t][c];
          variance += variances[(t * cols + c) / kPackedGroup] * row[c] * row[c];
        }
        const double error = found[t][r] - exact;
        rounding_squares_ += error * error;
        expected_squares_ += variance;
        product_squares_ += exact * exact;
      }
    }
  }

  // Sums of squares over all sampled products are kept apart, so that the ratio is of the whole.
  const Model& model_;
  const ModelConfig& config_;
  const LayerWeights& weights_;
  const Backend& defined_;
  const Backend& fast_;
  ThreadPool& threads_;
  std::string damaged_, worst_;
  double error_ = 0;
  double rounding_squares_ = 0, expected_squares_ = 0, product_squares_ = 0;
};

}  // namespace

Finding TestKernels(const Model& model, const Backend& fast, ThreadPool& threads) {
  LayerComparison layer(model, fast, threads);
  layer.Run();
  Finding finding{.name = "kernel test",
                  .text = "fast (" + std::string(fast.name) +
                          ") and reference kernels give the same on a layer of this model (largest "
                          "difference: " +
                          Short(layer.error()) + " of a result's size)"};
  finding.values = {{"kernels", fast.name}, {"error", layer.error()}, {"limit", kMaxError}};
  if (!layer.damaged().empty()) {
    finding.text = layer.damaged() + ": the model's file is damaged";
    finding.code = Code::kMalformedModel;
    return finding.Worsen(Verdict::kFail, "download the model again, or take another");
  }
  constexpr char kWayOut[] =
      "set LECTERN_BACKEND=scalar, and check the memory and the processor; if they are sound, "
      "please report this";
  if (layer.has_rounding()) {
    const double rounding = layer.rounding(), expected = layer.expected_rounding();
    finding.text += "; rounding to int8 moves products by " + Short(100 * rounding) + " % (" +
                    Short(100 * expected) + " % expected)";
    finding.values["rounding"] = rounding;
    finding.values["expected_rounding"] = expected;
    if (!(rounding <= kMaxRounding * expected)) finding.Worsen(Verdict::kFail, kWayOut);
  }
  if (layer.error() <= kMaxError) return finding;
  finding.text = layer.worst() + ": the " + std::string(fast.name) + " kernel is off by " +
                 Short(layer.error()) + " of its output's size";
  finding.values["worst"] = layer.worst();
  return finding.Worsen(Verdict::kFail, kWayOut);
}

}  // namespace lectern::doctor
