#include "engine/document/equal_passages.h"

#include <string>
#include <unordered_map>

namespace lectern {

EqualPassages::EqualPassages(std::string_view text, std::span<const Passage> passages)
    : first_(passages.size()), is_repeated_(passages.size()) {
  std::unordered_map<std::string, size_t> seen;  // by PlainText: the first passage that has it
  seen.reserve(passages.size());
  for (size_t i = 0; i < passages.size(); ++i) {
    const auto [found, is_new] = seen.try_emplace(PlainText(text, passages[i]), i);
    first_[i] = found->second;
    if (!is_new) is_repeated_[i] = is_repeated_[first_[i]] = true;
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
