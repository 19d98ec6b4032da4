// Brings a text into one of Unicode's normalization forms (UAX #15) and remembers where its bytes
// come from. normalizer.cc and document names use it.
#ifndef LECTERN_ENGINE_MODEL_TOKENIZER_COMPOSE_H_
#define LECTERN_ENGINE_MODEL_TOKENIZER_COMPOSE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lectern {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// A text in a form, and the stretches that changed. Immutable; thread-safe.
class ComposedText {
 public:
  // A stretch that changed, and what it was.
  struct Stretch {
    uint64_t begin, end;                    // in text()
    uint64_t original_begin, original_end;  // in the original
  };

  // `text`: valid UTF-8; must outlive this, since text() is a view of it where nothing changed.
  explicit ComposedText(std::string_view text, UnicodeForm form = UnicodeForm::kNfc);

  const std::vector<Stretch>& changes() const { return changes_; }  // ascending

  std::string_view text() const { return changes_.empty() ? original_ : composed_; }
  // These return the place of the bytes in the original that the bytes [begin, end) of text() stand
  // for. Where nothing changed the bytes are the same; a part of a changed stretch stands for all
  // of it. begin < end.
  uint64_t OriginalBegin(uint64_t begin) const;
  uint64_t OriginalEnd(uint64_t end) const;

 private:
  // Called by the constructor: fills changes_, and composed_ if anything changes, from original_.
  void Compose(UnicodeForm form);
  // The last change that begins at byte `at` of text() or before it; nullptr: none does.
  const Stretch* LastFrom(uint64_t at) const;

  std::string_view original_;
  std::string composed_;  // empty when nothing changed
  std::vector<Stretch> changes_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TOKENIZER_COMPOSE_H_
