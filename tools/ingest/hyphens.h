// Decides whether a hyphen at the end of a line divides a word ("exam-" "ple") or belongs to it
// ("well-" "known"), by the words that the document has elsewhere. document_text.h uses it.
#ifndef LECTERN_TOOLS_INGEST_HYPHENS_H_
#define LECTERN_TOOLS_INGEST_HYPHENS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace lectern::tools {

inline constexpr std::string_view kSoftHyphen = "\xC2\xAD";  // U+00AD

// The size in bytes of the hyphen that ends `line`: of -, of a soft hyphen or of U+2010; 0: it ends
// in none, or has nothing before it.
size_t EndingHyphen(std::string_view line);

enum class HyphenEnd {
  kDrop,       // the word was divided: neither hyphen nor space
  kKeep,       // the hyphen belongs to the word: no space
  kKeepSpace,  // "pre- and post-war": the hyphen stands for a word's other part
};

// Counts the words of a document that tell about hyphens, then decides. First Want every line end,
// then Count every line, then Decide. Memory grows with the number of hyphens. One thread at a
// time.
class HyphenJudge {
 public:
  // Notes a line that ends in a hyphen (EndingHyphen) and the line behind it.
  void Want(std::string_view line, std::string_view next);
  // Counts the words of a line that Want asked for; a divided word at its end is none.
  void Count(std::string_view line);
  // Decides by the document: the form, joined or hyphenated, that it has more often elsewhere. If
  // it has neither, by its parts: digits, capitals and single letters keep the hyphen, and so do
  // two parts that are words of the document, and English compounds ("self-contained"); a soft
  // hyphen goes. All others are divided words.
  HyphenEnd Decide(std::string_view line, std::string_view next) const;

 private:
  uint32_t CountOf(const std::string& word) const;

  std::unordered_map<std::string, uint32_t> counts_;  // by word in small letters (ASCII)
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_HYPHENS_H_
