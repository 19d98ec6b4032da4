// Follows modeling_rope_utils.py of transformers, in float32 as torch does it: powers go through
// double, so that the float power is the nearest one on every machine.
#include "engine/model/weights/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lectern {
namespace {

// base ^ (2 pair / dims): the positions in which a pair turns by one radian.
float Power(double base, uint32_t pair, uint32_t dims) {
  const float exponent = static_cast<float>(2 * pair) / static_cast<float>(dims);
  return static_cast<float>(
      std::pow(static_cast<double>(static_cast<float>(base)), static_cast<double>(exponent)));
}

// As transformers' _compute_llama3_parameters. torch computes `scalar / tensor` as
// reciprocal(tensor) * scalar, and so do we.
float ScaleLlama3(const RopeRecipe& recipe, float frequency) {
  const float factor = static_cast<float>(recipe.factor);
  const float low_wavelen =
      static_cast<float>(recipe.original_max_positions / recipe.low_freq_factor);
  const float high_wavelen =
      static_cast<float>(recipe.original_max_positions / recipe.high_freq_factor);
  const float wavelen = (1.0f / frequency) * static_cast<float>(2 * std::numbers::pi);
  if (wavelen > low_wavelen) return frequency / factor;
  if (wavelen < high_wavelen) return frequency;
  const float turns = (1.0f / wavelen) * static_cast<float>(recipe.original_max_positions);
  const float smooth = (turns - static_cast<float>(recipe.low_freq_factor)) /
                       static_cast<float>(recipe.high_freq_factor - recipe.low_freq_factor);
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

// As transformers' _compute_dynamic_ntk_parameters: the base grows with the tokens past the
// original positions.
double DynamicBase(const RopeRecipe& recipe, uint64_t length) {
  const double original = recipe.original_max_positions, dims = recipe.dims;
  const double stretch = std::max(static_cast<double>(length), original) / original;
  return recipe.theta * std::pow(recipe.factor * stretch - (recipe.factor - 1), dims / (dims - 2));
}

// As transformers' _compute_yarn_parameters: finds the pair, as a fraction, that makes this number
// of turns within the original positions.
double PairOfTurns(const RopeRecipe& recipe, double turns) {
  return recipe.dims * std::log(recipe.original_max_positions / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(recipe.theta));
}

// YaRN's ramp from 0 to 1 over pairs: pairs below it turn often and keep their frequency, those
// above it are slowed by the factor, and those on it are blended.
struct Ramp {
  explicit Ramp(const RopeRecipe& recipe)
      : low(PairOfTurns(recipe, recipe.beta_fast)), high(PairOfTurns(recipe, recipe.beta_slow)) {
    if (recipe.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, recipe.dims - 1.0);
    if (low == high) high += 0.001;  // as transformers, which divides by the difference
  }
  float At(uint32_t pair) const {
    const float span = static_cast<float>(high - low);
    return std::clamp((static_cast<float>(pair) - static_cast<float>(low)) / span, 0.0f, 1.0f);
  }
  double low, high;
};

}  // namespace

// Computes the frequency of each pair i: 1 / base^(2i / dims), changed by the recipe. Everything is
// in float32 and in the order of transformers' operations, so that results agree.
RopeTable MakeRopeTable(const RopeRecipe& recipe, uint64_t length) {
  using Kind = RopeRecipe::Kind;
  const double base = recipe.kind == Kind::kDynamic ? DynamicBase(recipe, length) : recipe.theta;
  const bool is_long = static_cast<double>(length) > recipe.original_max_positions;
  const std::vector<double>& factors = is_long ? recipe.long_factors : recipe.short_factors;
  const auto factor = static_cast<float>(recipe.factor);
  RopeTable table{{}, static_cast<float>(recipe.attention_factor)};
  for (uint32_t pair = 0; pair < recipe.dims / 2; ++pair) {
    const float power = Power(base, pair, recipe.dims);
    float frequency = 1.0f / power;
    switch (recipe.kind) {
      case Kind::kDefault:
      case Kind::kDynamic:
        break;
      case Kind::kLlama3:
        frequency = ScaleLlama3(recipe, frequency);
        break;
      case Kind::kLinear:
        frequency /= factor;
        break;
      case Kind::kYarn: {
        const float kept = 1.0f - Ramp(recipe).At(pair);
        frequency = 1.0f / (factor * power) * (1.0f - kept) + frequency * kept;
        break;
      }
      case Kind::kLongRope:
        break;
    }
    if (!factors.empty()) frequency = 1.0f / (static_cast<float>(factors[pair]) * power);
    if (!recipe.divisors.empty()) frequency /= recipe.divisors[pair];
    table.frequencies.push_back(frequency);
  }
  return table;
}

}  // namespace lectern
