// Draws an answer's next token from the model's logits: greedy, or random by temperature, top-k,
// top-p, min-p, penalties and biases.
#ifndef LECTERN_ENGINE_FORWARD_SAMPLER_H_
#define LECTERN_ENGINE_FORWARD_SAMPLER_H_

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/forward/output_head.h"
#include "engine/requests/requests.h"

namespace lectern {

// The logits that a Sampler with these options looks at: it draws the same token whatever the
// others are, as long as they are -infinity or what the model gives.
WantedLogits WantedBy(const SamplingOptions& options);

// The random stream of one answer. The same seed and the same logits give the same tokens on every
// machine: the generator (xoshiro256**) and the draw are Lectern's own, not the standard library's.
// One thread at a time.
class Sampler {
 public:
  // Copies the options, which must be within their ranges.
  explicit Sampler(const SamplingOptions& options);
  // Draws a token. Greedy takes the lowest id among equal logits. NaN logits are never chosen; if
  // all are NaN, or there are none, the result is token 0. A likeliest logit that is infinite is
  // taken without a draw. Biases of ids that have no logit are ignored. Later penalties count the
  // token as part of the answer. Only a random draw advances the random stream.
  int32_t Sample(std::span<const float> logits);

 private:
  // Logits with biases and penalties applied; the given ones if there are none.
  std::span<const float> Adjust(std::span<const float> logits);
  // Sample without biases and penalties.
  int32_t Draw(std::span<const float> logits);
  // Top-k: cuts order_ to the likeliest; returns the sum of their probabilities, which are not
  // normalised.
  double KeepLikeliest();
  double NextUniform();  // [0, 1)
  // Top-p: cuts order_ to the likeliest that together first reach top_p of `total`, the sum over
  // order_; returns their sum.
  double KeepNucleus(double total);
  SamplingOptions options_;
  uint64_t state_[4];
  std::vector<std::pair<double, int32_t>> order_;  // probability, id; reused
  std::map<int32_t, uint32_t> counts_;             // tokens of the answer so far, for penalties
  std::vector<float> adjusted_;                    // reused
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_FORWARD_SAMPLER_H_
