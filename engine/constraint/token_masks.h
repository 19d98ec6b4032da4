// Says which tokens of a vocabulary may come next in a text that has to follow a grammar.
#ifndef LECTERN_ENGINE_CONSTRAINT_TOKEN_MASKS_H_
#define LECTERN_ENGINE_CONSTRAINT_TOKEN_MASKS_H_

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/constraint/grammar_matcher.h"
#include "engine/constraint/token_trie.h"
#include "store/status.h"

namespace lectern {

// A token may come if the text with its bytes can be continued to one of the grammar; tokens may
// span any number of its parts, and characters may be cut between them.
//
// Most tokens are judged by the rule alone that is open on top, whatever lies below: such a
// judgement is made once, by a walk through the tree of tokens, and kept (as XGrammar does, Dong et
// al. 2024, arXiv:2411.15100). For tokens in which the rule ends the walk goes on below, each time.
// One thread.
class TokenMasks {
 public:
  // Both must outlive this.
  TokenMasks(const Grammar& grammar, const TokenTrie& trie) : matcher_(grammar), trie_(trie) {}

  GrammarMatcher& matcher() { return matcher_; }
  const GrammarMatcher& matcher() const { return matcher_; }
  // A bit for each token of the vocabulary, (vocabulary + 63) / 64 words: whether it may come at
  // the place. Valid until the next call. kLimitExceeded: finding it out takes too long.
  Result<std::span<const uint64_t>> Find(int32_t place);
  // Whether a token that begins with the bytes of the node, and goes on, may come: `place` is that
  // behind these bytes.
  bool HasLonger(uint32_t node, int32_t place);
  // Forgets what is known if it has become much; returns the new number of `place`.
  int32_t Forget(int32_t place);

 private:
  using Bits = std::vector<uint64_t>;
  // The judgement on tokens by some states of one stack.
  struct Own {
    Bits allowed;
    std::vector<uint32_t> ended;  // nodes with others below at which the rule has ended
  };
  // Work for one mask, in states of the grammar; some tenths of a second.
  static constexpr uint64_t kMostWork = 10'000'000;
  static constexpr size_t kMostBytes = size_t{64} << 20;  // of masks that are kept

  Result<const Own*> OwnOf(std::span<const GrammarMatcher::Item> items);
  // Adds the tokens below the node that are allowed from `place` on; to `ended`, if it is not
  // nullptr, the nodes at which the text ends. False: it takes too long.
  bool Walk(uint32_t node, int32_t place, Bits& allowed, std::vector<uint32_t>* ended);

  GrammarMatcher matcher_;
  const TokenTrie& trie_;
  std::map<std::vector<uint32_t>, Own> own_;  // by states
  std::unordered_map<int32_t, Bits> whole_;   // by place
  std::vector<int32_t> path_;                 // of Walk
  uint64_t work_limit_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_TOKEN_MASKS_H_
