// Finds which of many texts a text begins with, in a tree of their bytes. The Viterbi search and
// the search for literals ask at every place of a text, so a look-up allocates nothing.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_TRIE_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_TRIE_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lectern {

// A tree with a node for each common beginning of the texts. Immutable; thread-safe.
class Trie {
 public:
  Trie() = default;
  // Builds the tree. `texts`: sorted, without duplicates or empty ones; not kept. Their places in
  // the vector are the indices that ForEachPrefix gives.
  explicit Trie(const std::vector<std::string_view>& texts);

  bool empty() const { return nodes_.empty(); }
  // Calls visit(bytes, index) for every text that `text` begins with, the shortest first. Ends at
  // the first byte that no text has; costs a search by halves for each byte.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, Visit visit) const {
    if (nodes_.empty()) return;
    const Node* node = nodes_.data();
    for (size_t at = 0; at < text.size(); ++at) {
      const auto byte = static_cast<uint8_t>(text[at]);
      const uint8_t* begin = bytes_.data() + node->first_edge;
      const uint8_t* end = begin + node->num_edges;
      const uint8_t* edge = std::lower_bound(begin, end, byte);
      if (edge == end || *edge != byte) return;
      node = nodes_.data() + targets_[static_cast<size_t>(edge - bytes_.data())];
      if (node->text >= 0) visit(at + 1, static_cast<size_t>(node->text));
    }
  }

 private:
  struct Node {
    uint32_t first_edge = 0, num_edges = 0;
    int32_t text = -1;  // index of the text that ends here
  };
  // Expand makes the children of one node and leaves theirs in `parts`.
  struct Part;
  void Expand(const std::vector<std::string_view>& texts, const Part& part,
              std::vector<Part>* parts);

  std::vector<Node> nodes_;        // 0 is the root
  std::vector<uint8_t> bytes_;     // of edges; those of a node ascend
  std::vector<uint32_t> targets_;  // nodes
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_TRIE_H_
