// Finds the passages of a document that support a given text, such as an answer, by its words
// alone. No model is needed, so that answers of other programs can be cited as well.
#ifndef LECTERN_ENGINE_ASKING_CITE_H_
#define LECTERN_ENGINE_ASKING_CITE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/document/document.h"
#include "engine/document/passages.h"
#include "engine/document/word_index.h"
#include "engine/requests/requests.h"
#include "store/status.h"

namespace lectern {

// A passage that supports a text.
struct CitedPassage {
  uint32_t passage;     // its number, from 0
  uint64_t begin, end;  // its bytes in the document's text
  // Probability in (0, 1) that the passage states the claim, as far as words tell. Calibrated with
  // three claims of three on the document for one claim about another (cite.cc).
  double score;
};

// Inputs of the rule for one passage, each in a fixed range whatever the document's size.
struct SupportFeatures {
  double question = 0;         // BM25 of the question's words as a share of their weights, 0..2.2
  double question_around = 0;  // weight of the words of the question that its surroundings add
  double asks = 0;             // 1: the passage is itself a question
  // These four count less if the claim's words are few and common, as those of "no".
  double claim = 0;      // BM25 of the claim's words, as `question`
  double copied = 0;     // share of the claim in its heaviest run of words that is copied, 0..1
  double has_whole = 0;  // 1: the passage has the whole claim, word for word
  double together = 0;   // share of the question's words here and around, times the claim's here
};
// The rule: a weighted sum. Higher is better; sums of different questions can be compared.
double SupportOf(const SupportFeatures& features);

// The support for `claim`, an answer to `question`, by each passage. Either may be empty. The
// passages are those that the index was built from. kInvalidArgument if their number is another;
// kCorrupt, kLimitExceeded, kOutOfMemory. Thread-safe, as the index. 1 to 3 ms for 400 KB of text.
Result<std::vector<double>> WordSupport(const WordIndex& index, std::string_view text,
                                        std::span<const Passage> passages, std::string_view claim,
                                        std::string_view question);

// The probability that the passage of most support states the claim, an answer to a question or,
// with `has_question` false, a claim alone. Calibration: cite.cc.
double SupportProbability(double support, bool has_question);

// The passages with the most support, best first, at most `most`. Passages that share no word with
// claim or question are left out, and so are those that are equal to one with more support, up to
// white space. Errors as WordSupport. Accuracy: cite.cc, and for your own documents
// tests/evaluation/cite_accuracy.cc.
Result<std::vector<CitedPassage>> Cite(const WordIndex& index, std::string_view text,
                                       std::span<const Passage> passages, std::string_view claim,
                                       std::string_view question, size_t most);

// Cites each sentence of the request's text (Engine::Cite). kInvalidArgument, kLimitExceeded; codes
// of Document::words. Thread-safe.
Result<std::vector<Citation>> CiteFromDocument(const Document& document,
                                               const CiteRequest& request);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_CITE_H_
