#include "engine/asking/focus.h"

#include <algorithm>
#include <new>
#include <functional>
#include <numeric>
#include <set>
#include <span>

#include "engine/asking/cite.h"
#include "engine/asking/evidence.h"
#include "engine/document/equal_passages.h"

namespace lectern {
namespace {

// Marks a passage and the headings above it.
void Mark(std::span<const Passage> passages, size_t i, std::vector<bool>& is_read) {
  is_read[i] = true;
  for (uint32_t heading = passages[i].heading; heading > 0;) {
    is_read[heading - 1] = true;
    heading = passages[heading - 1].heading;
  }
}

// The tokens of which a part lies in a passage that is read.
std::vector<bool> TokensOf(std::span<const Passage> passages, const std::vector<bool>& is_read,
                           std::span<const TokenizedText::Range> ranges) {
  std::vector<bool> tokens(ranges.size());
  size_t passage = 0;
  for (size_t t = 0; t < ranges.size(); ++t) {
    if (ranges[t].end <= ranges[t].begin) continue;  // of the template
    while (passage < passages.size() && passages[passage].end <= ranges[t].begin) ++passage;
    for (size_t p = passage; p < passages.size() && passages[p].begin < ranges[t].end; ++p) {
      if (is_read[p]) tokens[t] = true;
    }
  }
  return tokens;
}

}  // namespace

Result<std::vector<bool>> FocusTokens(const Document& document, std::string_view question,
                                      std::span<const double> retrieved) try {
  LECTERN_ASSIGN(const WordIndex* const words, document.words());
  const std::span<const Passage> passages = document.passages();
  LECTERN_ASSIGN(const WordSupport support,
                 WordSupport::Create(*words, document.text(), passages, question));
  LECTERN_ASSIGN(const WordSupport::Supports supports, support.Of(""));
  std::vector<double> ranks = supports.support;
  std::vector<size_t> best(passages.size());
  std::iota(best.begin(), best.end(), size_t{0});
  if (std::ranges::any_of(retrieved, [](double mass) { return mass > 0; })) {
    const std::vector<double> shares = SharesOfPassages(passages, document.ranges(), retrieved);
    for (size_t p = 0; p < ranks.size(); ++p) ranks[p] = RankOf(ranks[p], shares[p]);
  } else {
    std::erase_if(best, [&](size_t p) { return ranks[p] <= 0; });
    LECTERN_ASSIGN(const auto telling, words->ContentWords(question));
    if (telling.empty()) best.clear();  // "And when was it?" points nowhere
  }
  std::ranges::stable_sort(best, std::ranges::greater(), [&](size_t p) { return ranks[p]; });
  const EqualPassages equals(document.text(), passages);
  std::set<size_t> chosen;  // one of equal passages, the best
  std::vector<bool> is_read(passages.size());
  for (const size_t p : best) {
    if (chosen.size() == kFocusedPassages) break;
    if (!chosen.insert(equals.first(p)).second) continue;
    const size_t begin = p == 0 ? 0 : p - 1, end = std::min(p + 2, passages.size());
    for (size_t i = begin; i < end; ++i) Mark(passages, i, is_read);
  }
  return TokensOf(passages, is_read, document.ranges());
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "focusing: out of memory");
}

}  // namespace lectern
