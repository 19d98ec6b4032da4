// The next token from logits.
#ifndef LECTERN_ENGINE_FORWARD_SAMPLER_H_
#define LECTERN_ENGINE_FORWARD_SAMPLER_H_

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/requests/requests.h"

namespace lectern {

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

#endif  // LECTERN_ENGINE_FORWARD_SAMPLER_H_
