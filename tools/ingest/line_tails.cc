#include "tools/ingest/line_tails.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

namespace lectern::tools {
namespace {

constexpr double kTailLevel = 0.2;     // between two baselines that are one, in heights
constexpr double kTailLikeness = 0.2;  // of two heights, relative
constexpr double kTailGap = 3;         // between a line and its tail, in heights, at least
constexpr double kTailEdge = 1.5;      // points between right edges that are one
constexpr size_t kTailBytes = 32, kTailWords = 6;
constexpr size_t kTailNeighbours = 6;  // lines above and below that are looked at

bool MayBeTail(const PdfPage& page, const PdfLine& line) {
  size_t num_bytes = 0;
  for (const PdfWord& word : line.words) num_bytes += word.text.size();
  return !line.is_entry && line.words.size() <= kTailWords && num_bytes <= kTailBytes &&
         line.box.x_min > page.width / 2;
}

bool AreLevel(const PdfLine& a, const PdfLine& b) {
  const double height = std::max(a.box.Height(), b.box.Height());
  return std::abs(a.box.y_max - b.box.y_max) <= kTailLevel * height &&
         std::abs(a.box.Height() - b.box.Height()) <= kTailLikeness * height;
}

// Whether two lines overlap in height, so that they stand beside each other.
bool AreBeside(const PdfLine& a, const PdfLine& b) {
  return a.box.y_min < b.box.CenterY() && b.box.CenterY() < a.box.y_max;
}

// The only line beside a tail, of another block or the one before it; page.lines.size(): there is
// none, or several.
size_t LineOfTail(const PdfPage& page, const std::vector<size_t>& by_y, size_t at) {
  const PdfLine& tail = page.lines[by_y[at]];
  size_t found = page.lines.size();
  for (size_t i = at < kTailNeighbours ? 0 : at - kTailNeighbours;
       i < std::min(by_y.size(), at + kTailNeighbours + 1); ++i) {
    const PdfLine& line = page.lines[by_y[i]];
    if (i == at || !AreBeside(tail, line)) continue;
    const bool is_before = tail.box.x_min - line.box.x_max >= kTailGap * tail.box.Height();
    if (found < page.lines.size() || !is_before || line.is_entry || !AreLevel(tail, line) ||
        (line.block == tail.block && by_y[i] + 1 != by_y[at]) || line.area != tail.area) {
      return page.lines.size();
    }
    found = by_y[i];
  }
  return found;
}

}  // namespace

std::vector<LineTail> TailsOf(const PdfPage& page) {
  std::vector<size_t> by_y(page.lines.size()), lines_of_block(page.blocks.size());
  for (size_t i = 0; i < by_y.size(); ++i) {
    by_y[i] = i;
    ++lines_of_block[page.lines[i].block];
  }
  std::sort(by_y.begin(), by_y.end(), [&](size_t a, size_t b) {
    return std::pair(page.lines[a].box.y_max, a) < std::pair(page.lines[b].box.y_max, b);
  });
  // The right edge of the page's text.
  double edge = 0;
  for (const PdfLine& line : page.lines) edge = std::max(edge, line.box.x_max);
  std::vector<LineTail> tails;
  std::vector<size_t> tails_of_block(page.blocks.size());
  for (size_t at = 0; at < by_y.size(); ++at) {
    const PdfLine& tail = page.lines[by_y[at]];
    if (edge - tail.box.x_max > kTailEdge || !MayBeTail(page, tail)) continue;
    const size_t line = LineOfTail(page, by_y, at);
    if (line == page.lines.size()) continue;
    tails.push_back({by_y[at], line});
    ++tails_of_block[tail.block];
  }
  std::erase_if(tails, [&](const LineTail& tail) {
    const size_t block = page.lines[tail.tail].block;
    return block != page.lines[tail.line].block && tails_of_block[block] < lines_of_block[block];
  });
  if (tails.size() < 2) tails.clear();
  return tails;
}

void JoinTails(const std::vector<LineTail>& tails, const std::vector<bool>& is_taken,
               PdfPage& page) {
  std::vector<uint8_t> is_moved(page.lines.size());
  for (const auto& [tail, line] : tails) {
    if (is_taken[tail] || is_taken[line] || is_moved[line] != 0) continue;
    PdfLine& whole = page.lines[line];
    const PdfLine& end = page.lines[tail];
    whole.words.insert(whole.words.end(), end.words.begin(), end.words.end());
    whole.box.x_max = std::max(whole.box.x_max, end.box.x_max);
    whole.is_entry = true;
    is_moved[tail] = 1;
  }
  size_t at = 0;
  std::erase_if(page.lines, [&](const PdfLine&) { return is_moved[at++] != 0; });
}

}  // namespace lectern::tools
