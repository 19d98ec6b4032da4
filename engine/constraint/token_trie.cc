#include "engine/constraint/token_trie.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lectern {
namespace {

// Follows a text byte by byte: whether it is plain (TokenTrie::Node), and between characters.
struct PlainText {
  bool is_plain = true;
  uint8_t num_missing = 0;          // bytes of the character
  uint8_t low = 0x80, high = 0xBF;  // that the next of them may be
  bool is_e280 = false;             // U+2028 and U+2029 begin so

  bool is_between_chars() const { return is_plain && num_missing == 0; }
  void Push(uint8_t byte) {
    if (!is_plain) return;
    if (num_missing > 0) {
      is_plain = byte >= low && byte <= high && !(is_e280 && (byte == 0xA8 || byte == 0xA9));
      is_e280 = is_e280_lead_ && byte == 0x80;
      is_e280_lead_ = false;
      low = 0x80, high = 0xBF;
      --num_missing;
      return;
    }
    is_e280 = false;
    is_e280_lead_ = byte == 0xE2;
    if (byte < 0x80) {
      is_plain = byte >= 0x20 && byte != '"' && byte != '\\';
    } else if (byte >= 0xC2 && byte <= 0xF4) {
      num_missing = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
      if (byte == 0xE0) low = 0xA0;
      if (byte == 0xED) high = 0x9F;
      if (byte == 0xF0) low = 0x90;
      if (byte == 0xF4) high = 0x8F;
    } else {
      is_plain = false;
    }
  }

 private:
  bool is_e280_lead_ = false;
};

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : vocab_size_(tokenizer.vocab_size()) {
  std::vector<std::pair<std::string_view, int32_t>> texts;
  for (size_t i = 0; i < vocab_size_; ++i) {
    const auto id = static_cast<int32_t>(i);
    const std::string_view bytes = tokenizer.TokenBytes(id);
    if (bytes.empty() || bytes.size() > kMostBytes || id == tokenizer.unknown_id() ||
        !tokenizer.ControlText(id).empty()) {
      continue;
    }
    texts.emplace_back(bytes, id);
    const auto is_opening = [](char c) { return c == '[' || c == '{'; };
    most_openings_ =
        std::max(most_openings_, static_cast<size_t>(std::ranges::count_if(bytes, is_opening)));
  }
  std::ranges::sort(texts);
  plain_.assign((vocab_size_ + 63) / 64, 0);
  nodes_.push_back({0, 0, 0, 0, true, true, 0});
  // The nodes from the root to the last text, and the state of that text at each.
  std::vector<uint32_t> path = {0};
  std::vector<PlainText> states(1);
  std::string_view last;
  const auto close = [&](size_t depth) {
    while (path.size() > depth + 1) {
      const uint32_t closed = path.back();
      path.pop_back();
      states.pop_back();
      nodes_[closed].end = static_cast<uint32_t>(nodes_.size());
      Node& parent = nodes_[path.back()];
      parent.is_plain &= nodes_[closed].is_plain;
      parent.most_below =
          std::max<uint8_t>(parent.most_below, static_cast<uint8_t>(nodes_[closed].most_below + 1));
    }
  };
  for (const auto& [text, id] : texts) {
    const auto differ = std::ranges::mismatch(last, text);
    close(static_cast<size_t>(differ.in1 - last.begin()));
    for (size_t depth = path.size() - 1; depth < text.size(); ++depth) {
      PlainText state = states.back();
      const auto byte = static_cast<uint8_t>(text[depth]);
      state.Push(byte);
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      states.push_back(state);
      nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), byte,
                        static_cast<uint8_t>(depth + 1), state.is_plain, state.is_between_chars(),
                        0});
    }
    tokens_.push_back(id);
    if (states.back().is_plain) plain_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    last = text;
  }
  close(0);
  nodes_[0].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({static_cast<uint32_t>(nodes_.size()) + 1, static_cast<uint32_t>(tokens_.size()),
                    0, 0, false, false, 0});
}

uint32_t TokenTrie::Child(uint32_t node, uint8_t byte) const {
  for (uint32_t child = node + 1; child < nodes_[node].end; child = nodes_[child].end) {
    if (nodes_[child].byte == byte) return child;
  }
  return 0;
}

}  // namespace lectern
