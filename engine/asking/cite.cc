#include "engine/asking/cite.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/asking/asked_value.h"
#include "engine/document/sentence_breaks.h"

namespace lectern {
namespace {

// Weights of SupportFeatures, fitted as a choice among the passages of a document (softmax) on
// questions with answers about texts from Debian packages (tools/reader/questions): each question
// with its answer, the answer alone and the question alone. Then every weight was rounded. First
// citation right / one of three, of 5,999 questions about 215 texts, in three-fold cross-validation
// over documents and with the rounded weights; before: without has_value, related words, words
// that tell little (WordIndex::ScoreQuestion) and question_behind.
//                       cross-validated  before     rounded    before
//   single texts, by both    96.9/99.5  96.8/99.5  96.8/99.6  96.8/99.5 %
//              by the answer 89.7/97.0  89.7/97.0  89.7/97.0  89.7/97.0 %
//            by the question 70.0/87.0  67.5/85.4  69.7/87.1  67.2/85.2 %
//   joined to 20 KB, by both 96.5/99.4  96.6/99.4  96.6/99.5  96.6/99.4 %
//              by the answer 88.8/96.5  88.8/96.5  88.7/96.4  88.7/96.4 %
//            by the question 68.7/86.1  66.4/83.9  68.7/86.1  66.2/83.8 %
// The older weights are of a fit to documents of 180 KB and were kept: those of a new fit are as
// good. What was tried beside these: tools/evaluate/RESULTS.md.
constexpr SupportFeatures kWeights = {.question = 4,
                                      .question_covered = 9.5,
                                      .question_around = 9,
                                      .question_window = 2.5,
                                      .question_heading = 2.5,
                                      .question_asked = 3,
                                      .has_value = 2.5,
                                      .asks = -2.5,
                                      .heads = -1.5,
                                      .question_behind = 9,
                                      .claim = 3,
                                      .copied = 10.5,
                                      .has_whole = 4};

// How much a model's own answer counts beside its question: small models are mostly wrong, and then
// their words mislead. Right passages, first / one of three, of facts about training texts, with
// the models' own answers and their retrieval heads; of rightly answered facts below:
//   kOwnAnswer        the rule before   0        0.2      0.4      0.6      1
//   Gemma 3 270M (119)    70/94      90/103   87/102   85/102   80/102   71/99
//                  (14)   12/14      14/14    14/14    14/14    14/14    12/14
//   SmolLM2-135M (119)    83/98      85/97    84/99    85/98    85/98    85/100
//                  (13)   13/13      12/13    12/13    13/13    13/13    13/13
//   with an adapter (98)  80/86      81/87    81/87    82/87    80/87    80/87
//                  (74)   72/74      70/74    71/74    72/74    72/74    72/74
//   the same, asked without heads that retrieve
//                  (168) 131/150    114/139  137/151  136/150  132/150  131/148
//                  (118) 117/118     89/107  112/118  116/118  116/118  116/118
constexpr double kOwnAnswer = 0.4;

// The probability that the best passage states the claim, a logistic function of its support.
// Fitted on the same questions with their true answers, and on half as many claims that were cited
// from a document of other texts (tests/evaluation/cite_accuracy.cc). The fitted middle grows with
// the number of passages, of which one is the best by chance: with the question it was 10.5 in
// single texts of 6 KB and 14.8 in documents of 180 KB, without it 7.5 and 10.5, and these lay
// between (14 and 9.6). has_value and others of the question's features came later; 14.4 keeps
// about as many citations as before. With the question, kLeastScore keeps 96.9 % of the right ones
// and 2.6 % of those from other texts in single texts (before: 96.4 and 2.2 %), 98.0 and 3.9 % in
// documents of 20 KB (97.8 and 3.8 %), 98.6 and 16.9 % in those of 180 KB (98.5 and 16.5 %). There
// tenths of the probability differ from the share that was right by 0.12 at most. By the answer
// alone they rank, but claims of one common word keep their middles uncertain (0.82 where 0.46 were
// right).
struct Logistic {
  double slope, middle;  // middle: the support of probability 1/2
};
constexpr Logistic kWithQuestion = {.slope = 0.42, .middle = 14.4};
constexpr Logistic kClaimAlone = {.slope = 0.42, .middle = 9.6};
// It is this many times as high for a passage that shares no word with the claim, however well it
// fits the question. With the answers of four models to 840 facts and 992 other questions, 53 of
// such best passages were above kLeastScore without it, and two of them were right.
constexpr double kNotStated = 0.1;

// A claim tells little if its words are few and common, as in "no" or "6": then the question
// decides. The claim's features count T / (T + kCommonClaim), where T is the summed weight of its
// distinct words.
constexpr double kCommonClaim = 2;

// SupportFeatures::question_asked: how much a question counts for the passages behind it. Answers
// of lists of questions rarely repeat the question's words. By hand.
constexpr double kBehindQuestion[] = {1, 0.7, 0.5, 0.5};

// Copied runs are looked for in this many passages, by their words: others have few of them.
constexpr size_t kMaxCandidates = 64;

// The claim's words, by which copies of it are found.
struct ClaimWords {
  std::vector<std::string> words;
  std::vector<double> weights;
  double total = 0;
  double distinct_total = 0;
};

Result<ClaimWords> WordsOf(const WordIndex& index, std::string_view claim) {
  ClaimWords words;
  LECTERN_ASSIGN(words.words, index.Split(claim));
  LECTERN_ASSIGN(words.weights, index.Weigh(words.words));
  words.total = std::accumulate(words.weights.begin(), words.weights.end(), 0.0);
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < words.words.size(); ++i) {
    if (seen.insert(words.words[i]).second) words.distinct_total += words.weights[i];
  }
  return words;
}

// The run of the claim's words that the passage has in the same order without a gap, and that
// weighs the most.
struct WordRun {
  size_t words = 0;
  double weight = 0;
};
WordRun HeaviestRun(const ClaimWords& claim, const std::vector<std::string>& passage) {
  std::unordered_map<std::string_view, std::vector<size_t>> places;
  for (size_t i = 0; i < passage.size(); ++i) places[passage[i]].push_back(i);
  WordRun best;
  // Runs that end at the claim's word before, and at this one, by the place in the passage.
  std::unordered_map<size_t, WordRun> before, now;
  for (size_t i = 0; i < claim.words.size(); ++i) {
    now.clear();
    if (const auto found = places.find(claim.words[i]); found != places.end()) {
      for (const size_t place : found->second) {
        const auto previous = place == 0 ? before.end() : before.find(place - 1);
        WordRun run = previous == before.end() ? WordRun() : previous->second;
        run = {run.words + 1, run.weight + claim.weights[i]};
        if (run.weight > best.weight) best = run;
        now.emplace(place, run);
      }
    }
    std::swap(before, now);
  }
  return best;
}

// Passages that have a word of the claim: those with the highest scores.
std::vector<uint32_t> Candidates(const WordScores& claim, const WordScores& question) {
  std::vector<uint32_t> candidates;
  for (uint32_t p = 0; p < claim.covered.size(); ++p) {
    if (claim.covered[p] > 0) candidates.push_back(p);
  }
  const auto score = [&](uint32_t p) {
    return claim.bm25[p] + claim.around[p] + 2 * (question.bm25[p] + question.around[p]);
  };
  const size_t kept = std::min(candidates.size(), kMaxCandidates);
  std::partial_sort(
      candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(kept), candidates.end(),
      [&](uint32_t a, uint32_t b) { return score(a) != score(b) ? score(a) > score(b) : a < b; });
  candidates.resize(kept);
  return candidates;
}

std::string_view TextOf(std::string_view text, const Passage& passage) {
  return text.substr(passage.begin, passage.end - passage.begin);
}

// Whether a passage is an entry of a table of contents or of an index: leader dots, four at least,
// with or without spaces between them, and behind them a page's number or label.
bool IsContentsEntry(std::string_view passage) {
  const size_t last = passage.rfind('.');
  if (last == std::string_view::npos) return false;
  std::string_view label = passage.substr(last + 1);
  label.remove_prefix(std::min(label.find_first_not_of(' '), label.size()));
  const bool is_label = !label.empty() && label.size() <= 8 &&
                        (label.find_first_of("0123456789") != std::string_view::npos ||
                         label.find_first_not_of("ivxlcdm") == std::string_view::npos);
  const std::string_view dots = passage.substr(0, last + 1);
  return is_label && (dots.ends_with("....") || dots.ends_with(". . . ."));
}

Status AddCopies(const WordIndex& index, std::string_view text, std::span<const Passage> passages,
                 const ClaimWords& claim, const std::vector<uint32_t>& candidates,
                 std::vector<SupportFeatures>& features) {
  for (const uint32_t p : candidates) {
    LECTERN_ASSIGN(const auto words, index.Split(TextOf(text, passages[p])));
    const WordRun run = HeaviestRun(claim, words);
    features[p].copied = claim.total > 0 ? run.weight / claim.total : 0;
    features[p].has_whole = run.words == claim.words.size();
  }
  return {};
}

}  // namespace

double SupportOf(const SupportFeatures& f, double claim_share) {
  const double by_question =
      kWeights.question * f.question + kWeights.question_covered * f.question_covered +
      kWeights.question_around * f.question_around + kWeights.question_window * f.question_window +
      kWeights.question_heading * f.question_heading + kWeights.question_asked * f.question_asked +
      kWeights.has_value * f.has_value + kWeights.asks * f.asks + kWeights.heads * f.heads;
  const double by_claim = kWeights.question_behind * f.question_behind + kWeights.claim * f.claim +
                          kWeights.copied * f.copied + kWeights.has_whole * f.has_whole;
  return by_question + claim_share * by_claim;
}

Result<WordSupport> WordSupport::Create(const WordIndex& index, std::string_view text,
                                        std::span<const Passage> passages,
                                        std::string_view question) try {
  if (passages.size() != index.num_passages()) {
    return Status(Code::kInvalidArgument, "the word index has other passages");
  }
  WordSupport words(index, text, passages);
  LECTERN_ASSIGN(words.of_question_, index.ScoreQuestion(question));
  const auto is_above = [](float score) { return score > 0; };
  words.has_question_ = std::ranges::any_of(words.of_question_.covered, is_above);
  words.FindAsked();
  const AskedValue number(question);
  for (size_t p = 0; p < passages.size(); ++p) {
    // Numbers alone make no passage fit a question.
    const bool fits = words.of_question_.window[p] > 0 || words.of_question_.around[p] > 0;
    words.has_value_.push_back(fits && number.IsIn(TextOf(text, passages[p])));
  }
  return words;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "citing: out of memory");
}

void WordSupport::FindAsked() {
  asked_.resize(passages_.size());
  for (size_t p = 0; p < passages_.size(); ++p) {
    asks_.push_back(EndsAsQuestion(TextOf(text_, passages_[p])));
    heads_.push_back(passages_[p].kind == PassageKind::kHeading ||
                     IsContentsEntry(TextOf(text_, passages_[p])));
    if (!asks_[p]) continue;
    const size_t behind = std::min(std::size(kBehindQuestion), passages_.size() - p - 1);
    for (size_t i = 0; i < behind; ++i) {
      double& asked = asked_[p + 1 + i];
      asked = std::max(asked, kBehindQuestion[i] * of_question_.covered[p]);
    }
  }
}

double WordSupport::Probability(double support, bool shares_claim) const {
  const Logistic& of = has_question_ ? kWithQuestion : kClaimAlone;
  return (shares_claim ? 1 : kNotStated) / (1 + std::exp(-of.slope * (support - of.middle)));
}

Result<WordSupport::ClaimFeatures> WordSupport::FeaturesOf(std::string_view claim) const {
  LECTERN_ASSIGN(const WordScores of_claim, index_->Score(claim));
  LECTERN_ASSIGN(const ClaimWords claim_words, WordsOf(*index_, claim));
  ClaimFeatures found;
  found.features.resize(passages_.size());
  LECTERN_RETURN_IF_ERROR(AddCopies(*index_, text_, passages_, claim_words,
                                    Candidates(of_claim, of_question_), found.features));
  const double telling = claim_words.distinct_total / (claim_words.distinct_total + kCommonClaim);
  // Words such as "no" are everywhere, and the index does not look for them.
  const bool is_common =
      !claim_words.words.empty() && claim_words.distinct_total < kCommonClaim / 2;
  for (size_t p = 0; p < passages_.size(); ++p) {
    SupportFeatures& f = found.features[p];
    f.question = of_question_.bm25[p];
    f.question_covered = of_question_.covered[p];
    f.question_around = of_question_.around[p] - of_question_.behind[p];
    f.question_behind = claim_words.words.empty() ? 0 : of_question_.behind[p];
    f.question_window = of_question_.window[p];
    f.question_heading = of_question_.heading[p];
    f.question_asked = asked_[p];
    f.has_value = has_value_[p];
    f.asks = asks_[p];
    f.heads = heads_[p];
    f.claim = telling * of_claim.bm25[p];
    f.copied *= telling;
    f.has_whole *= telling;
    found.is_stated.push_back(is_common || of_claim.covered[p] > 0);
  }
  return found;
}

Result<WordSupport::Supports> WordSupport::Support(std::string_view claim,
                                                   double claim_share) const {
  LECTERN_ASSIGN(const ClaimFeatures found, FeaturesOf(claim));
  Supports supports;
  for (size_t p = 0; p < passages_.size(); ++p) {
    supports.support.push_back(SupportOf(found.features[p], claim_share));
    supports.probability.push_back(Probability(SupportOf(found.features[p]), found.is_stated[p]));
  }
  return supports;
}

Result<WordSupport::Supports> WordSupport::Of(std::string_view claim) const try {
  return Support(claim, 1);
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "citing: out of memory");
}

Result<WordSupport::Supports> WordSupport::OfAnswer(std::string_view answer) const try {
  std::set<std::string> sentences;  // a model in a loop says one again and again
  for (const Passage& sentence : SplitPassages(answer, {})) {
    if (sentences.size() < kMostSentences) sentences.insert(PlainText(answer, sentence));
  }
  LECTERN_ASSIGN(Supports supports, Support(answer, kOwnAnswer));
  if (sentences.size() < 2) return supports;
  std::ranges::fill(supports.probability, 0.0);
  for (const std::string& sentence : sentences) {
    LECTERN_ASSIGN(const Supports of_sentence, Of(sentence));
    for (size_t p = 0; p < passages_.size(); ++p) {
      supports.probability[p] = std::max(supports.probability[p], of_sentence.probability[p]);
    }
  }
  return supports;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "citing: out of memory");
}

Result<std::vector<CitedPassage>> Cite(const WordSupport& words, const EqualPassages& equals,
                                       std::string_view claim, size_t most) try {
  LECTERN_ASSIGN(const WordSupport::Supports supports, words.Of(claim));
  const std::vector<double>& support = supports.support;
  std::vector<uint32_t> best;
  for (uint32_t p = 0; p < support.size(); ++p) {
    if (support[p] > 0) best.push_back(p);
  }
  const auto& likely = supports.probability;
  std::sort(best.begin(), best.end(), [&](uint32_t a, uint32_t b) {
    if (likely[a] != likely[b]) return likely[a] > likely[b];
    return support[a] != support[b] ? support[a] > support[b] : a < b;
  });
  std::vector<CitedPassage> citations;
  std::unordered_set<size_t> cited;
  for (const uint32_t p : best) {
    if (citations.size() == most) break;
    if (!cited.insert(equals.first(p)).second) continue;
    citations.push_back({p, supports.probability[p]});
  }
  return citations;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "citing: out of memory");
}

}  // namespace lectern
