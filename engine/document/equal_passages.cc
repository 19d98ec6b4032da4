#include "engine/document/equal_passages.h"

#include <unordered_map>

namespace lectern {
namespace {

// A number that is the same for equal passages.
uint64_t WordsHash(std::string_view text, const Passage& passage) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  bool is_margin = false;
  for (uint64_t at = passage.begin; at < passage.end; ++at) {
    const char c = text[at];
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      is_margin |= c != ' ' && c != '\t';
      continue;
    }
    if (is_margin && c == '>') continue;
    is_margin = false;
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return hash;
}

}  // namespace

EqualPassages::EqualPassages(std::string_view text, std::span<const Passage> passages)
    : first_(passages.size()), is_repeated_(passages.size()) {
  std::unordered_map<uint64_t, size_t> seen;
  seen.reserve(passages.size());
  for (size_t i = 0; i < passages.size(); ++i) {
    const auto [found, is_new] = seen.try_emplace(WordsHash(text, passages[i]), i);
    const bool is_equal =
        !is_new && PlainText(text, passages[i]) == PlainText(text, passages[found->second]);
    first_[i] = is_equal ? found->second : i;
    if (is_equal) is_repeated_[i] = is_repeated_[first_[i]] = true;
  }
}

std::vector<ByteRange> EqualPassages::Others(std::span<const Passage> passages, size_t i,
                                             size_t most) const {
  std::vector<ByteRange> others;
  if (!is_repeated_[i]) return others;
  for (size_t j = first_[i]; j < first_.size() && others.size() < most; ++j) {
    if (j != i && first_[j] == first_[i]) others.push_back({passages[j].begin, passages[j].end});
  }
  return others;
}

}  // namespace lectern
