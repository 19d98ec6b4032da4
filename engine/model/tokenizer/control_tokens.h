// Finds a vocabulary's control tokens by text and by id. Control tokens are written by a chat
// template alone; a document's text never becomes one. Tokenizers hold one; ChatTemplate looks
// tokens up in it.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_CONTROL_TOKENS_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_CONTROL_TOKENS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace lectern {

// A control token at the beginning of a text.
struct ControlToken {
  int32_t id;
  size_t length;  // bytes of the text that are its own
};

// Filled once, then thread-safe. Moved, never copied: one map views the other's keys.
class ControlTokens {
 public:
  ControlTokens() = default;
  ControlTokens(ControlTokens&&) noexcept = default;
  ControlTokens& operator=(ControlTokens&&) noexcept = default;

  // Where two tokens have one text, Find and FindPrefix return the one that was added first; an id
  // that is added twice keeps its first text. An empty text is ignored.
  void Add(int32_t id, std::string_view text);

  int32_t Find(std::string_view text) const;  // -1: none
  std::string_view Text(int32_t id) const;    // "": not a control token; valid as long as this
  // Finds the longest control token that `text` begins with; nothing: it begins with none.
  std::optional<ControlToken> FindPrefix(std::string_view text) const;

 private:
  std::map<std::string, int32_t, std::less<>> ids_;
  std::unordered_map<int32_t, std::string_view> texts_;  // of the keys of ids_
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_CONTROL_TOKENS_H_
