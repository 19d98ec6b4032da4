// The next token from logits.
#ifndef LECTERN_ENGINE_SAMPLER_H_
#define LECTERN_ENGINE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lectern {

struct SamplingOptions {
  float temperature = 0.0f;  // [0, 10]; 0: greedy
  float top_p = 1.0f;        // (0, 1]; smallest set of tokens with at least this probability
  uint64_t seed = 0;
};

// One answer's random stream. Same seed and same logits give the same tokens on every machine:
// the generator (xoshiro256**) and the draw are ours, not the standard library's.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);
  // Greedy takes the lowest id among equals. NaN logits are never chosen; all NaN gives token 0.
  int32_t Sample(std::span<const float> logits);

 private:
  double NextUniform();  // [0, 1)
  double KeepNucleus(double total);
  SamplingOptions options_;
  uint64_t state_[4];
  std::vector<std::pair<double, int32_t>> order_;  // probability, id; reused
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_SAMPLER_H_
