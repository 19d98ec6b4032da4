// Text to words, the units inside which byte pairs are merged: published patterns, run by PCRE2.
#ifndef LECTERN_ENGINE_PRE_TOKENIZER_H_
#define LECTERN_ENGINE_PRE_TOKENIZER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "store/status.h"

namespace lectern {

// A family's way to cut text. Of the rows of one table; never copied.
struct WordPattern {
  std::string_view name;        // "llama3"
  std::string_view gguf_names;  // values of tokenizer.ggml.pre that mean it, each between spaces
  // As the family's tokenizer.json has it; one of these is enough. At every character of any text
  // it matches at least that one.
  std::string_view regex;
  // What the family's tokenizer.json says beside the pattern and a GGUF file does not.
  bool ignore_merges;  // a word that is a piece is that piece, whatever its merges say
  bool composes;       // text is brought into NFC first
  bool adds_bos;       // the beginning-of-text token comes before a text
};

// The row of a `tokenizer.ggml.pre` or of a regular expression; nullptr: not known.
const WordPattern* FindWordPatternByGgufName(std::string_view name);
const WordPattern* FindWordPatternByRegex(std::string_view regex);
// The row called `name`, which must exist: what tokenizer.json says without an expression.
const WordPattern& WordPatternNamed(std::string_view name);
// For messages: "gpt2, llama3, …".
std::string KnownWordPatterns();

// A compiled pattern. Immutable; thread-safe.
class PreTokenizer {
 public:
  static Result<PreTokenizer> Make(const WordPattern& pattern);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

 private:
  friend class WordReader;
  struct Compiled;
  explicit PreTokenizer(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

// Reads the words of one text one after another. One thread; both arguments must outlive it.
class WordReader {
 public:
  WordReader(const PreTokenizer& pre_tokenizer, std::string_view text);  // valid UTF-8
  ~WordReader();

  bool done() const { return at_ == text_.size(); }
  // The next word, never empty; words follow each other without gaps. kOutOfMemory; kInternal: the
  // library fails.
  Result<std::string_view> Next();

 private:
  struct State;
  const PreTokenizer& pre_tokenizer_;
  std::string_view text_;
  std::unique_ptr<State> state_;
  size_t at_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_PRE_TOKENIZER_H_
