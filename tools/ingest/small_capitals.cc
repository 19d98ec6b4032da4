#include "tools/ingest/small_capitals.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/ingest/letter_forms.h"

namespace lectern::tools {
namespace {

// The gap between two pieces of a word, in heights of the smaller one, at most. In 25 PDFs of 10
// programs it is between -0.05 and 0.07 (kerning), and spaces are 0.2 and more.
constexpr double kTouchingCapitals = 0.12;
// The size of small capitals in that of the others: 0.79 to 0.82 in these PDFs. Words in sizes that
// differ less are in one size, with boxes of two fonts.
constexpr double kSmallest = 0.55, kLargest = 0.92;
// A line of letters reaches this share of its height below the baseline, in most fonts.
constexpr double kBelowBaseline = 0.22;
constexpr double kSameBaseline = 0.05;  // in the larger height

int CategoryOfCharacter(uint32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool IsSmall(uint32_t character) { return CategoryOfCharacter(character) == UTF8PROC_CATEGORY_LL; }

// Tells by its characters whether a word may be part of one in small capitals.
struct WordLetters {
  explicit WordLetters(std::string_view text) {
    const auto characters = CodePoints(text);
    size_t num_capitals = 0, num_digits = 0, num_others = 0;
    for (const uint32_t character : characters) {
      const int category = CategoryOfCharacter(character);
      if (category == UTF8PROC_CATEGORY_LU) {
        ++num_capitals;
      } else if (category == UTF8PROC_CATEGORY_ND) {
        ++num_digits;
      } else if (category < UTF8PROC_CATEGORY_PC || category > UTF8PROC_CATEGORY_PO) {
        ++num_others;
      }
    }
    has_capitals = num_capitals > 0;
    may_be_small = num_others == 0 && num_digits < characters.size();
    is_capital = characters.size() == 1 && has_capitals;
    begins_small = characters.size() > 1 && IsSmall(characters[0]) && IsSmall(characters[1]);
  }

  bool has_capitals = false;
  bool may_be_small = false;  // it has capitals, digits and punctuation alone, not only digits
  bool is_capital = false;    // it is one capital
  bool begins_small = false;  // with two small letters: one may be an index
};

// Whether two words that follow each other touch, on one baseline, in two sizes.
bool TouchInTwoSizes(const PdfBox& left, const PdfBox& right) {
  const double large = std::max(left.Height(), right.Height());
  const double small = std::min(left.Height(), right.Height());
  if (small < kSmallest * large || small > kLargest * large || small <= 0) return false;
  const PdfBox& higher = left.Height() > right.Height() ? left : right;
  const PdfBox& lower = left.Height() > right.Height() ? right : left;
  const double baseline_step =
      (lower.y_max - kBelowBaseline * small) - (higher.y_max - kBelowBaseline * large);
  return std::abs(right.x_min - left.x_max) <= kTouchingCapitals * small &&
         std::abs(baseline_step) <= kSameBaseline * large;
}

void JoinSmallCapitalsOf(PdfLine& line) {
  std::vector<PdfWord> words;
  PdfBox last;             // the last piece of words.back()
  WordLetters before("");  // of all of words.back()
  for (PdfWord& word : line.words) {
    const PdfBox box = word.box;
    const WordLetters behind(word.text);
    const bool is_same =
        !words.empty() && TouchInTwoSizes(last, box) &&
        ((before.may_be_small && behind.may_be_small && before.has_capitals) ||
         (before.is_capital && behind.begins_small && last.Height() > box.Height()));
    if (is_same) {
      words.back().text += word.text;
      words.back().box.Cover(box);
      before.may_be_small = before.may_be_small && behind.may_be_small;
      before.is_capital = false;
    } else {
      words.push_back(std::move(word));
      before = behind;
    }
    last = box;
  }
  line.words = std::move(words);
}

}  // namespace

void JoinSmallCapitals(PdfPage& page) {
  page.num_words = 0;
  for (PdfLine& line : page.lines) {
    JoinSmallCapitalsOf(line);
    page.num_words += line.words.size();
  }
}

}  // namespace lectern::tools
