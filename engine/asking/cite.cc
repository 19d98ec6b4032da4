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

namespace lectern {
namespace {

// Weights of SupportFeatures, fitted as a choice among the passages of a document (softmax) on
// 5,999 questions with answers about 215 texts from Debian packages (tools/reader/questions), which
// were joined to documents of 180 KB. Then every weight was rounded. In four-fold cross-validation
// over documents the first citation was right for 96.1 % of questions, and one of three for 99.1 %;
// with the rounded weights for 96.2 % and 99.1 %, for 84.9 % and 93.2 % by the answer alone, and
// for 58.6 % and 78.8 % by the question alone.
constexpr SupportFeatures kWeights = {.question = 10.5,
                                      .question_around = 7.5,
                                      .asks = -6,
                                      .claim = 4,
                                      .copied = 5,
                                      .has_whole = 5,
                                      .together = 12.5};

// The probability that the best passage states the claim, a logistic function of its support.
// Fitted on the same questions with their true answers, and on half as many claims that were cited
// from a document of other texts: by answer and question, tenths of the probability differ from the
// share that was right by 0.13 at most; by the answer alone they rank, but claims of one common
// word keep their middles uncertain.
struct Logistic {
  double slope, middle;  // middle: the support of probability 1/2
};
constexpr Logistic kWithQuestion = {.slope = 0.45, .middle = 11.7};
constexpr Logistic kClaimAlone = {.slope = 0.45, .middle = 7.4};
// It is this many times as high for a passage that shares no word with the claim, however well it
// fits the question. With the answers of four models to 840 facts and 992 other questions, 53 of
// such best passages were above kLeastScore without it, and two of them were right.
constexpr double kNotStated = 0.1;

// A claim tells little if its words are few and common, as in "no" or "6": then the question
// decides. The claim's features count T / (T + kCommonClaim), where T is the summed weight of its
// distinct words.
constexpr double kCommonClaim = 2;

// Copied runs are looked for in this many passages, by their words: others have few of them.
constexpr size_t kMaxCandidates = 64;

bool EndsAsQuestion(std::string_view passage) {
  const size_t last = passage.find_last_not_of(" \t\r\n\"')]*_");
  if (last == std::string_view::npos) return false;
  passage = passage.substr(0, last + 1);
  return passage.ends_with('?') || passage.ends_with("？") || passage.ends_with("؟");
}

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
struct Run {
  size_t words = 0;
  double weight = 0;
};
Run HeaviestRun(const ClaimWords& claim, const std::vector<std::string>& passage) {
  std::unordered_map<std::string_view, std::vector<size_t>> places;
  for (size_t i = 0; i < passage.size(); ++i) places[passage[i]].push_back(i);
  Run best;
  // Runs that end at the claim's word before, and at this one, by the place in the passage.
  std::unordered_map<size_t, Run> before, now;
  for (size_t i = 0; i < claim.words.size(); ++i) {
    now.clear();
    if (const auto found = places.find(claim.words[i]); found != places.end()) {
      for (const size_t place : found->second) {
        const auto previous = place == 0 ? before.end() : before.find(place - 1);
        Run run = previous == before.end() ? Run() : previous->second;
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

Status AddCopies(const WordIndex& index, std::string_view text, std::span<const Passage> passages,
                 const ClaimWords& claim, const std::vector<uint32_t>& candidates,
                 std::vector<SupportFeatures>& features) {
  for (const uint32_t p : candidates) {
    LECTERN_ASSIGN(const auto words, index.Split(TextOf(text, passages[p])));
    const Run run = HeaviestRun(claim, words);
    features[p].copied = claim.total > 0 ? run.weight / claim.total : 0;
    features[p].has_whole = run.words == claim.words.size();
  }
  return {};
}

}  // namespace

double SupportOf(const SupportFeatures& f) {
  return kWeights.question * f.question + kWeights.question_around * f.question_around +
         kWeights.claim * f.claim + kWeights.copied * f.copied + kWeights.has_whole * f.has_whole +
         kWeights.together * f.together + kWeights.asks * f.asks;
}

Result<WordSupport> WordSupport::Create(const WordIndex& index, std::string_view text,
                                        std::span<const Passage> passages,
                                        std::string_view question) try {
  if (passages.size() != index.num_passages()) {
    return Status(Code::kInvalidArgument, "the word index has other passages");
  }
  WordSupport words(index, text, passages);
  LECTERN_ASSIGN(words.of_question_, index.Score(question));
  const auto is_above = [](float score) { return score > 0; };
  words.has_question_ = std::ranges::any_of(words.of_question_.covered, is_above);
  return words;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "citing: out of memory");
}

double WordSupport::Probability(double support, bool shares_claim) const {
  const Logistic& of = has_question_ ? kWithQuestion : kClaimAlone;
  return (shares_claim ? 1 : kNotStated) / (1 + std::exp(-of.slope * (support - of.middle)));
}

Result<WordSupport::Supports> WordSupport::Of(std::string_view claim) const try {
  LECTERN_ASSIGN(const WordScores of_claim, index_->Score(claim));
  LECTERN_ASSIGN(const ClaimWords claim_words, WordsOf(*index_, claim));
  std::vector<SupportFeatures> features(passages_.size());
  LECTERN_RETURN_IF_ERROR(AddCopies(*index_, text_, passages_, claim_words,
                                    Candidates(of_claim, of_question_), features));
  const double telling = claim_words.distinct_total / (claim_words.distinct_total + kCommonClaim);
  // Words such as "no" are everywhere, and the index does not look for them.
  const bool is_common =
      !claim_words.words.empty() && claim_words.distinct_total < kCommonClaim / 2;
  Supports supports;
  for (size_t p = 0; p < passages_.size(); ++p) {
    SupportFeatures& f = features[p];
    f.question = of_question_.bm25[p];
    f.question_around = of_question_.around[p];
    f.claim = telling * of_claim.bm25[p];
    f.together = telling * (double{of_question_.covered[p]} + f.question_around) *
                 std::max(double{of_claim.covered[p]}, f.copied);
    f.copied *= telling;
    f.has_whole *= telling;
    f.asks = EndsAsQuestion(TextOf(text_, passages_[p]));
    supports.support.push_back(SupportOf(f));
    supports.probability.push_back(
        Probability(supports.support[p], is_common || of_claim.covered[p] > 0));
  }
  return supports;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "citing: out of memory");
}

Result<WordSupport::Supports> WordSupport::OfAnswer(std::string_view answer) const try {
  std::set<std::string> sentences;  // a model in a loop says one again and again
  for (const Passage& sentence : SplitPassages(answer, {})) {
    if (sentences.size() < kMostSentences) sentences.insert(PlainText(answer, sentence));
  }
  LECTERN_ASSIGN(Supports supports, Of(answer));
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
