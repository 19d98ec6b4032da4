#include "tools/ingest/spaced_lines.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/ingest/letter_forms.h"
#include "tools/ingest/line_markers.h"
#include "tools/ingest/monospaced_text.h"
#include "tools/ingest/scripts.h"

namespace lectern::tools {
namespace {

// In heights of a line.
constexpr double kLikeHeight = 0.1;   // between the heights of a paragraph's lines
constexpr double kMinLineStep = 0.5;  // between neighbouring lines
constexpr double kMaxLineStep = 3;    // likewise; double spacing is 1.8 to 2.4
constexpr double kAtMargin = 0.3;     // between the beginnings of two lines at the same margin
constexpr double kMostIndented = 6;   // the first line of a paragraph
constexpr double kMinLineWidth = 10;  // of a line that a sentence goes on behind
constexpr double kStepClass = 0.1;    // steps that differ by less are one

constexpr uint32_t kMinGoingOn = 2;  // sentences that tell a step between lines
// Lists of short items may have full lines by chance: one line that is not full for so many that
// are.
constexpr uint32_t kGoingOnOfShort = 3;
// In prose every second line or so goes on with a small letter; a list of long items, in which
// hardly any does, is none.
constexpr uint32_t kFullOfGoingOn = 5;
// Programs and items, some of which begin with a small letter, are further from the paragraphs
// around them than the lines of these are from each other.
constexpr uint32_t kGoingOnOfSmaller = 2;

// The word that tells a line's height and place: the longest one, because raised and lowered signs
// are short.
const PdfBox& TellingBox(const PdfLine& line) {
  return std::max_element(
             line.words.begin(), line.words.end(),
             [](const PdfWord& a, const PdfWord& b) { return a.text.size() < b.text.size(); })
      ->box;
}

int CategoryOf(uint32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

// Whether a line that begins with `word` may be the middle of a sentence.
bool BeginsWithin(std::string_view word) {
  const auto characters = CodePoints(word.substr(0, 4));
  if (characters.empty()) return false;
  const int category = CategoryOf(characters.front());
  return category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LO;
}

// Whether a sentence may go on behind `word`: it ends in a letter, a comma or a hyphen.
bool EndsWithin(std::string_view word) {
  const auto characters = CodePoints(word);
  if (characters.empty()) return false;
  const uint32_t last = characters.back();
  const int category = CategoryOf(last);
  return last == ',' || last == '-' || last == 0x2010 || last == 0xAD || last == U'，' ||
         last == U'、' || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LU ||
         category == UTF8PROC_CATEGORY_LO || category == UTF8PROC_CATEGORY_MN ||
         category == UTF8PROC_CATEGORY_MC;
}

// Two lines that follow each other on the page.
struct LinePair {
  double height = 0, step = 0;  // of the upper one; between their baselines
  bool is_below = false;        // the lower one stands below the upper one, in letters as high
  bool is_at_margin = false;    // it begins where the lines of a paragraph do
  bool is_within = false;       // a sentence seems to go on
  bool is_full = false;         // the lower one's first word would not have fitted above
  bool is_in_prose = false;     // a sentence goes on somewhere in the lines that stand with these
};

LinePair PairOf(const PdfLine& above, const PdfLine& below) {
  const PdfBox &box = TellingBox(above), &next = TellingBox(below);
  LinePair pair;
  pair.height = box.Height();
  pair.step = next.y_max - box.y_max;
  pair.is_below =
      pair.height > 0 && std::abs(next.Height() - pair.height) <= kLikeHeight * pair.height &&
      pair.step >= kMinLineStep * pair.height && pair.step <= kMaxLineStep * pair.height &&
      above.box.x_max > below.box.x_min && !above.is_entry && !below.is_entry;
  if (!pair.is_below) return pair;
  const double margin = kAtMargin * pair.height, indent = above.box.x_min - below.box.x_min;
  const bool begins_item = IsListMarker(above.words.front().text) && above.words.size() > 1;
  pair.is_at_margin =
      (indent >= -margin && indent <= kMostIndented * pair.height) ||
      (begins_item && std::abs(above.words[1].box.x_min - below.box.x_min) <= margin);
  pair.is_at_margin = pair.is_at_margin && !IsListMarker(below.words.front().text);
  pair.is_within = BeginsWithin(below.words.front().text) && EndsWithin(above.words.back().text);
  return pair;
}

// How much room `next` takes behind `last`, with a space before it. Scripts without spaces need
// room for a character.
double RoomBehind(const PdfWord& last, const PdfWord& next) {
  const auto before = CodePoints(last.text), behind = CodePoints(next.text);
  if (before.empty() || behind.empty()) return 0;
  const auto num_characters = static_cast<double>(behind.size());
  const bool needs_character = WrapsWithoutSpace(before.back(), behind.front());
  return next.box.Width() * (needs_character ? 1 : num_characters + 1) / num_characters;
}

// The pairs of neighbouring lines of the page; the last line has none.
std::vector<LinePair> PairsOf(const PdfPage& page) {
  std::vector<LinePair> pairs(page.lines.size());
  for (size_t begin = 0, end = 0; begin < page.lines.size(); begin = end) {
    // Lines below each other, whose margins are those of the longest ones.
    double left = page.lines[begin].box.x_min, right = page.lines[begin].box.x_max;
    for (end = begin + 1; end < page.lines.size(); ++end) {
      pairs[end - 1] = PairOf(page.lines[end - 1], page.lines[end]);
      if (!pairs[end - 1].is_below) break;
      left = std::min(left, page.lines[end].box.x_min);
      right = std::max(right, page.lines[end].box.x_max);
    }
    bool is_prose = false;
    for (size_t i = begin; i + 1 < end; ++i) {
      const double room = RoomBehind(page.lines[i].words.back(), page.lines[i + 1].words.front());
      // A word as long as half of a line fits behind few lines, also those of a list.
      pairs[i].is_full = right - page.lines[i].box.x_max < room && 2 * room < right - left &&
                         page.lines[i].box.Width() >= kMinLineWidth * pairs[i].height;
      is_prose |= pairs[i].is_full && pairs[i].is_within && pairs[i].is_at_margin;
    }
    for (size_t i = begin; i + 1 < end; ++i) pairs[i].is_in_prose = is_prose;
  }
  return pairs;
}

struct StepCounts {
  uint32_t full = 0, going_on = 0, going_on_short = 0;  // the last: behind a line that is not full

  void Add(const StepCounts& other) {
    full += other.full;
    going_on += other.going_on;
    going_on_short += other.going_on_short;
  }
};

// Counts, by the height of letters, the steps between lines that a sentence seems to go on behind.
class StepsOfPage {
 public:
  explicit StepsOfPage(const std::vector<LinePair>& pairs) {
    for (const LinePair& pair : pairs) {
      if (!pair.is_below || !pair.is_at_margin) continue;
      StepCounts& count = counts_[HeightClass(pair)][StepClass(pair)];
      count.full += pair.is_full;
      (pair.is_full ? count.going_on : count.going_on_short) += pair.is_within;
    }
  }

  // Whether lines of a paragraph are as far apart as those of `pair`.
  bool IsOfText(const LinePair& pair) const {
    const size_t step = StepClass(pair);
    StepCounts near, smaller;
    for (int height = HeightClass(pair) - 1; height <= HeightClass(pair) + 1; ++height) {
      const auto found = counts_.find(height);
      if (found == counts_.end()) continue;
      for (size_t i = 0; i <= step + 1; ++i) {
        (i + 1 < step ? smaller : near).Add(found->second[i]);
      }
    }
    return near.going_on >= kMinGoingOn && near.going_on >= kGoingOnOfShort * near.going_on_short &&
           kFullOfGoingOn * near.going_on >= near.full &&
           kGoingOnOfSmaller * near.going_on >= smaller.going_on;
  }

 private:
  static constexpr size_t kNumSteps = static_cast<size_t>(kMaxLineStep / kStepClass) + 3;

  static int HeightClass(const LinePair& pair) {
    return static_cast<int>(std::lround(std::log(pair.height) / std::log1p(kLikeHeight)));
  }
  static size_t StepClass(const LinePair& pair) {
    return static_cast<size_t>(std::lround(pair.step / pair.height / kStepClass));
  }

  std::unordered_map<int, std::array<StepCounts, kNumSteps>> counts_;
};

}  // namespace

void JoinSpacedLines(PdfPage& page) {
  const std::vector<LinePair> pairs = PairsOf(page);
  const StepsOfPage steps(pairs);
  const MonospacedText monospaced(page);
  const auto goes_on = [&](size_t above) {
    const LinePair& pair = pairs[above];
    return pair.is_below && pair.is_at_margin && pair.is_full && pair.is_in_prose &&
           steps.IsOfText(pair) && !monospaced.HoldsLines(above, above + 1) &&
           !monospaced.HoldsLines(above + 1, above + 2);
  };
  std::vector<uint8_t> is_joined(page.blocks.size());
  std::vector<size_t> whole(page.lines.size());  // the block that a line is in, as it was numbered
  for (size_t i = 0; i < page.lines.size(); ++i) {
    const size_t block = page.lines[i].block;
    whole[i] = block;
    if (i == 0) continue;
    if (block == page.lines[i - 1].block) {
      whole[i] = whole[i - 1];
    } else if (goes_on(i - 1)) {
      whole[i] = whole[i - 1];
      page.blocks[whole[i]].Cover(page.blocks[block]);
      is_joined[block] = 1;
    }
  }
  for (const size_t block : whole) is_joined[block] = 0;
  std::vector<size_t> new_index(page.blocks.size());
  size_t num_blocks = 0;
  for (size_t i = 0; i < page.blocks.size(); ++i) {
    if (is_joined[i] != 0) continue;
    new_index[i] = num_blocks;
    page.blocks[num_blocks++] = page.blocks[i];
  }
  page.blocks.resize(num_blocks);
  for (size_t i = 0; i < page.lines.size(); ++i) page.lines[i].block = new_index[whole[i]];
}

}  // namespace lectern::tools
