// Cuts a text into words, the units inside which pieces are joined. It takes steps one after
// another, each of which cuts (or changes) the words of the one before. vocabulary_tokenizer.cc
// uses it.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_PRE_TOKENIZER_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_PRE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/aligned_text.h"
#include "engine/model/tokenizer/regex.h"
#include "store/status.h"

namespace lectern {

// How the matches of a split become words, by the names of tokenizer.json: each match is a word, is
// removed, joins the word before or behind it, or joins neighbouring matches.
enum class SplitBehavior {
  kIsolated,
  kRemoved,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};

// One step, of a kind; the other fields belong to the kinds that their comments name.
struct PreTokenizerStep {
  enum class Kind {
    kSplit,        // at the matches of `pattern`
    kDigitGroups,  // the matches of `pattern` are cut before every third character from their right
    kLines,        // runs of line feeds, and what is between them
    kPrefix,       // a word that does not begin with `pattern` gets it put before
    kReplace,      // in each word `pattern`, a text, becomes `content`
    kSpaceMarks,   // a word begins at every U+2581 that follows another character
  };
  Kind kind = Kind::kSplit;
  // kDigitGroups and kSplit: an expression; kSplit with is_literal, kPrefix and kReplace: a text.
  std::string pattern = {};
  std::string content = {};  // kReplace
  bool is_literal = false;   // kSplit: `pattern` is the text itself
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool inverts = false;     // what does not match is taken for the matches
  bool only_first = false;  // kPrefix: only the word that begins the text
  Regex::Origin origin = Regex::Origin::kForeign;
};

// The steps of a vocabulary, with their expressions compiled. Immutable; thread-safe.
class PreTokenizer {
 public:
  // Compiles the expressions of the steps. Codes of Regex::Make.
  static Result<PreTokenizer> Make(std::vector<PreTokenizerStep> steps);
  PreTokenizer(PreTokenizer&&) noexcept = default;
  PreTokenizer& operator=(PreTokenizer&&) noexcept = default;

  // Whether something may be put before a word.
  bool has_prefix() const;

 private:
  friend class WordCutter;
  PreTokenizer() = default;
  std::vector<PreTokenizerStep> steps_;
  std::vector<std::unique_ptr<Regex>> regexes_;  // [step]; null where it needs none
};

// Cuts one text after another. One thread; the pre-tokenizer must outlive it.
class WordCutter {
 public:
  struct Word {
    uint32_t begin, end;  // bytes of the text; never empty
  };

  explicit WordCutter(const PreTokenizer& pre_tokenizer);

  // Returns the words of `text`, which is valid UTF-8, ascending; bytes that are in none of them
  // were removed. Steps kPrefix and kReplace change `text`, and the words are ranges of the changed
  // one; after an error it is of no use. `is_beginning`: the text begins at byte 0 of the original
  // one. `has_prefix` false: that beginning continues another text, so a word that begins there
  // gets nothing put before; other words may. An empty text has no words. kLimitExceeded: the text
  // grows to more than 64 MiB. Codes of RegexMatcher::FindAll.
  Result<std::vector<Word>> Cut(AlignedText* text, bool is_beginning, bool has_prefix);

 private:
  // Applies a step of kind kPrefix or kReplace: replaces `text` by the changed words, without the
  // bytes between words, and returns where they are now. Words that become empty are left out.
  // `has_prefix` as in Cut. `*is_beginning`: whether a word at byte 0 begins the original text; set
  // to whether the first word that is returned does, since that one is now at byte 0 anyway.
  std::vector<Word> Rewrite(const PreTokenizerStep& step, const std::vector<Word>& words,
                            bool has_prefix, bool* is_beginning, AlignedText* text) const;
  // Cuts one word by a step of another kind, by its number, and appends the resulting words to
  // `words`. Overwrites matches_. Codes of RegexMatcher::FindAll.
  Status Split(size_t step, std::string_view text, Word word, std::vector<Word>* words);
  // Turns matches_, ranges within the word, into words as the step's behavior says, and appends
  // those that are not empty.
  void Take(const PreTokenizerStep& step, Word word, std::vector<Word>* words) const;

  const PreTokenizer& pre_tokenizer_;
  std::vector<std::unique_ptr<RegexMatcher>> matchers_;  // [step]
  std::vector<RegexMatcher::Match> matches_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_PRE_TOKENIZER_H_
