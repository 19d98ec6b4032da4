// Finds the passages of a document that repeat an earlier one, such as running heads and
// boilerplate.
#ifndef LECTERN_ENGINE_DOCUMENT_EQUAL_PASSAGES_H_
#define LECTERN_ENGINE_DOCUMENT_EQUAL_PASSAGES_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "engine/document/passages.h"
#include "engine/requests/requests.h"

namespace lectern {

// Which passages are equal: those whose PlainText is the same. Immutable and thread-safe.
class EqualPassages {
 public:
  // `passages`: the text's. Linear time, about 3 ms for 400 KB; takes a copy of the text meanwhile.
  // May throw std::bad_alloc.
  EqualPassages(std::string_view text, std::span<const Passage> passages);

  // The first passage that is equal to passage `i`, perhaps itself.
  size_t first(size_t i) const { return first_[i]; }
  // Whether another passage is equal to it.
  bool is_repeated(size_t i) const { return is_repeated_[i]; }
  // The ranges of the passages that are equal to passage `i`, without its own, ascending, at most
  // `most`. O(passages) if there are any.
  std::vector<ByteRange> Others(std::span<const Passage> passages, size_t i, size_t most) const;

 private:
  std::vector<size_t> first_;
  std::vector<bool> is_repeated_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_EQUAL_PASSAGES_H_
