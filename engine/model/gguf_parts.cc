// The names of the files of a model that was split.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/gguf_model.h"

namespace lectern {
namespace {

// The ending of a part's name, "-00002-of-00003.gguf", as llama-gguf-split writes it.
constexpr std::string_view kEnding = ".gguf";
constexpr size_t kDigits = 5;
constexpr std::string_view kOf = "-of-";
constexpr size_t kSplitEnding = 1 + kDigits + kOf.size() + kDigits + kEnding.size();

// The number that the whole text is; nothing: it is none, or more than 32 bits.
std::optional<uint32_t> Digits(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The number with zeros in front: "00002".
std::string FiveDigits(uint32_t number) {
  const std::string digits = std::to_string(number);
  return std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
}

}  // namespace

std::vector<std::string> GgufParts(const std::string& path) {
  if (path.size() <= kSplitEnding || !path.ends_with(kEnding)) return {path};
  const std::string stem = path.substr(0, path.size() - kSplitEnding);
  const std::string_view ending = std::string_view(path).substr(stem.size());
  const auto number = Digits(ending.substr(1, kDigits));
  const auto count = Digits(ending.substr(1 + kDigits + kOf.size(), kDigits));
  // At most 1,000 parts: the name alone must not make us build a list of 99,999 paths.
  const bool is_part = ending[0] == '-' && ending.substr(1 + kDigits, kOf.size()) == kOf &&
                       number && count && *number >= 1 && *number <= *count && *count <= 1000;
  if (!is_part) return {path};
  std::vector<std::string> parts;
  for (uint32_t i = 1; i <= *count; ++i) {
    parts.push_back(stem + "-" + FiveDigits(i) + std::string(kOf) + FiveDigits(*count) +
                    std::string(kEnding));
  }
  return parts;
}

}  // namespace lectern
