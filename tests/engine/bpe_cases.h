// Reads the cases of tests/golden/make_bpe_golden.py: texts with the tokens of PyPI's tokenizers.
#ifndef LECTERN_TESTS_ENGINE_BPE_CASES_H_
#define LECTERN_TESTS_ENGINE_BPE_CASES_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/tokenizer.h"

namespace lectern {

struct BpeCase {
  std::string text;
  TokenizedText tokens;
};

// All cases of a file's bytes. A trusted file: it is cut short only by a mistake, which aborts.
inline std::vector<BpeCase> ReadBpeCases(std::string_view bytes) {
  const auto number = [&bytes] {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (bytes.empty()) std::abort();
      const uint8_t byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  std::vector<BpeCase> cases;
  while (!bytes.empty()) {
    BpeCase& item = cases.emplace_back();
    const size_t size = number();
    if (size > bytes.size()) std::abort();
    item.text = bytes.substr(0, size);
    bytes.remove_prefix(size);
    uint64_t begin = 0;
    for (uint64_t left = number(); left > 0; --left) {
      item.tokens.ids.push_back(static_cast<int32_t>(number()));
      begin += number();
      item.tokens.ranges.push_back({begin, begin + number()});
    }
  }
  return cases;
}

// Whether ids and ranges are the same.
inline bool SameTokens(const TokenizedText& a, const TokenizedText& b) {
  if (a.ids != b.ids || a.ranges.size() != b.ranges.size()) return false;
  for (size_t i = 0; i < a.ranges.size(); ++i) {
    if (a.ranges[i].begin != b.ranges[i].begin || a.ranges[i].end != b.ranges[i].end) return false;
  }
  return true;
}

// A case whose ranges are all empty says nothing of them (make_json_golden.py); then ours must
// ascend and leave no byte out.
inline bool AsTheCaseSays(const TokenizedText& ours, const BpeCase& item) {
  for (const TokenizedText::Range& range : item.tokens.ranges) {
    if (range.begin != range.end) return SameTokens(ours, item.tokens);
  }
  if (ours.ids != item.tokens.ids || ours.ranges.size() != ours.ids.size()) return false;
  uint64_t begin = 0, end = 0;
  for (const TokenizedText::Range& range : ours.ranges) {
    if (range.begin < begin || range.begin > end || range.end < end) return false;
    begin = range.begin, end = range.end;
  }
  return ours.ids.empty() || end == item.text.size();
}

// For messages: "12[0,3) 7[3,4) ".
inline std::string TokensText(const TokenizedText& tokens) {
  std::string text;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    text += std::to_string(tokens.ids[i]) + "[" + std::to_string(tokens.ranges[i].begin) + "," +
            std::to_string(tokens.ranges[i].end) + ") ";
  }
  return text;
}

}  // namespace lectern

#endif  // LECTERN_TESTS_ENGINE_BPE_CASES_H_
