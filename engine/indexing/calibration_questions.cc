#include "engine/indexing/calibration_questions.h"

#include <cstdint>
#include <cstdlib>
#include <unordered_map>

namespace lectern {
namespace {

constexpr const char* kQuestions[] = {"What is this document about?", "Who is responsible for it?",
                                      "How much does it cost, and when does it end?",
                                      "What is the name of the second one?"};

// A word of fewer bytes is likely to be a function word, a longer one an address or a hash. Text
// without spaces between words (Chinese, Thai) is cut into pieces of this length.
constexpr size_t kLeastBytes = 5, kMostBytes = 24;
constexpr size_t kSearchedBytes = 1024;  // of a third, from its middle
constexpr int64_t kWantedCount = 3;      // few places, so that the question is about one of them
constexpr size_t kNumThirds = 3;

// ASCII letters, and every byte of a character beyond ASCII.
bool IsOfWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (static_cast<unsigned char>(c) & 0x80);
}

bool ContinuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Takes the next word off the front of the text, whole characters; empty at the end.
std::string_view NextWord(std::string_view& text) {
  size_t begin = 0;
  while (begin < text.size() && (!IsOfWord(text[begin]) || ContinuesCharacter(text[begin])))
    ++begin;
  size_t end = begin;
  while (end < text.size() && IsOfWord(text[end]) &&
         (end - begin < kMostBytes || ContinuesCharacter(text[end]))) {
    ++end;
  }
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

using Counts = std::unordered_map<std::string_view, int64_t>;

Counts CountWords(std::string_view text) {
  Counts counts;
  for (std::string_view word; !(word = NextWord(text)).empty();) {
    if (word.size() >= kLeastBytes) ++counts[word];
  }
  return counts;
}

// The word of `part` whose count in the text is nearest to kWantedCount; the longest of equals, the
// first of those. Empty: `part` has no word.
std::string_view TellingWord(std::string_view part, const Counts& counts) {
  std::string_view best;
  int64_t least = INT64_MAX;
  for (std::string_view word; !(word = NextWord(part)).empty();) {
    if (word.size() < kLeastBytes) continue;
    const auto found = counts.find(word);  // a word that the part cuts is none of the text's
    if (found == counts.end()) continue;
    const int64_t distance = std::abs(found->second - kWantedCount);
    if (distance < least || (distance == least && word.size() > best.size())) {
      best = word;
      least = distance;
    }
  }
  return best;
}

}  // namespace

std::span<const char* const> GenericQuestions() { return kQuestions; }

std::vector<std::string> CalibrationQuestions(std::string_view text) {
  const Counts counts = CountWords(text);
  std::vector<std::string> questions = {kQuestions[0]};
  for (size_t i = 0; i < kNumThirds; ++i) {
    const size_t begin = text.size() * (2 * i + 1) / (2 * kNumThirds);
    const std::string_view word = TellingWord(text.substr(begin, kSearchedBytes), counts);
    questions.push_back(word.empty() ? kQuestions[i + 1]
                                     : "What does the text say about " + std::string(word) + "?");
  }
  return questions;
}

}  // namespace lectern
