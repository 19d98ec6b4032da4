// Greedy and random sampling with Lectern's own random stream, the same on every machine.
#include "engine/forward/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace lectern {
namespace {

// The generator of Steele, Lea and Flood 2014, which the authors of xoshiro recommend for seeding.
uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Lowest id of the largest logit; 0 if all are NaN. A vocabulary has 100,000 tokens and more, so
// the largest is found in lanes, which compilers turn into vectors, and then looked up.
size_t Greedy(std::span<const float> logits) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float logit = logits[i + lane];
      lanes[lane] = logit > lanes[lane] ? logit : lanes[lane];  // false for NaN
    }
  }
  for (; i < logits.size(); ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  const float largest = *std::max_element(lanes, lanes + kLanes);
  const auto at = std::find(logits.begin(), logits.end(), largest);
  return at == logits.end() ? 0 : static_cast<size_t>(at - logits.begin());
}

// Orders likelier tokens first; among equals the lower id.
bool IsLikelier(const std::pair<double, int32_t>& a, const std::pair<double, int32_t>& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

}  // namespace

// Greedy and random draws without a cut look at the largest and at all. Of top_k it takes one more,
// so that Draw sees that there are more, and sorts them as it would among all. Probabilities are
// equal, or even in the wrong order, only where their logits are closer than the rounding of exp, a
// few 2^-53 of the temperature, for which the slack stands, or where they are below the normal
// doubles, 708 temperatures down.
WantedLogits WantedBy(const SamplingOptions& options) {
  constexpr uint32_t kMostLikeliest = 1 << 16;
  if (!options.logit_bias.empty() || options.frequency_penalty != 0 ||
      options.presence_penalty != 0) {
    return {};
  }
  if (!(options.temperature > 0)) return {.count = 1};
  const auto temperature = static_cast<double>(options.temperature);
  const double rounding = temperature * 0x1p-48;
  if (options.top_k > 0 && options.top_k < kMostLikeliest) {
    return {.count = options.top_k + 1, .slack = rounding, .farthest = 700 * temperature};
  }
  if (options.min_p > 0) {
    const double distance = -std::log(static_cast<double>(options.min_p)) * temperature;
    return {.count = 1, .slack = distance * (1 + 0x1p-48) + rounding};
  }
  return {};
}

Sampler::Sampler(const SamplingOptions& options) : options_(options) {
  uint64_t seed = options.seed;
  for (uint64_t& word : state_) word = SplitMix64(seed);
}

// xoshiro256** 1.0 (Blackman, Vigna 2018). The upper 53 bits make the double.
double Sampler::NextUniform() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return static_cast<double>(result >> 11) * 0x1p-53;
}

int32_t Sampler::Sample(std::span<const float> logits) {
  const int32_t id = Draw(Adjust(logits));
  if (options_.frequency_penalty != 0 || options_.presence_penalty != 0) ++counts_[id];
  return id;
}

std::span<const float> Sampler::Adjust(std::span<const float> logits) {
  if (options_.logit_bias.empty() && counts_.empty()) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  const auto add = [&](int32_t id, float amount) {
    if (id >= 0 && static_cast<size_t>(id) < adjusted_.size()) {
      adjusted_[static_cast<size_t>(id)] += amount;
    }
  };
  for (const auto& [id, bias] : options_.logit_bias) add(id, bias);
  for (const auto& [id, count] : counts_) {
    add(id, -options_.frequency_penalty * static_cast<float>(count) - options_.presence_penalty);
  }
  return adjusted_;
}

int32_t Sampler::Draw(std::span<const float> logits) {
  const size_t best = Greedy(logits);
  if (!(options_.temperature > 0) || logits.empty() || !std::isfinite(logits[best])) {
    return static_cast<int32_t>(best);
  }
  // Unnormalised probabilities; the largest is exactly 1, so min_p compares with it directly.
  order_.clear();
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    // Both have no probability.
    if (std::isnan(logits[i]) || logits[i] == -std::numeric_limits<float>::infinity()) continue;
    const double distance = static_cast<double>(logits[i]) - static_cast<double>(logits[best]);
    const double p = std::exp(distance / static_cast<double>(options_.temperature));
    if (p == 0 || p < static_cast<double>(options_.min_p)) continue;
    order_.emplace_back(p, static_cast<int32_t>(i));
    total += p;
  }
  if (options_.top_k > 0 && options_.top_k < order_.size()) total = KeepLikeliest();
  if (options_.top_p < 1) total = KeepNucleus(total);

  double left = NextUniform() * total;
  for (const auto& [p, id] : order_) {
    if (left < p) return id;
    left -= p;
  }
  return order_.back().second;  // rounding carried the sum past the end
}

// Cuts order_ to the top_k most probable tokens; returns their sum.
double Sampler::KeepLikeliest() {
  const auto end = order_.begin() + options_.top_k;
  std::partial_sort(order_.begin(), end, order_.end(), IsLikelier);
  order_.erase(end, order_.end());
  double kept = 0;
  for (const auto& [p, id] : order_) kept += p;
  return kept;
}

// Cuts order_ to the most probable tokens whose sum first reaches top_p * total; returns that sum.
double Sampler::KeepNucleus(double total) {
  // All tokens below this floor together hold less than the share that is cut, so the nucleus lies
  // above it and only the few that remain need sorting.
  const double floor =
      (1.0 - static_cast<double>(options_.top_p)) * total / static_cast<double>(order_.size());
  std::erase_if(order_, [floor](const auto& entry) { return entry.first < floor; });
  std::sort(order_.begin(), order_.end(), IsLikelier);
  const double wanted = static_cast<double>(options_.top_p) * total;
  double kept = 0;
  size_t count = 0;
  while (count < order_.size() && (count == 0 || kept < wanted)) kept += order_[count++].first;
  order_.resize(count);
  return kept;
}

}  // namespace lectern
