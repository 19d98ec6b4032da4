// Scores passages and groups of passages by the words that they share with a text: BM25 and its
// surroundings. The indexes of words use it (word_index.h, collection.h).
#ifndef LECTERN_ENGINE_DOCUMENT_WORD_SCORES_H_
#define LECTERN_ENGINE_DOCUMENT_WORD_SCORES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lectern {

// How the words of one text are spread over all passages. Every vector has an entry for each
// passage, as a share of the summed weights of the text's words.
struct WordScores {
  std::vector<float> bm25;     // at most 2.2 (k1 + 1), where a short passage has all words
  std::vector<float> covered;  // weight of the words that the passage itself has, 0..1
  // Weight of the words that it lacks and its surroundings have: its heading and the passages next
  // to it count 0.7, those beyond 0.4 and 0.2, and a related word in the passage itself 0.5.
  // 0..0.7.
  std::vector<float> around;
  // How much less that is where passages behind it count half: a sentence leaves its subject to one
  // before it more often than to one behind it. 0..0.35.
  std::vector<float> behind;
  // Weight of the words that it has itself or one of the six passages on either side of it, 0..1.
  std::vector<float> window;
  std::vector<float> heading;  // weight of the words that the headings above it have, 0..1
};

// How often passages have one word, and which headings do.
struct Postings {
  std::vector<std::pair<uint32_t, uint32_t>> passages;  // number and count, ascending
  std::vector<uint32_t> headings;  // passages below a heading that has it, ascending
  std::vector<uint32_t> related;   // passages that have a related word; may be none, in any order
};

// The weight of a word that `with_word` of `count` passages (or groups) have:
// ln(1 + (N - n + 1/2) / (n + 1/2)).
double InverseDocumentFrequency(size_t count, size_t with_word);

// The BM25 of one word in a group of passages, such as a part or a document. `count`: how often it
// has the word, above 0; `words`: of the group; `mean_words`: of all groups.
double GroupBm25(double idf, double count, double words, double mean_words);

// Adds up WordScores, one word at a time. May throw std::bad_alloc.
class ScoreSum {
 public:
  // `lengths`: words of each passage, borrowed; `mean_length`: over all passages of the index.
  ScoreSum(std::span<const uint16_t> lengths, double mean_length);

  // Adds the part of one word, whose weight is `idf`: BM25 to the passages that hold it, and a
  // share of its weight to those that do not, but have it in their heading or in a passage near
  // them.
  void Add(const Postings& postings, double idf);
  WordScores Take() &&;

 private:
  // Notes that the word is in `passage` or about it; `share_if_half` where passages behind count
  // half. A passage before the first is none.
  void Raise(int64_t passage, float share, float share_if_half);

  const std::span<const uint16_t> lengths_;
  const double mean_length_;
  double total_ = 0;  // weights of the words so far
  WordScores scores_;
  std::vector<float> near_;       // of the word that is added; 1: the passage has it
  std::vector<float> near_half_;  // the same if passages behind count half
  std::vector<size_t> touched_;   // where near_ is above 0
};

// English words that say nothing about a passage's subject, and those that make a question, with
// spaces between them.
extern const char kEnglishStopWords[];
// English words that tell little about where an answer stands, with spaces between them: questions
// use them freely ("happens", "many", "called"), and passages say the same otherwise.
extern const char kEnglishWeakWords[];

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_WORD_SCORES_H_
