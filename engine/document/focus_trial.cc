#include "engine/document/focus_trial.h"

#include <cassert>
#include <cmath>

namespace lectern {
namespace {

constexpr double kLeastErrors = 2;

}  // namespace

bool FocusTrial::Helps() const { return num_questions > 1 && gain > kLeastErrors * error; }

FocusTrial CompareFocus(std::span<const ForcedTokens> focused,
                        std::span<const ForcedTokens> whole) {
  assert(focused.size() == whole.size() && focused.size() > 1);
  FocusTrial trial = {.num_questions = static_cast<uint32_t>(focused.size())};
  const double count = trial.num_questions;
  double squares = 0;
  for (size_t i = 0; i < focused.size(); ++i) {
    const double gain = focused[i].logprob - whole[i].logprob;
    trial.gain += gain / count;
    squares += gain * gain;
    trial.num_right += focused[i].is_likeliest;
    trial.num_right_whole += whole[i].is_likeliest;
  }
  const double variance = std::fmax(0, squares - count * trial.gain * trial.gain) / (count - 1);
  trial.error = std::sqrt(variance / count);
  return trial;
}

Json FocusTrialJson(const FocusTrial& trial) {
  return Json::Object{{"questions", uint64_t{trial.num_questions}},
                      {"gain", trial.gain},
                      {"error", trial.error},
                      {"right", uint64_t{trial.num_right}},
                      {"right_whole", uint64_t{trial.num_right_whole}}};
}

std::optional<FocusTrial> ParseFocusTrial(const Json& json) {
  FocusTrial trial;
  for (const auto& [key, count] : {std::pair("questions", &trial.num_questions),
                                   std::pair("right", &trial.num_right),
                                   std::pair("right_whole", &trial.num_right_whole)}) {
    const Json* const found = json.Find(key);
    const auto number = found != nullptr ? found->unsigned_integer() : std::nullopt;
    if (!number || *number > UINT32_MAX) return std::nullopt;
    *count = static_cast<uint32_t>(*number);
  }
  for (const auto& [key, value] : {std::pair("gain", &trial.gain), {"error", &trial.error}}) {
    const Json* const found = json.Find(key);
    const auto number = found != nullptr ? found->number() : std::nullopt;
    if (!number || !std::isfinite(*number)) return std::nullopt;
    *value = *number;
  }
  const bool is_sound = trial.num_questions > 1 && trial.error >= 0 &&
                        trial.num_right <= trial.num_questions &&
                        trial.num_right_whole <= trial.num_questions;
  return is_sound ? std::optional(trial) : std::nullopt;
}

}  // namespace lectern
