// Normalises text as a vocabulary wants it before pieces are looked for: Unicode forms,
// replacements, marks for spaces. Keeps, for every byte, its place in the original text.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_NORMALIZER_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_NORMALIZER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/tokenizer/aligned_text.h"
#include "engine/model/tokenizer/compose.h"
#include "engine/model/tokenizer/literals.h"
#include "engine/model/tokenizer/regex.h"
#include "store/status.h"

namespace lectern {

// One step, of a kind; the other fields belong to the kinds that their comments name.
struct NormalizerStep {
  enum class Kind {
    kForm,     // into `form`
    kReplace,  // every match of `pattern` by `content`; an empty text matches nowhere
    kPrepend,  // `content` before a text that is not empty
    kLowerCase,
    kStrip,          // white space off the left end, the right end
    kStripMarks,     // removes marks (category M), and no letter is taken apart before
    kCharsmap,       // `charsmap`, as tokenizers applies it
    kSentencePiece,  // `charsmap` and the rules for white space, as SentencePiece applies them
  };
  Kind kind = Kind::kForm;
  UnicodeForm form = UnicodeForm::kNfc;
  std::string pattern = {}, content = {};
  bool is_literal = true;          // kReplace: `pattern` is a text, not an expression
  bool left = true, right = true;  // kStrip
  std::string charsmap = {};       // checked (charsmap.h); may be empty
  // kSentencePiece; escapes: a space becomes U+2581.
  bool adds_prefix = true, removes_extra_spaces = true, escapes_spaces = true;
  bool prefix_is_suffix = false;
};

// The steps of a vocabulary, with their expressions compiled. Immutable; thread-safe.
class Normalizer {
 public:
  // `kept`: for kSentencePiece, texts that it leaves as they are; finished. kUnsupportedModel: an
  // expression that cannot be used; kMalformedModel: a charsmap that is not well-formed; other
  // codes of Regex::Make.
  static Result<Normalizer> Make(std::vector<NormalizerStep> steps, Literals kept = {});

  // Whether something may be put before a text.
  bool has_prefix() const;
  // Applies all steps to a text. `has_prefix` false: nothing is put before the text, which
  // continues another one (nor, with prefix_is_suffix, behind it). kLimitExceeded: the result has
  // more than 64 MiB (a replacement may be longer than its pattern). Codes of
  // RegexMatcher::FindAll.
  Result<AlignedText> Apply(AlignedText text, bool has_prefix) const;

 private:
  // Applies the step of this number; the size of its result is not checked. `has_prefix` as above.
  // Codes of RegexMatcher::FindAll.
  Result<AlignedText> Apply(size_t step, const AlignedText& text, bool has_prefix) const;
  // Does what Normalizer::Normalize of SentencePiece's normalizer.cc does, in the same order, on
  // which it depends what white space becomes: replaces by the charsmap (texts of kept_ stay),
  // drops extra spaces, adds a prefix (only with `has_prefix`), and escapes spaces.
  AlignedText ApplySentencePiece(const NormalizerStep& step, const AlignedText& text,
                                 bool has_prefix) const;

  std::vector<NormalizerStep> steps_;
  std::vector<std::unique_ptr<Regex>> regexes_;  // [step]; null where it needs none
  Literals kept_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_NORMALIZER_H_
