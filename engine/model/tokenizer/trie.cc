#include "engine/model/tokenizer/trie.h"

namespace lectern {

// A node that is still to be expanded: the texts [first, last), which share their first `depth`
// bytes, are those of `node`.
struct Trie::Part {
  uint32_t node;
  size_t first, last, depth;
};

Trie::Trie(const std::vector<std::string_view>& texts) {
  if (texts.empty()) return;
  nodes_.emplace_back();
  // A stack and not recursion: a text may have a thousand bytes, each of them a level.
  std::vector<Part> parts = {{0, 0, texts.size(), 0}};
  while (!parts.empty()) {
    const Part part = parts.back();
    parts.pop_back();
    Expand(texts, part, &parts);
  }
}

// The texts of a node are neighbours, because they are sorted; those of a child are a run of them
// with one next byte.
void Trie::Expand(const std::vector<std::string_view>& texts, const Part& part,
                  std::vector<Part>* parts) {
  size_t first = part.first;
  if (texts[first].size() == part.depth) {
    nodes_[part.node].text = static_cast<int32_t>(first++);
  }
  nodes_[part.node].first_edge = static_cast<uint32_t>(bytes_.size());
  while (first < part.last) {
    const char byte = texts[first][part.depth];
    size_t end = first;
    while (end < part.last && texts[end][part.depth] == byte) ++end;
    const auto child = static_cast<uint32_t>(nodes_.size());
    nodes_.emplace_back();
    bytes_.push_back(static_cast<uint8_t>(byte));
    targets_.push_back(child);
    ++nodes_[part.node].num_edges;
    parts->push_back({child, first, end, part.depth + 1});
    first = end;
  }
}

}  // namespace lectern
