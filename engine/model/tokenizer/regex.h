// Runs regular expressions as tokenizers write them: in Oniguruma's syntax, with its meaning of \s,
// \d, \w and \p{…}. PCRE2 does the work, after a translation. pre_tokenizer.cc and normalizer.cc
// use it.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_REGEX_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_REGEX_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/status.h"

namespace lectern {

// A compiled expression. Immutable; thread-safe.
class Regex {
 public:
  // Where an expression is from. kOurs: a table of this program, which is known to end soon on
  // every text. kForeign: a model's file; the steps of a search are limited. Memory is for both.
  enum class Origin { kOurs, kForeign };

  // Translates and compiles `pattern`. kUnsupportedModel: the expression is not UTF-8, has more
  // than 64 KiB, does not compile, or uses something that PCRE2 lacks. kOutOfMemory.
  static Result<Regex> Make(std::string_view pattern, Origin origin);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

 private:
  friend class RegexMatcher;
  struct Compiled;
  explicit Regex(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

// Searches one text after another. One thread; the expression must outlive it.
class RegexMatcher {
 public:
  // May throw std::bad_alloc. Where PCRE2 finds no memory, FindAll says so.
  explicit RegexMatcher(const Regex& regex);
  ~RegexMatcher();

  struct Match {
    size_t begin, end;  // may be empty: then it cuts the text there
  };
  // Replaces `matches` by those of `text`, valid UTF-8, from the left and without overlaps. An
  // empty match where the one before ended is left out. kOutOfMemory; kLimitExceeded: a foreign
  // expression takes too many steps, or any too much memory; kUnsupportedModel: it matches text
  // before the place where it looks (\K); kInternal. After an error `matches` are of no use.
  Status FindAll(std::string_view text, std::vector<Match>* matches);

 private:
  struct State;
  // Finds the first match from byte `from` on, the begin of a character, and leaves its place in
  // state_. Below 0: PCRE2_ERROR_NOMATCH, or another error of PCRE2. `text` must be valid UTF-8.
  int Search(std::string_view text, size_t from);

  const Regex* regex_;
  std::unique_ptr<State> state_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_REGEX_H_
