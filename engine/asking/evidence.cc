#include "engine/asking/evidence.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "engine/asking/evidence_passages.h"

namespace lectern {
namespace {

// Neighbours among this many best sentences are one passage.
constexpr uint32_t kSpreadSentences = 8;
// Neighbouring passages are joined up to so many bytes. Chosen without measurement.
constexpr uint64_t kMostJoinedBytes = 400;

// How much the logarithm of a passage's share of the attention counts beside its support by words,
// which is a log odds. The right passage came first for this many of 128 facts about 16 real texts,
// with the models' own answers:
//   kAttention         0   0.1   0.2   0.3   0.5     1   attention alone
//   SmolLM2-135M      77    81    81    78    76    65                12
//   Gemma 3 270M      80    78    79    81    82    74                24
//   bundled reader    66    68    68    66    63     -                 7
// On the bundled reader's own documents it came first for 288 of 288 with every value up to 5.
constexpr double kAttention = 0.2;
// The same for a passage's share of the attention of retrieval heads. Right passages, first / one
// of three, of 210 facts (the adapter: 196) about 15 pairs of training texts, joined, with the
// models' own answers:
//   kRetrieval        squares   0.3       0.6       1         1.5       2         3
//   SmolLM2-135M      129/167   126/169   130/173   133/172   133/177   127/177   127/173
//   Gemma 3 270M      116/166   118/166   119/172   122/171   120/166   115/161   113/157
//   with an adapter   124/166   122/165   125/171   127/175   126/174   127/172   128/172
constexpr double kRetrieval = 1;
// A smaller share is not told from none. With 1e-2 the numbers above change by 5 at most.
constexpr double kLeastRetrieved = 1e-3;
// Passages are shown whose rank, which is a log odds, is so far below the best one's at most.
// Right passages among three of 439 facts about texts that no model was trained with (the adapter:
// 354), with the models' own answers, and how many passages are shown in the mean:
//   kMostBelow               2         4         6         8        10       all
//   SmolLM2-135M      349, 1.5  367, 2.0  371, 2.5  372, 2.7  373, 2.9  374, 3.0
//   Gemma 3 270M      357, 1.6  373, 2.1  376, 2.4  380, 2.7  382, 2.9  382, 3.0
//   with an adapter   280, 1.2  298, 1.4  311, 1.7  316, 1.9  321, 2.3  321, 3.0
constexpr double kMostBelow = 8;
// A share below this is not told from none.
constexpr double kSmallestShare = 1e-4;

// Passages that are one piece of evidence: neighbours, or a passage and its equals.
struct Found {
  size_t first, last;  // passages [first, last)
  double mass = 0;
};

// The numerators of SharesOfPassages. Returns the mass of all tokens that have text.
double Distribute(std::span<const Passage> passages, std::span<const TokenizedText::Range> ranges,
                  std::span<const double> mass, std::vector<double>* masses) {
  masses->assign(passages.size(), 0.0);
  double total = 0;
  size_t passage = 0;
  for (size_t t = 0; t < ranges.size(); ++t) {
    if (ranges[t].end <= ranges[t].begin) continue;
    total += mass[t];
    const uint64_t last = ranges[t].end - 1;
    while (passage < passages.size() && passages[passage].end <= last) ++passage;
    if (passage == passages.size()) continue;
    if (passages[passage].begin <= last) (*masses)[passage] += mass[t];
  }
  return total;
}

// The passages of most mass, in the order of the text.
std::vector<size_t> BestPassages(std::span<const double> masses, uint32_t max_passages) {
  std::vector<size_t> best(masses.size());
  std::iota(best.begin(), best.end(), size_t{0});
  const size_t num = std::min<size_t>(best.size(), max_passages);
  std::partial_sort(
      best.begin(), best.begin() + static_cast<std::ptrdiff_t>(num), best.end(),
      [&](size_t a, size_t b) { return masses[a] != masses[b] ? masses[a] > masses[b] : a < b; });
  best.resize(num);
  std::erase_if(best, [&](size_t i) { return !(masses[i] > 0); });
  std::sort(best.begin(), best.end());
  return best;
}

// Joins neighbours where `joins(first, next)` allows it; the result is in the order of mass.
template <typename Joins>
std::vector<Found> JoinNeighbours(const std::vector<size_t>& best, std::span<const double> masses,
                                  const Joins& joins) {
  std::vector<Found> found;
  for (const size_t i : best) {
    if (!found.empty() && found.back().last == i && joins(found.back().first, i)) {
      found.back().last = i + 1;
      found.back().mass += masses[i];
    } else {
      found.push_back({i, i + 1, masses[i]});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.mass > b.mass; });
  return found;
}

}  // namespace

std::vector<double> SharesOfPassages(std::span<const Passage> passages,
                                     std::span<const TokenizedText::Range> ranges,
                                     std::span<const double> mass) {
  std::vector<double> shares;
  const double total = Distribute(passages, ranges, mass, &shares);
  for (double& share : shares) share = total > 0 ? share / total : 0;
  return shares;
}

double RankOf(double support, double retrieved) {
  return support + kRetrieval * std::log(retrieved + kLeastRetrieved);
}

std::vector<Evidence> FindEvidence(const PassagesOfText& document,
                                   std::span<const TokenizedText::Range> ranges,
                                   std::span<const double> mass, uint32_t max_passages,
                                   const EvidenceSignals& signals) {
  if (max_passages == 0) return {};  // the caller collected no masses
  const std::span<const Passage> passages = document.passages;
  const bool has_words = std::ranges::any_of(signals.support, [](double s) { return s > 0; });
  std::vector<double> shares = SharesOfPassages(passages, ranges, mass), retrieved;
  const bool retrieves =
      has_words && std::ranges::any_of(signals.retrieved, [](double m) { return m > 0; });
  if (retrieves) retrieved = SharesOfPassages(passages, ranges, signals.retrieved);
  // Equal passages are shown once: the one whose headings and neighbours fit best.
  const EqualPassages equals(document.text, passages);
  std::vector<size_t> shown(passages.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  for (size_t i = 0; has_words && i < passages.size(); ++i) {
    size_t& best = shown[equals.first(i)];
    if (signals.support[i] > signals.support[best]) best = i;
  }
  for (std::vector<double>* of : {&shares, &retrieved}) {
    std::vector<double> sums(of->size());
    for (size_t i = 0; i < of->size(); ++i) sums[shown[equals.first(i)]] += (*of)[i];
    *of = std::move(sums);
  }
  std::vector<double> scores(passages.size());
  for (size_t i = 0; i < passages.size(); ++i) {
    if (shown[equals.first(i)] != i) continue;
    if (!has_words) {
      scores[i] = shares[i];
    } else if (signals.support[i] > 0) {
      const double rank =
          retrieves ? RankOf(signals.support[i], retrieved[i])
                    : signals.support[i] + kAttention * std::log(shares[i] + kSmallestShare);
      scores[i] = std::exp(rank);
    }
  }
  // Support is of single passages, so that with words neighbours stay apart.
  const auto joins = [&](size_t a, size_t b) {
    return !has_words && !equals.is_repeated(a) && !equals.is_repeated(b) &&
           passages[a].kind == passages[b].kind && passages[a].kind != PassageKind::kHeading &&
           passages[a].heading == passages[b].heading &&
           passages[b].end - passages[a].begin <= kMostJoinedBytes &&
           PageAt(document.pages, passages[a].begin) == PageAt(document.pages, passages[b].begin);
  };
  const std::vector<size_t> best = BestPassages(scores, max_passages);
  const double least = scores.empty() ? 0 : std::ranges::max(scores) * std::exp(-kMostBelow);
  std::vector<Evidence> evidence;
  for (const Found& found : JoinNeighbours(best, scores, joins)) {
    if (has_words && scores[found.first] < least) break;  // all others are below it, too
    const double share =
        std::min(1.0, std::accumulate(shares.begin() + static_cast<ptrdiff_t>(found.first),
                                      shares.begin() + static_cast<ptrdiff_t>(found.last), 0.0));
    if (!has_words && share < kMinPassageMass) continue;
    evidence.push_back(MakeEvidence(document, equals, found.first, found.last));
    evidence.back().mass = static_cast<float>(share);
    if (has_words) evidence.back().score = static_cast<float>(signals.probability[found.first]);
  }
  return evidence;
}

std::vector<AttendedPassage> FindAttended(std::span<const Passage> passages,
                                          std::span<const TokenizedText::Range> ranges,
                                          std::span<const double> mass) {
  const std::vector<double> shares = SharesOfPassages(passages, ranges, mass);
  std::vector<AttendedPassage> attended;
  for (const size_t i : BestPassages(shares, kMostAttended)) {
    attended.push_back(
        {passages[i].begin, passages[i].end, static_cast<float>(std::min(1.0, shares[i]))});
  }
  std::ranges::stable_sort(attended, std::ranges::greater(), &AttendedPassage::mass);
  return attended;
}

bool HasEvidence(std::span<const Evidence> evidence) {
  return std::ranges::any_of(evidence,
                             [](const Evidence& one) { return one.score >= kLeastScore; });
}

bool Spread::IsWide() const {
  return missed > kMostMissed || (missed > kLittleMissed && best_passage < kLeastBestPassage);
}

Spread FindSpread(std::span<const Passage> passages, std::span<const TokenizedText::Range> ranges,
                  std::span<const double> mass, double document_mass) {
  std::vector<double> masses;
  const double read_text = Distribute(passages, ranges, mass, &masses);
  const double read = std::accumulate(mass.begin(), mass.end(), 0.0);
  // Only clustered rows go unread, and these are all text.
  const double missed = std::max(0.0, document_mass - read);
  const double total = read_text + missed;
  if (!(total > 0)) return {.best_passage = 1};  // no attention went to the text
  const auto joins = [&](size_t a, size_t b) {
    return passages[b].end - passages[a].begin <= kMostJoinedBytes;
  };
  const auto found = JoinNeighbours(BestPassages(masses, kSpreadSentences), masses, joins);
  return {.best_passage = found.empty() ? 0 : found.front().mass / total, .missed = missed / total};
}

}  // namespace lectern
