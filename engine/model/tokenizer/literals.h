// Finds a vocabulary's literal pieces in raw text, before anything else is done to it: runs of
// spaces, tags of HTML, added words. vocabulary_tokenizer.cc uses it.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_LITERALS_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_LITERALS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/trie.h"

namespace lectern {

// A piece that is found in text as it stands.
struct Literal {
  std::string text;
  int32_t id;
  // lstrip, rstrip and single_word of tokenizer.json. The first two: the white space beside a
  // literal belongs to its token. is_whole_word: beside a word character it is passed over with all
  // of its bytes. LiteralOrder::kLongest ignores all three.
  bool takes_left_space = false, takes_right_space = false, is_whole_word = false;
};

// Decides which of several literals that overlap are taken.
enum class LiteralOrder {
  kFromLeft,  // the longest at the first place, then on behind it (SentencePiece, tokenizers)
  kLongest,   // the longest of the text, then the longest of the rest (llama.cpp)
};

// Immutable once filled; thread-safe.
class Literals {
 public:
  struct Match {
    size_t begin, end;  // bytes of the text
    int32_t id;
  };

  // Where two literals have one text, the one that was added first counts. An empty one is ignored.
  void Add(Literal literal);
  void Finish();  // once, after the last Add and before anything is found
  bool empty() const { return literals_.empty(); }

  // Returns the size in bytes of the longest literal that `text` has at `at`, inside a word or not;
  // 0: none.
  size_t LongestSize(std::string_view text, size_t at) const;
  // Returns the literals of a text, ascending and without overlaps.
  std::vector<Match> Find(std::string_view text, LiteralOrder order) const;

 private:
  // Returns the longest literal at `at` that ends at `limit` or before it; -1: none.
  int32_t LongestAt(std::string_view text, size_t at, size_t limit) const;
  // Each does Find in one order.
  std::vector<Match> FindFromLeft(std::string_view text) const;
  std::vector<Match> FindLongest(std::string_view text) const;
  // Decides among literals that overlap, directly or through others, and appends those that it
  // takes, ascending; of two with one length it takes the left one. A candidate is the longest
  // literal at its place, as size << 32 | (UINT32_MAX - begin). They come in any order.
  void TakeLongest(std::string_view text, std::vector<uint64_t> candidates,
                   std::vector<Match>* matches) const;

  std::vector<Literal> literals_;  // sorted by text
  Trie trie_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_LITERALS_H_
