// The tokens of a vocabulary as a tree of their bytes, for finding all tokens that may come next in
// one walk.
#ifndef LECTERN_ENGINE_CONSTRAINT_TOKEN_TRIE_H_
#define LECTERN_ENGINE_CONSTRAINT_TOKEN_TRIE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/tokenizer.h"

namespace lectern {

// Immutable; thread-safe. Takes about 20 bytes for each byte of the tokens, and for a vocabulary of
// 262,000 tokens a tenth of a second to make.
class TokenTrie {
 public:
  // Longer tokens are left out, and so are control tokens, the unknown token, and those without
  // bytes: none of them is text.
  static constexpr size_t kMostBytes = 250;

  // Nodes are in the order of a walk from the left: the children of node i are i + 1, the end of
  // that one, and so on up to the end of i. Node 0 is the root.
  struct Node {
    uint32_t end;          // the node behind this one and all below it
    uint32_t first_token;  // in tokens(), of this node and those behind it
    uint8_t byte;
    uint8_t depth;
    // All tokens here and below are plain text: valid UTF-8, which may end inside a character, of
    // characters that a JSON string has as they are; U+2028 and U+2029 do not count as such.
    bool is_plain;
    // A plain text ends here with a whole character.
    bool is_between_chars;
    uint8_t most_below;  // bytes of the longest token below, from here
  };

  explicit TokenTrie(const Tokenizer& tokenizer);

  std::span<const Node> nodes() const { return nodes_; }
  // The tokens of node i are those from its first_token to that of node i + 1; node `end` of the
  // root stands behind the last.
  std::span<const int32_t> tokens() const { return tokens_; }
  std::span<const int32_t> TokensOf(size_t node) const {
    return tokens().subspan(nodes_[node].first_token,
                            nodes_[node + 1].first_token - nodes_[node].first_token);
  }
  std::span<const int32_t> TokensBelow(size_t node) const {  // and its own
    return tokens().subspan(nodes_[node].first_token,
                            nodes_[nodes_[node].end].first_token - nodes_[node].first_token);
  }
  size_t num_nodes() const { return nodes_.size() - 1; }
  size_t vocab_size() const { return vocab_size_; }
  // A bit for each token that is plain text.
  std::span<const uint64_t> plain() const { return plain_; }
  // Most bytes "[" and "{" in one token.
  size_t most_openings() const { return most_openings_; }
  // The child of a node; 0: none.
  uint32_t Child(uint32_t node, uint8_t byte) const;

 private:
  std::vector<Node> nodes_;  // and one behind the last
  std::vector<int32_t> tokens_;
  std::vector<uint64_t> plain_;
  size_t vocab_size_, most_openings_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_TOKEN_TRIE_H_
