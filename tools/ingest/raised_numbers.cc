#include "tools/ingest/raised_numbers.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/ingest/characters.h"
#include "tools/ingest/letter_forms.h"
#include "tools/ingest/visual_order.h"

namespace lectern::tools {
namespace {

// In heights of the word that has a raised or lowered number. A space is 0.2 and more.
constexpr double kTouchingNumber = 0.12;
constexpr double kSmallerNumber = 0.92;  // its own height, at most; WeasyPrint's is 0.9
constexpr double kSmallestNumber = 0.4;
// How far its baseline stands above or below that of the word.
constexpr double kLeastRaised = 0.17, kMostRaised = 0.8;
constexpr double kLeastLowered = 0.08, kMostLowered = 0.5;
constexpr double kSameSize = 0.05;  // of the word behind it: their heights and their baselines
constexpr double kNearSize = 0.3;   // the same for punctuation, which may be in another font
// A line of letters reaches this share of its height below the baseline, in most fonts.
constexpr double kUnderBaseline = 0.22;
constexpr size_t kLongestNumber = 12;  // bytes

double BaselineOf(const PdfBox& box) { return box.y_max - kUnderBaseline * box.Height(); }

bool EndsInLetter(std::string_view text) {
  const std::vector<uint32_t> characters = CodePoints(text);
  if (characters.empty()) return false;
  const int category = utf8proc_category(static_cast<utf8proc_int32_t>(characters.back()));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL;
}

bool HasRightToLeft(std::string_view text) {
  LetterCounts counts;
  CountLetters(text, counts);
  return counts.right_to_left > 0;
}

bool EndsInDigit(const std::string& text) { return !text.empty() && IsAsciiDigit(text.back()); }

// A raised word as text: a number, or several marks of notes ("1,2"), in raised digits; empty: it
// is something else. Signs alone ("−") are ions' charges only behind digits.
std::string RaisedNumber(std::string_view text) {
  if (text.size() > kLongestNumber) return "";
  std::string raised;
  bool has_digit = false;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && IsAsciiDigit(text[end])) ++end;
    if (end > i) {
      raised += Superscript(text.substr(i, end - i));
      has_digit = true;
      i = end;
      continue;
    }
    constexpr std::pair<std::string_view, std::string_view> kSigns[] = {
        {"-", "⁻"}, {"−", "⁻"}, {"+", "⁺"}, {"(", "⁽"}, {")", "⁾"}, {",", ","}, {"–", "–"}};
    const auto* const sign =
        std::find_if(std::begin(kSigns), std::end(kSigns),
                     [&](const auto& pair) { return text.substr(i).starts_with(pair.first); });
    if (sign == std::end(kSigns)) return "";
    raised += sign->second;
    i += sign->first.size();
  }
  return has_digit ? raised : "";
}

// The letters behind the number of an ordinal in English and French, as text processors raise them.
bool IsOrdinalEnding(std::string_view text) {
  constexpr std::string_view kOrdinalEndings[] = {"st", "nd", "rd",  "th", "er",
                                                  "re", "e",  "ème", "nde"};
  return std::find(std::begin(kOrdinalEndings), std::end(kOrdinalEndings), text) !=
         std::end(kOrdinalEndings);
}

// Stops, commas and closing brackets.
bool IsClosingPunctuation(std::string_view text) {
  return !text.empty() && text.find_first_not_of(".,;:!?)]") == std::string_view::npos;
}

bool IsShortNumber(std::string_view text) {
  return !text.empty() && text.size() <= 3 && std::all_of(text.begin(), text.end(), IsAsciiDigit);
}

// How a word goes on in the next one of its line.
class WordParts {
 public:
  explicit WordParts(const PdfWord& word) : base_(word.box), last_(word.box) {}

  // Appends `next` to `word`, whose parts these are; false: it is another word.
  bool Append(const PdfWord& next, PdfWord& word) {
    const double height = base_.Height();
    if (height <= 0 || std::abs(next.box.x_min - last_.x_max) > kTouchingNumber * height ||
        HasRightToLeft(word.text)) {
      return false;
    }
    const std::string part = PartOf(next, word.text);
    if (part.empty()) return false;
    word.text += part;
    word.box.x_min = std::min(word.box.x_min, next.box.x_min);
    word.box.x_max = std::max(word.box.x_max, next.box.x_max);  // as high as it was
    last_ = next.box;
    return true;
  }

 private:
  std::string PartOf(const PdfWord& next, const std::string& text) {
    const double height = base_.Height(), size = next.box.Height() / height;
    const double raised = (BaselineOf(base_) - BaselineOf(next.box)) / height;
    const double likeness = IsClosingPunctuation(next.text) ? kNearSize : kSameSize;
    if (has_number_ && std::abs(size - 1) <= likeness && std::abs(raised) <= likeness) {
      base_ = next.box;
      has_number_ = false;
      return next.text;
    }
    if (size > kSmallerNumber || size < kSmallestNumber) return "";
    std::string part;
    if (raised >= kLeastRaised && raised <= kMostRaised) {
      part = RaisedNumber(next.text);
      if (part.empty() && EndsInDigit(text) && IsOrdinalEnding(next.text)) part = next.text;
    } else if (raised <= -kLeastLowered && raised >= -kMostLowered && IsShortNumber(next.text)) {
      if (EndsInLetter(text) || text.ends_with(')') || text.ends_with(']')) part = next.text;
    }
    has_number_ = has_number_ || !part.empty();
    return part;
  }

  PdfBox base_;  // the last part in the word's own size
  PdfBox last_;
  bool has_number_ = false;  // behind base_
};

void JoinRaisedNumbersOf(PdfLine& line) {
  std::vector<PdfWord> words;
  words.reserve(line.words.size());
  WordParts parts({});
  for (PdfWord& word : line.words) {
    if (!words.empty() && parts.Append(word, words.back())) continue;
    parts = WordParts(word);
    words.push_back(std::move(word));
  }
  line.words = std::move(words);
}

}  // namespace

void JoinRaisedNumbers(PdfPage& page) {
  page.num_words = 0;
  for (PdfLine& line : page.lines) {
    JoinRaisedNumbersOf(line);
    page.num_words += line.words.size();
  }
}

}  // namespace lectern::tools
