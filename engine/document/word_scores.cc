#include "engine/document/word_scores.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

// Okapi BM25. b is below the usual 0.75 because passages are sentences: among these a long one says
// more than a short one. Measured together with the rule of engine/asking/cite.cc.
constexpr double kK1 = 1.2, kB = 0.4;
// The same for groups of passages, which have hundreds: the usual value, because the longer of two
// parts is the likelier to have a word by chance.
constexpr double kGroupB = 0.75;
// The weight of a word that a passage lacks and its surroundings have (WordScores::around).
// Measured as kB.
constexpr float kHeading = 0.7f, kRelated = 0.5f;
constexpr float kNear[] = {0.7f, 0.4f, 0.2f};  // in the passages next to it, and beyond
// Passages on either side that WordScores::window looks at. By hand: about a paragraph.
constexpr size_t kWindowPassages = 6;

}  // namespace

// Parts of contractions stand alone because "'" ends a word.
const char kEnglishStopWords[] =
    "a about above after again all also am an and any are as at be because been before being "
    "below between both but by can could did do does doing down during each either else ever few "
    "for from further had has have having he her here hers him his how i if in into is it its "
    "itself just let may me might more most must my neither no nor not of off on once one only or "
    "other our ours out over own per same shall she should since so some such than that the their "
    "theirs them then there these they this those through to too under until up upon us very was "
    "we were what when where whether which while who whom whose why will with within without "
    "would you your yours s t d ll re ve m don doesn didn isn aren wasn weren won";

// Those of the words of 5,999 questions (tools/reader/questions) that are in the passage of the
// answer at most 0.85 times as often as other words are, and that are no subject of a document.
const char kEnglishWeakWords[] =
    "allow another appear back become begin bring call change choose come contain different done "
    "end even every example exist expect find first follow full get give given go good hand happen "
    "hold keep kind know last like long look made make many mean much name need new next often old "
    "part people place problem put right second see send sent several short show shown small "
    "something stand start still take taken tell thing three try turn two want way work write "
    "written wrong wrote";

double InverseDocumentFrequency(size_t count, size_t with_word) {
  const double n = static_cast<double>(with_word);
  return std::log(1 + (static_cast<double>(count) - n + 0.5) / (n + 0.5));
}

double GroupBm25(double idf, double count, double words, double mean_words) {
  const double length = kK1 * (1 - kGroupB + kGroupB * words / mean_words);
  return idf * count * (kK1 + 1) / (count + length);
}

ScoreSum::ScoreSum(std::span<const uint16_t> lengths, double mean_length)
    : lengths_(lengths),
      mean_length_(mean_length),
      near_(lengths.size()),
      near_half_(lengths.size()) {
  scores_.bm25.resize(lengths.size());
  scores_.covered.resize(lengths.size());
  scores_.around.resize(lengths.size());
  scores_.behind.resize(lengths.size());
  scores_.window.resize(lengths.size());
  scores_.heading.resize(lengths.size());
}

void ScoreSum::Add(const Postings& postings, double idf) {
  total_ += idf;
  const auto weight = static_cast<float>(idf);
  for (const uint32_t p : postings.headings) {
    Raise(p, kHeading, kHeading);
    scores_.heading[p] += weight;
  }
  for (const uint32_t p : postings.related) Raise(p, kRelated, kRelated);
  size_t in_window = 0;  // passages before this one are done
  for (const auto& [p, count] : postings.passages) {
    const double length = kK1 * (1 - kB + kB * lengths_[p] / mean_length_);
    scores_.bm25[p] += static_cast<float>(idf * count * (kK1 + 1) / (count + length));
    scores_.covered[p] += weight;
    const size_t first = p > kWindowPassages ? p - kWindowPassages : 0;
    const size_t last = std::min<size_t>(lengths_.size(), size_t{p} + kWindowPassages + 1);
    for (size_t i = std::max(in_window, first); i < last; ++i) scores_.window[i] += weight;
    in_window = last;
    Raise(p, 1, 1);
    for (int64_t away = 1; away <= std::ssize(kNear); ++away) {
      const float share = kNear[away - 1];
      Raise(p + away, share, share);
      Raise(p - away, share, share / 2);
    }
  }
  for (const size_t p : touched_) {
    if (near_[p] < 1) {
      scores_.around[p] += weight * near_[p];
      scores_.behind[p] += weight * (near_[p] - near_half_[p]);
    }
    near_[p] = near_half_[p] = 0;
  }
  touched_.clear();
}

WordScores ScoreSum::Take() && {
  if (total_ > 0) {
    for (auto* values : {&scores_.bm25, &scores_.covered, &scores_.around, &scores_.behind,
                         &scores_.window, &scores_.heading}) {
      for (float& value : *values) value = static_cast<float>(value / total_);
    }
  }
  return std::move(scores_);
}

void ScoreSum::Raise(int64_t passage, float share, float share_if_half) {
  if (passage < 0 || passage >= static_cast<int64_t>(near_.size())) return;
  const auto p = static_cast<size_t>(passage);
  if (near_[p] == 0) touched_.push_back(p);
  near_[p] = std::max(near_[p], share);
  near_half_[p] = std::max(near_half_[p], share_if_half);
}

}  // namespace lectern
