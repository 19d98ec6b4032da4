// Finds the passages of a document that share words with a question or an answer. The index is a
// small SQLite database with a full-text table (FTS5), made while a document is indexed and stored
// beside its text.
#ifndef LECTERN_ENGINE_DOCUMENT_WORD_INDEX_H_
#define LECTERN_ENGINE_DOCUMENT_WORD_INDEX_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/document/passages.h"
#include "engine/document/word_scores.h"
#include "engine/requests/requests.h"
#include "store/status.h"

namespace lectern {

// The weight of a stop word such as "the". Above 0, so that "out of the box" can be told from "out
// the box", and far below that of a rare word.
inline constexpr double kStopWordWeight = 0.2;

// Immutable and thread-safe: calls take turns. Score and Weigh cost about 1 µs for each place of
// their words, and Score 10 ns for each passage; the other calls only read their text.
class WordIndex {
 public:
  // Makes an index of all passages of `text` (ArePassagesOf). The words of the headings above a
  // passage are found as well, and count less than its own. Equal texts and passages give equal
  // bytes, with one release of SQLite. About 0.3 ms for 1 KB of text, and the index is about as
  // large as the text; needs about twice that as memory. kOutOfMemory, kLimitExceeded, kInternal.
  static Result<std::string> Build(std::string_view text, std::span<const Passage> passages);

  // Opens what Build made. `bytes` must stay valid and unchanged while the index lives; they may
  // lie in a mapped file. Damaged bytes are refused here or by a later call, never trusted.
  // kCorrupt, kUnsupportedVersion, kOutOfMemory.
  static Result<std::unique_ptr<WordIndex>> Open(std::string_view bytes);
  ~WordIndex();
  WordIndex(const WordIndex&) = delete;
  WordIndex& operator=(const WordIndex&) = delete;

  size_t num_passages() const;

  // How well each passage fits the words of `text`: how many of them it has, how rare they are
  // (BM25), and which of the others its heading and its neighbours have. Stop words count only if
  // the text has no others; without any word all scores are 0. Nothing in `text` is an operator:
  // quotes, *, AND and NEAR are characters and words. kCorrupt, kOutOfMemory, kLimitExceeded (2 GiB
  // of text). This and the calls below may also throw std::bad_alloc.
  Result<WordScores> Score(std::string_view text) const;
  // The same for the words of a question. Words that tell little (kEnglishWeakWords) count half,
  // and a passage that has a related word, but not the question's own, counts as if it stood in the
  // surroundings (WordScores::around). Related words begin with the same four characters at least,
  // which are three fifths of the longer one, so that inflected words of languages without stems
  // are found as well. About 1 µs more for each place of words with these four characters.
  Result<WordScores> ScoreQuestion(std::string_view question) const;
  // Scores runs of passages, such as the parts of a document, as if each were one: BM25 of the
  // words of `text`, as a share of the weights that Score gives to these words. [groups]. Groups
  // [first, last) of passages ascend in both numbers and may overlap; kInvalidArgument if they do
  // not, or lie outside. Cost and other errors as Score.
  struct Group {
    uint32_t first, last;
  };
  Result<std::vector<float>> ScoreGroups(std::string_view text,
                                         std::span<const Group> groups) const;
  // The words of `text` in their order, stop words included, in the form that the index has them
  // in, such as stems. kLimitExceeded (as in Score), kOutOfMemory.
  Result<std::vector<std::string>> Split(std::string_view text) const;
  // The distinct words of `text`, as Split has them, without stop words. Errors as Split.
  Result<std::unordered_set<std::string>> ContentWords(std::string_view text) const;
  // The bytes of those words of `text` whose form is one of `words` (ContentWords), ascending and
  // apart. Errors as Split.
  Result<std::vector<ByteRange>> FindWords(std::string_view text,
                                           const std::unordered_set<std::string>& words) const;
  // How much each word tells: ln(1 + (N - n + 1/2) / (n + 1/2)) if n of N passages have it, or
  // kStopWordWeight for a stop word; [words]. `words` come from Split. kCorrupt, kOutOfMemory.
  Result<std::vector<double>> Weigh(const std::vector<std::string>& words) const;

 private:
  class Database;
  Result<WordScores> ScoreWords(std::string_view text, bool is_question) const;
  explicit WordIndex(std::unique_ptr<Database> database);
  std::unique_ptr<Database> database_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_WORD_INDEX_H_
