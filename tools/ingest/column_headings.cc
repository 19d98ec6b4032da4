#include "tools/ingest/column_headings.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

#include "tools/ingest/letter_forms.h"
#include "tools/ingest/visual_order.h"

namespace lectern::tools {
namespace {

constexpr double kLargeLetters = 1.18;    // of a heading, in heights of the page's text, at least
constexpr size_t kMostLines = 4;          // of a heading
constexpr double kGapBelow = 1.2;         // below a heading, in its height, at most
constexpr double kSameTopOfBlocks = 0.3;  // of blocks that begin beside each other, likewise
constexpr double kLevelWithText = 1.0;    // of a heading and its text, in heights of the text
constexpr size_t kMostHeadings = 64;      // looked at on a page, to bound the time

// A block's lines, which are neighbours in the page's order.
struct Block {
  std::vector<PdfLine> lines;
  PdfBox box;
  double height = 0;  // of its highest line
};

std::vector<Block> BlocksOf(PdfPage& page) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < page.lines.size(); ++i) {
    PdfLine& line = page.lines[i];
    if (blocks.empty() || line.block != blocks.back().lines.back().block) {
      blocks.push_back({{}, line.box, 0});
    }
    Block& block = blocks.back();
    block.box.Cover(line.box);
    block.height = std::max(block.height, line.box.Height());
    block.lines.push_back(std::move(line));
  }
  return blocks;
}

bool Overlap(const PdfBox& a, const PdfBox& b) { return a.x_min < b.x_max && b.x_min < a.x_max; }

// Whether most of a block's characters are letters, as in no formula or number.
bool IsOfLetters(const Block& block) {
  constexpr size_t kFewestLettersOfHeading = 4;
  LetterCounts letters;
  size_t num_characters = 0;
  for (const PdfLine& line : block.lines) {
    for (const PdfWord& word : line.words) {
      CountLetters(word.text, letters);
      num_characters += CodePoints(word.text).size();
    }
  }
  const size_t num_letters = letters.left_to_right + letters.right_to_left;
  return num_letters >= kFewestLettersOfHeading && 5 * num_letters >= 3 * num_characters;
}

// Whether another column of text stands beside a text, outside of the heading above that.
bool HasColumnBeside(const std::vector<Block>& blocks, const Block& heading, const Block& text,
                     double text_height) {
  constexpr double kNarrowestColumn = 5;  // in heights of the text
  return std::any_of(blocks.begin(), blocks.end(), [&](const Block& other) {
    return other.lines.size() > 1 && other.box.Width() >= kNarrowestColumn * text_height &&
           other.box.y_min < text.box.y_max && text.box.y_min < other.box.y_max &&
           !Overlap(other.box, text.box) && !Overlap(other.box, heading.box);
  });
}

// The block of text that the block at `at` is the heading of; nothing: it is none.
std::optional<size_t> TextBelow(const std::vector<Block>& blocks, size_t at, double text_height) {
  const Block& heading = blocks[at];
  if (heading.lines.size() > kMostLines || heading.height < kLargeLetters * text_height ||
      !IsOfLetters(heading)) {
    return std::nullopt;
  }
  std::optional<size_t> below;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const PdfBox& box = blocks[i].box;
    if (i == at || !Overlap(box, heading.box) || box.CenterY() < heading.box.y_max) continue;
    if (!below) {
      below = i;
      continue;
    }
    const PdfBox& best = blocks[*below].box;
    const bool is_level = std::abs(box.y_min - best.y_min) <= kSameTopOfBlocks * heading.height;
    if (is_level ? box.x_min < best.x_min : box.y_min < best.y_min) below = i;
  }
  if (!below) return std::nullopt;
  const Block& text = blocks[*below];
  const double gap = text.box.y_min - heading.box.y_max;
  const bool begins_level =
      std::abs(text.box.x_min - heading.box.x_min) <= kLevelWithText * text_height;
  const bool is_above = text.box.x_min <= heading.box.x_min && heading.box.x_max <= text.box.x_max;
  const bool is_text = text.height * kLargeLetters <= heading.height && text.lines.size() > 1;
  const bool is_heading =
      is_text && gap <= kGapBelow * heading.height && (begins_level || is_above);
  return is_heading && HasColumnBeside(blocks, heading, text, text_height) ? below : std::nullopt;
}

}  // namespace

void MoveHeadings(PdfPage& page) {
  if (page.lines.size() < 3) return;
  const double text_height = MedianLineHeight(page);
  std::vector<Block> blocks = BlocksOf(page);
  std::vector<std::vector<size_t>> headings(blocks.size());  // of each block, in their order
  size_t num_looked = 0;
  for (size_t i = 0; i < blocks.size() && num_looked < kMostHeadings; ++i) {
    if (blocks[i].height < kLargeLetters * text_height) continue;
    ++num_looked;
    if (const auto below = TextBelow(blocks, i, text_height)) headings[*below].push_back(i);
  }
  std::vector<uint8_t> is_moved(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t size = headings[i].size();
    bool is_in_place = size <= i;
    for (size_t k = 0; k < size && is_in_place; ++k) is_in_place = headings[i][k] == i - size + k;
    if (is_in_place) headings[i].clear();
    for (const size_t heading : headings[i]) is_moved[heading] = 1;
  }
  page.lines.clear();
  // The text of a heading may be the heading of another text, further down the page.
  const auto append = [&](const auto& again, size_t i) -> void {
    for (const size_t heading : headings[i]) again(again, heading);
    page.lines.insert(page.lines.end(), std::make_move_iterator(blocks[i].lines.begin()),
                      std::make_move_iterator(blocks[i].lines.end()));
  };
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (is_moved[i] == 0) append(append, i);
  }
}

}  // namespace lectern::tools
