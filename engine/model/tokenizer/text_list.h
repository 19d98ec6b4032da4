// Keeps the texts of a vocabulary in one block of memory, because a string of its own for each of
// the 262,144 pieces of Gemma 3 takes more memory, and longer to make and to free.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_TEXT_LIST_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_TEXT_LIST_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lectern {

// Filled once, then thread-safe. Ids count from 0 in the order of Add.
class TextList {
 public:
  // Makes room for so many texts of so many bytes together.
  void Reserve(size_t num_texts, size_t num_bytes) {
    ends_.reserve(num_texts);
    bytes_.reserve(num_bytes);
  }
  // Appends a copy; all texts together have less than 4 GiB. Views of earlier texts become invalid.
  void Add(std::string_view text) {
    bytes_ += text;
    assert(bytes_.size() <= UINT32_MAX);
    ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  }

  size_t size() const { return ends_.size(); }
  // `id` is below size(), which is not checked.
  std::string_view operator[](size_t id) const {
    const size_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::string_view(bytes_).substr(begin, ends_[id] - begin);
  }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;  // [texts]: where each ends in bytes_
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_TEXT_LIST_H_
