// The next token from logits.
#ifndef LECTERN_ENGINE_SAMPLER_H_
#define LECTERN_ENGINE_SAMPLER_H_

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace lectern {

// How a token is drawn, in this order: the model's logits, plus bias, less penalties; the softmax
// of their quotient by the temperature; of that the tokens that min_p, then top_k, then top_p
// leave.
struct SamplingOptions {
  float temperature = 0.0f;  // [0, 10]; 0: greedy
  float top_p = 1.0f;        // (0, 1]; smallest set of tokens with at least this probability
  uint64_t seed = 0;
  uint32_t top_k = 0;  // this many of the likeliest tokens; 0: all
  float min_p = 0;     // [0, 1]; tokens at least this times as likely as the likeliest one
  // [-2, 2]: taken from the logit of a token that the answer has already, once for each time that
  // it has it, and once.
  float frequency_penalty = 0, presence_penalty = 0;
  std::vector<std::pair<int32_t, float>> logit_bias = {};  // id, what is added to its logit
};

// One answer's random stream. Same seed and same logits give the same tokens on every machine:
// the generator (xoshiro256**) and the draw are ours, not the standard library's.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);
  // Greedy takes the lowest id among equals. NaN logits are never chosen; all NaN gives token 0.
  // The token counts as one of the answer from here on.
  int32_t Sample(std::span<const float> logits);

 private:
  std::span<const float> Adjust(std::span<const float> logits);
  int32_t Draw(std::span<const float> logits);
  double KeepLikeliest();
  double NextUniform();  // [0, 1)
  double KeepNucleus(double total);
  SamplingOptions options_;
  uint64_t state_[4];
  std::vector<std::pair<double, int32_t>> order_;  // probability, id; reused
  std::map<int32_t, uint32_t> counts_;             // of the answer's tokens, for penalties
  std::vector<float> adjusted_;                    // reused
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_SAMPLER_H_
