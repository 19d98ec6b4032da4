// The reference that tests compare the engine's output to: a plain dense model of the Llama family.
// It runs the whole sequence at once, sums in float64, and rounds keys and values to the KV type.
// It shares no code with the engine: own file reader, own rounding, own everything.
#ifndef LECTERN_TESTS_ENGINE_DENSE_ORACLE_H_
#define LECTERN_TESTS_ENGINE_DENSE_ORACLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lectern::testing {

class DenseOracle {
 public:
  // `kv_type`: "f32", "f16" or "bf16". Single-file safetensors with f32 or bf16 tensors; llama,
  // mistral, qwen2, qwen3, gemma2, gemma3_text, phi3, granite, granitemoehybrid of attention alone,
  // olmo2, olmo3, smollm3, glm, glm4, exaone4, cohere, cohere2, mixtral,
  // qwen2_moe, qwen3_moe, olmoe, granitemoe and gpt_oss, with RoPE as it is or "linear".
  // Reads all weights now. Throws std::exception for files that it cannot read and for other types
  // of tensors or RoPE; other models are not noticed.
  DenseOracle(const std::string& folder, const std::string& kv_type);

  // Computes with these weights instead of those of the files. Before the first Append. Throws
  // std::out_of_range: there is no such tensor.
  void Replace(const std::string& tensor, std::vector<double> values) {
    weights_.at(tensor) = std::move(values);
  }
  // From now on rounds what it multiplies matrices by to 127 steps on both sides, 32 values each.
  void RoundInputs() { rounds_inputs_ = true; }
  // From now on the last layer attends from the last token only: faster, and cosines() and
  // squares() of that layer are of it alone.
  void OnlyLogits() { only_logits_ = true; }
  // Appends tokens, one at least; returns the logits of the last, [vocab].
  std::vector<double> Append(const std::vector<int32_t>& ids);
  // Forgets all tokens after the first `num_tokens`, at most size(); cosines and squares stay.
  void Truncate(size_t num_tokens);
  // Tokens appended from now on attend to token j in [layer][kv head] only where [j] says so; all
  // tokens that are not listed are attended to.
  using Kept = std::vector<std::vector<std::vector<bool>>>;
  void RestrictTo(Kept kept) { kept_ = std::move(kept); }  // empty: no restriction
  size_t size() const { return num_tokens_; }               // tokens that were appended
  // [layer][token]: cosine of the residual stream before and after attention, of the last Append.
  const std::vector<std::vector<double>>& cosines() const { return cosines_; }
  // [layer][kv head][token]: squared probabilities, of the last Append, from all query heads of the
  // group and all tokens 10 or more behind it.
  const std::vector<std::vector<std::vector<double>>>& squares() const { return squares_; }
  // [layer][query head][token]: probabilities of the last Append, summed over its tokens, and of
  // its last token alone.
  using ByHead = std::vector<std::vector<std::vector<double>>>;
  const ByHead& attention() const { return attention_; }
  const ByHead& last_attention() const { return last_attention_; }

 private:
  using Matrix = std::vector<double>;
  struct Rope {
    double theta = 10000, factor = 1;
    size_t dims = 0;          // of a head that are turned; 0: all
    bool neighbours = false;  // pairs are (2i, 2i + 1), not (i, i + dims / 2)
  };
  void ReadConfig(const std::string& folder);
  void ReadWeights(const std::string& folder);
  double Round(double value) const;  // to the KV type
  const Matrix& Weight(const std::string& name) const { return weights_.at(name); }
  // 0: the layer sees everything.
  size_t WindowOf(size_t layer) const;
  bool IsTurned(size_t layer) const;  // by RoPE
  // The names of a layer's norms: before and behind attention, before and behind the MLP. A norm
  // that the model lacks has the name of no tensor.
  struct NormNames {
    std::string attention, attention_post, mlp, mlp_post;
  };
  NormNames NormsOf(const std::string& layer) const;
  // For one token's vector: the norm by weight `name`, the vector itself where there is no such
  // tensor, and weight * input.
  Matrix Norm(const Matrix& x, const std::string& name) const;
  Matrix Apply(const Matrix& weight, const Matrix& input) const;
  // By matrix `name`, with its bias where it has one.
  Matrix Project(const std::string& name, const Matrix& input) const;
  void NormHeads(Matrix& heads, const std::string& name) const;  // where there is such a norm
  void Rotate(Matrix& heads, const Rope& rope, size_t position) const;  // RoPE, in place
  struct Heads {
    Matrix q, k, v;
  };
  // A token's queries, keys and values, turned and rounded; its attention over all before it, which
  // also adds to squares_; its MLP.
  Heads HeadsOf(size_t layer, const Matrix& x, size_t position) const;
  Matrix Attend(size_t layer, const Matrix& q, size_t position);
  Matrix Mlp(const std::string& prefix, const Matrix& x) const;
  // The MLP of these three matrices.
  Matrix Gated(const Matrix& gate, const Matrix& up, const Matrix& down, const Matrix& x) const;
  // The experts of a layer, "model.layers.0."; empty: the layer has none.
  Matrix Experts(const std::string& layer, const Matrix& x) const;
  // Expert `e` of `count` of gpt-oss.
  Matrix TurnedExpert(const std::string& layer, size_t e, size_t count, const Matrix& x) const;

  std::string kv_type_;
  size_t hidden_ = 0, layers_ = 0, heads_ = 0, kv_heads_ = 0, dim_ = 0;
  double epsilon_ = 0, scale_ = 1, softcap_ = 0, logit_softcap_ = 0;
  double embedding_scale_ = 1, residual_scale_ = 1, logit_scale_ = 1;
  Rope rope_, local_rope_;          // of layers with a window
  size_t used_experts_ = 0;
  double glu_limit_ = 0;  // gpt-oss's; 0: another model
  bool normalises_experts_ = false;
  size_t window_ = 0, period_ = 0;  // every layer that is no period-th one has it
  std::vector<bool> windowed_;      // by layer, in place of period_
  size_t unturned_period_ = 0;      // every so many-th layer is not turned; 1: none is
  bool only_windows_turn_ = false, is_centred_ = false, is_parallel_ = false;
  bool tied_ = false, is_gemma_ = false, rounds_inputs_ = false, only_logits_ = false;
  Kept kept_;                                                      // empty: all
  bool IsKept(size_t layer, size_t kv_head, size_t token) const {  // where there is kept_
    return token >= kept_[layer][kv_head].size() || kept_[layer][kv_head][token];
  }
  std::map<std::string, Matrix> weights_;
  size_t num_tokens_ = 0;
  std::vector<std::vector<double>> cosines_;
  std::vector<std::vector<std::vector<double>>> squares_;
  ByHead attention_, last_attention_;
  std::vector<Matrix> keys_, values_;  // [layer][token * kv heads * dim]
};

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_ENGINE_DENSE_ORACLE_H_
