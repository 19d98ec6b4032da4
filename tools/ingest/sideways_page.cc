#include "tools/ingest/sideways_page.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "tools/ingest/letter_forms.h"

namespace lectern::tools {
namespace {

constexpr size_t kTellingWord = 4;      // characters; a shorter one may be higher than wide
constexpr size_t kMinSideways = 40;     // characters in sideways words
constexpr double kSidewaysShare = 0.6;  // in them, of those in all words that tell

bool IsSideways(const PdfBox& box) { return box.Height() > 1.2 * box.Width(); }

// How the sideways words of a page run: those that follow another one of their line upwards, less
// those that follow it downwards.
struct SidewaysWords {
  bool are_most = false;
  bool run_up = true;
};

SidewaysWords CountSideways(const PdfPage& page) {
  size_t num_sideways = 0, num_telling = 0;
  ptrdiff_t upwards = 0;
  for (const PdfLine& line : page.lines) {
    const PdfWord* last = nullptr;
    for (const PdfWord& word : line.words) {
      const size_t length = CodePoints(word.text).size();
      if (length >= kTellingWord) {
        num_telling += length;
        // A letter with its vowel points is several characters, and narrow in an upright line.
        num_sideways += IsSideways(word.box) && IsSideways(line.box) ? length : 0;
      }
      if (last != nullptr && IsSideways(line.box)) {
        upwards += word.box.CenterY() < last->box.CenterY() ? 1 : -1;
      }
      last = &word;
    }
  }
  const auto least = kSidewaysShare * static_cast<double>(num_telling);
  return {num_sideways >= kMinSideways && static_cast<double>(num_sideways) >= least, upwards >= 0};
}

// Whether a line runs up or down the page: it is much higher than wide, and has a word that is.
bool RunsSideways(const PdfLine& line) {
  constexpr double kLineShape = 3;  // a word of four letters is as high, or nearly so
  if (line.box.Height() < kLineShape * line.box.Width()) return false;
  return std::any_of(line.words.begin(), line.words.end(), [](const PdfWord& word) {
    return IsSideways(word.box) && CodePoints(word.text).size() >= kTellingWord;
  });
}

// Where the text of a page begins and ends: nine in ten of its lines do so further within. Words on
// their own, such as numbers of lines, are no lines of text.
struct TextEdges {
  double left = 0, right = 0;
};
TextEdges EdgesOf(const PdfPage& page) {
  constexpr size_t kTextWords = 3;
  std::vector<double> left, right;
  for (const PdfLine& line : page.lines) {
    if (line.words.size() < kTextWords || RunsSideways(line)) continue;
    left.push_back(line.box.x_min);
    right.push_back(-line.box.x_max);
  }
  if (left.empty()) return {0, page.width};
  const auto tenth = static_cast<ptrdiff_t>(left.size() / 10);
  std::nth_element(left.begin(), left.begin() + tenth, left.end());
  std::nth_element(right.begin(), right.begin() + tenth, right.end());
  return {left[static_cast<size_t>(tenth)], -right[static_cast<size_t>(tenth)]};
}

}  // namespace

std::vector<PdfLine> TakeSidewaysStamps(PdfPage& page) {
  std::vector<PdfLine> stamps;
  if (std::none_of(page.lines.begin(), page.lines.end(), RunsSideways)) return stamps;
  const TextEdges edges = EdgesOf(page);
  // Shares of the page: a stamp's length, as labels of rows are shorter, and the width of a margin.
  constexpr double kLeastStamp = 0.1, kMargin = 0.1;
  std::vector<PdfLine> others;
  others.reserve(page.lines.size());
  for (PdfLine& line : page.lines) {
    const bool is_outside = line.box.x_max <= std::min(edges.left, kMargin * page.width) ||
                            line.box.x_min >= std::max(edges.right, (1 - kMargin) * page.width);
    const bool is_stamp =
        is_outside && RunsSideways(line) && line.box.Height() >= kLeastStamp * page.height;
    (is_stamp ? stamps : others).push_back(std::move(line));
  }
  page.lines = std::move(others);
  return stamps;
}

void InsertStamps(std::vector<PdfLine> stamps, PdfPage& page) {
  size_t last = page.blocks.size();  // the block that the line before had
  for (PdfLine& stamp : stamps) {
    const bool is_new = stamp.block != last;
    last = stamp.block;
    if (is_new) page.blocks.push_back(stamp.box);
    page.blocks.back().Cover(stamp.box);
    stamp.block = page.blocks.size() - 1;
  }
  const auto begins_paragraph = [&](size_t i) {
    const std::string& before = page.lines[i - 1].words.back().text;
    return page.lines[i].block != page.lines[i - 1].block &&
           std::string_view(".?!:").find(before.back()) != std::string_view::npos;
  };
  size_t at = page.lines.size();
  while (at > 1 && !begins_paragraph(at - 1)) --at;
  at = at > 1 ? at - 1 : page.lines.size();
  page.lines.insert(page.lines.begin() + static_cast<ptrdiff_t>(at),
                    std::make_move_iterator(stamps.begin()), std::make_move_iterator(stamps.end()));
}

void TurnSidewaysPage(PdfPage& page) {
  const SidewaysWords words = CountSideways(page);
  if (!words.are_most) return;
  const auto turn = [&](PdfBox& box) {
    box = words.run_up
              ? PdfBox{page.height - box.y_max, box.x_min, page.height - box.y_min, box.x_max}
              : PdfBox{box.y_min, page.width - box.x_max, box.y_max, page.width - box.x_min};
  };
  for (PdfLine& line : page.lines) {
    turn(line.box);
    for (PdfWord& word : line.words) turn(word.box);
    std::stable_sort(line.words.begin(), line.words.end(),
                     [](const PdfWord& a, const PdfWord& b) { return a.box.x_min < b.box.x_min; });
  }
  for (PdfBox& block : page.blocks) turn(block);
  std::swap(page.width, page.height);
  // pdftotext's reading order is that of an upright page.
  std::stable_sort(page.lines.begin(), page.lines.end(), [&](const PdfLine& a, const PdfLine& b) {
    const auto key = [&](const PdfLine& line) {
      return std::tuple(page.blocks[line.block].y_min, line.block, line.box.CenterY());
    };
    return key(a) < key(b);
  });
}

}  // namespace lectern::tools
