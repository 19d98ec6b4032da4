#include "engine/asking/evidence.h"

#include <algorithm>
#include <numeric>

namespace lectern {
namespace {

// Neighbours among this many best sentences are one passage.
constexpr uint32_t kSpreadSentences = 8;

struct Passage {
  size_t begin, end;  // bytes
  double mass = 0;
};

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool IsContinuationByte(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// End of the sentence that starts at `begin`: after . ! or ? before a space, or at the end of a
// line. At most kMaxPassageBytes away, and then after the last space before (never inside a
// character).
size_t SentenceEnd(std::string_view text, size_t begin) {
  const size_t limit = std::min(text.size(), begin + kMaxPassageBytes);
  size_t last_space = 0;
  for (size_t i = begin; i < limit; ++i) {
    const char c = text[i];
    if (c == '\n') return i + 1;
    if (c == ' ') last_space = i + 1;
    const bool stop = c == '.' || c == '!' || c == '?';
    if (stop && (i + 1 == text.size() || IsSpace(text[i + 1]))) return i + 1;
  }
  if (limit == text.size()) return limit;
  if (last_space > begin) return last_space;
  size_t end = limit;
  while (end > begin + 1 && IsContinuationByte(text[end])) --end;
  return end;
}

// The text's sentences, without surrounding space.
std::vector<Passage> Sentences(std::string_view text) {
  std::vector<Passage> sentences;
  for (size_t begin = 0; begin < text.size();) {
    if (IsSpace(text[begin])) {
      ++begin;
      continue;
    }
    size_t end = SentenceEnd(text, begin);
    const size_t next = end;
    while (end > begin && IsSpace(text[end - 1])) --end;
    if (end > begin) sentences.push_back({begin, end});
    begin = next;
  }
  return sentences;
}

// Gives each token's mass to the sentence that holds its last byte, because tokens begin with their
// space. Returns the mass of all tokens that have text.
double Distribute(std::span<const TokenizedText::Range> ranges, std::span<const double> mass,
                  std::vector<Passage>& sentences) {
  double total = 0;
  size_t sentence = 0;
  for (size_t t = 0; t < ranges.size(); ++t) {
    if (ranges[t].end <= ranges[t].begin) continue;
    total += mass[t];
    const uint64_t last = ranges[t].end - 1;
    while (sentence < sentences.size() && sentences[sentence].end <= last) ++sentence;
    if (sentence == sentences.size()) continue;
    if (sentences[sentence].begin <= last) sentences[sentence].mass += mass[t];
  }
  return total;
}

// The best sentences, neighbours joined, in the order of mass.
std::vector<Passage> BestPassages(const std::vector<Passage>& sentences, uint32_t max_passages,
                                  std::span<const PageMapEntry> pages) {
  std::vector<size_t> best(sentences.size());
  std::iota(best.begin(), best.end(), size_t{0});
  std::stable_sort(best.begin(), best.end(),
                   [&](size_t a, size_t b) { return sentences[a].mass > sentences[b].mass; });
  best.resize(std::min<size_t>(best.size(), max_passages));
  std::sort(best.begin(), best.end());

  std::vector<Passage> passages;
  size_t previous = 0;
  for (const size_t i : best) {
    const Passage& sentence = sentences[i];
    if (!(sentence.mass > 0)) continue;
    if (!passages.empty() && i == previous + 1 &&
        sentence.end - passages.back().begin <= kMaxPassageBytes &&
        PageAt(pages, sentence.begin) == PageAt(pages, passages.back().begin)) {
      passages.back().end = sentence.end;
      passages.back().mass += sentence.mass;
    } else {
      passages.push_back(sentence);
    }
    previous = i;
  }
  std::stable_sort(passages.begin(), passages.end(),
                   [](const Passage& a, const Passage& b) { return a.mass > b.mass; });
  return passages;
}

}  // namespace

std::vector<Evidence> FindEvidence(std::string_view text,
                                   std::span<const TokenizedText::Range> ranges,
                                   std::span<const double> mass, uint32_t max_passages,
                                   std::span<const PageMapEntry> pages) {
  if (max_passages == 0) return {};  // the caller collected no masses
  std::vector<Passage> sentences = Sentences(text);
  const double total = Distribute(ranges, mass, sentences);
  std::vector<Evidence> evidence;
  for (const Passage& passage : BestPassages(sentences, max_passages, pages)) {
    if (passage.mass < kMinPassageMass * total) break;
    evidence.push_back({passage.begin, passage.end,
                        std::string(text.substr(passage.begin, passage.end - passage.begin)),
                        static_cast<float>(std::min(1.0, passage.mass / total)),
                        PageAt(pages, passage.begin)});
  }
  return evidence;
}

bool Spread::IsWide() const {
  return missed > kMostMissed || (missed > kLittleMissed && best_passage < kLeastBestPassage);
}

Spread FindSpread(std::string_view text, std::span<const TokenizedText::Range> ranges,
                  std::span<const double> mass, double document_mass) {
  std::vector<Passage> sentences = Sentences(text);
  const double read_text = Distribute(ranges, mass, sentences);
  const double read = std::accumulate(mass.begin(), mass.end(), 0.0);
  // Only clustered rows go unread, and these are all text.
  const double missed = std::max(0.0, document_mass - read);
  const double total = read_text + missed;
  if (!(total > 0)) return {.best_passage = 1};  // no attention went to the text
  const std::vector<Passage> best = BestPassages(sentences, kSpreadSentences, {});
  return {.best_passage = best.empty() ? 0 : best.front().mass / total, .missed = missed / total};
}

}  // namespace lectern
