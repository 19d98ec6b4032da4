// Finds the passages of a document that support a given text, such as an answer, by its words
// alone. No model is needed, so that answers of other programs can be cited as well.
#ifndef LECTERN_ENGINE_ASKING_CITE_H_
#define LECTERN_ENGINE_ASKING_CITE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/document/document_text.h"
#include "engine/document/equal_passages.h"
#include "engine/document/passages.h"
#include "engine/document/word_index.h"
#include "engine/requests/requests.h"
#include "store/status.h"

namespace lectern {

// A passage that supports a text.
struct CitedPassage {
  uint32_t passage;  // its number, from 0
  double score;      // WordSupport::Supports::probability
};

// Inputs of the rule for one passage, each in a fixed range whatever the document's size. Shares
// are of the summed weights of the text's words (WordScores).
struct SupportFeatures {
  double question = 0;          // BM25 of the question's words as a share of their weights, 0..2.2
  double question_covered = 0;  // share of the question that the passage has
  // Share of it that the passage lacks and its surroundings have; passages behind it count half.
  double question_around = 0;
  double question_window = 0;   // share of it in the passage and six on either side
  double question_heading = 0;  // share of it in the headings above the passage
  // Share of it in a passage that asks and stands at most four before this one; the first one after
  // it counts whole, the second 0.7, the others 0.5.
  double question_asked = 0;
  // 1: the question asks for a number, a year or an address, and the passage has one (AskedValue).
  double has_value = 0;
  double asks = 0;   // 1: the passage is itself a question
  double heads = 0;  // 1: the passage is a heading, or an entry of a table of contents
  // The part that question_around lacks because passages behind count half (WordScores::behind). 0
  // without a claim: passages behind say less than those before, but the one that states the claim
  // may well stand before the question's words.
  double question_behind = 0;
  // These three count less if the claim's words are few and common, as those of "no".
  double claim = 0;      // BM25 of the claim's words, as `question`
  double copied = 0;     // share of the claim in its heaviest run of words that is copied, 0..1
  double has_whole = 0;  // 1: the passage has the whole claim, word for word
};
// The rule: a weighted sum. Higher is better; sums of different questions can be compared.
// `claim_share`: how much the claim's part counts, 0..1; 1 for a claim that is taken to be true.
double SupportOf(const SupportFeatures& features, double claim_share = 1);

// How much each passage of a document supports claims, which are answers to one question.
// Immutable and thread-safe. Index, text and passages must outlive it.
class WordSupport {
 public:
  // The question may be empty: it is not known, as if no passage shares a word with it. The
  // passages are those that the index was built from; kInvalidArgument if their number is another.
  // kCorrupt, kLimitExceeded, kOutOfMemory.
  static Result<WordSupport> Create(const WordIndex& index, std::string_view text,
                                    std::span<const Passage> passages, std::string_view question);
  // The vectors have an entry for each passage.
  struct Supports {
    std::vector<double> support;  // SupportOf: passages are ranked by it
    // The probability in (0, 1) that the passage states the claim. Calibration: cite.cc.
    std::vector<double> probability;
  };
  // The support for `claim`, which may be empty. 1 to 3 ms for 400 KB of text. Errors as Create.
  Result<Supports> Of(std::string_view claim) const;
  // The same for a model's own answer, of one or several sentences. Its words count less in the
  // supports (kOwnAnswer in cite.cc), because wrong answers mislead, but whole in the
  // probabilities. These are of the likeliest sentence among the first kMostSentences, because
  // models say more than what the document says.
  Result<Supports> OfAnswer(std::string_view answer) const;

 private:
  WordSupport(const WordIndex& index, std::string_view text, std::span<const Passage> passages)
      : index_(&index), text_(text), passages_(passages) {}
  void FindAsked();  // sets asks_ and asked_
  struct ClaimFeatures {
    std::vector<SupportFeatures> features;
    std::vector<bool> is_stated;  // the passage shares a word with the claim
  };
  Result<ClaimFeatures> FeaturesOf(std::string_view claim) const;
  Result<Supports> Support(std::string_view claim, double claim_share) const;
  double Probability(double support, bool shares_claim) const;
  const WordIndex* index_;
  std::string_view text_;
  std::span<const Passage> passages_;
  bool has_question_ = false;
  WordScores of_question_;
  std::vector<bool> asks_;     // [passages]: it is a question
  std::vector<bool> heads_;    // [passages]: it is a heading or an entry of contents
  std::vector<double> asked_;  // [passages]: SupportFeatures::question_asked
  std::vector<bool> has_value_;  // [passages]
};
// With four sentences, as many of 131 right answers of four models had evidence as with all.
inline constexpr size_t kMostSentences = 4;

// The likeliest passages for a claim, at most `most`, the likeliest first. Passages that share no
// word with claim or question are left out; of passages that are `equals`, the likeliest is taken.
// Errors as WordSupport. Accuracy: cite.cc, and for your own documents
// tests/evaluation/cite_accuracy.cc.
Result<std::vector<CitedPassage>> Cite(const WordSupport& words, const EqualPassages& equals,
                                       std::string_view claim, size_t most);

// Cites each sentence of the request's text (Engine::Cite). The result keeps `document`.
// kInvalidArgument, kLimitExceeded; codes of DocumentText::words. Thread-safe.
Result<CitedText> CiteFromDocument(std::shared_ptr<const DocumentText> document,
                                   const CiteRequest& request);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_CITE_H_
