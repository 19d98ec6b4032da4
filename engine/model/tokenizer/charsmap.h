// Checks and searches the `precompiled_charsmap` of a SentencePiece vocabulary: its table of texts
// that a normaliser replaces, such as ligatures by letters. normalizer.cc uses it.
//
//   u32 little-endian t | t bytes: a Darts double array (u32 units) | NUL-terminated replacements
//
// The double array maps UTF-8 keys to offsets of replacements. Source: normalizer.cc and
// third_party/darts_clone/darts.h of SentencePiece.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_CHARSMAP_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_CHARSMAP_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lectern {

inline constexpr size_t kMaxReplacement = 100;  // bytes that one key may become

// Returns a description of the first fault of `charsmap`, or nothing; an empty one is a fault here,
// and so is an array of more than 2^20 units. Without a fault, on any valid UTF-8 text a search
// stays inside the array, finds at most 32 keys at a place (as many as SentencePiece has room for),
// every key ends between characters, and every replacement is valid UTF-8 of at most
// kMaxReplacement bytes. Charsmap relies on that and checks nothing.
std::optional<std::string> FindCharsmapFault(std::string_view charsmap);

// Searches a charsmap without a fault, which must outlive it; an empty one has no keys.
class Charsmap {
 public:
  // A text that takes the place of the first bytes of another.
  struct Replacement {
    size_t key_size;  // bytes of the text that it stands for
    std::string_view text;
  };
  explicit Charsmap(std::string_view charsmap);
  // Finds the replacement of the longest (or the shortest) key that `text`, valid UTF-8, begins
  // with; nothing: it begins with none. Keys have no NUL. The text is a view into the charsmap.
  std::optional<Replacement> Longest(std::string_view text) const;
  std::optional<Replacement> Shortest(std::string_view text) const;

 private:
  // The replacement of the longest key that `text` begins with, or of the shortest one; nothing:
  // it begins with no key, or there are none.
  std::optional<Replacement> Find(std::string_view text, bool longest) const;
  std::string_view units_, replacements_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_CHARSMAP_H_
