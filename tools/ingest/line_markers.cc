#include "tools/ingest/line_markers.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tools/ingest/characters.h"
#include "tools/ingest/letter_forms.h"

namespace lectern::tools {
namespace {

// In heights of the marker's line.
constexpr double kMaxMarkerGap = 4;    // between a marker and its text
constexpr double kMarkerLevel = 0.25;  // between their baselines
constexpr double kLikeness = 0.3;      // of their heights
constexpr double kBulletLikeness = 0.5;  // the same for bullets, which have fonts of their own
// A number without a stop, in heights of its line: between its box and that of the heading behind
// it, which is in the same font; between both, as a space of a heading is an em or less.
constexpr double kSameBox = 0.05, kHeadingGap = 1.5;
// A note's mark, in heights of the line that it belongs to: its own height, between their tops, and
// between both.
constexpr double kMostMark = 0.85, kMarkTop = 0.25, kMarkGap = 0.5;
constexpr double kNoteHeight = 0.93;  // the height of a note's text in that of the page's, at most

// "3", "11.4.6", "A.2".
bool IsSectionNumber(std::string_view word) {
  if (word.empty() || word.size() > 12 || word == "." || word.front() == '.') return false;
  if (!IsAsciiDigit(word[0]) && (word.size() < 3 || word[1] != '.' || !IsAsciiLetter(word[0]))) {
    return false;
  }
  return word.find('.') != std::string_view::npos &&
         std::all_of(word.begin() + 1, word.end(),
                     [](char c) { return IsAsciiDigit(c) || c == '.'; });
}

// "2": a number of one or two digits without a stop.
bool IsPlainNumber(std::string_view word) {
  return !word.empty() && word.size() <= 2 && word[0] != '0' &&
         std::all_of(word.begin(), word.end(), IsAsciiDigit);
}

bool IsNoteMark(std::string_view word) {
  return IsPlainNumber(word) || word == "*" || word == "∗" || word == "†" || word == "‡" ||
         word == "§";
}

int CategoryOfFirst(const PdfLine& line) {
  const std::vector<uint32_t> first = CodePoints(line.words.front().text.substr(0, 4));
  return first.empty() ? UTF8PROC_CATEGORY_CN
                       : utf8proc_category(static_cast<utf8proc_int32_t>(first.front()));
}

// Whether a line stands behind a number as its heading does: in the same font, near it, with a
// capital at its start.
bool IsNumberedHeading(const PdfLine& line, const PdfLine& text) {
  const double height = line.box.Height(), gap = text.box.x_min - line.box.x_max;
  return gap > 0 && gap <= kHeadingGap * height && text.box.Width() > text.box.Height() &&
         std::abs(text.box.y_min - line.box.y_min) <= kSameBox * height &&
         std::abs(text.box.y_max - line.box.y_max) <= kSameBox * height &&
         CategoryOfFirst(text) == UTF8PROC_CATEGORY_LU;
}

// Whether a line is the text of the note that a raised mark stands before: it begins with a
// capital, or is set in small letters, `text_height` being that of the page's text.
bool IsNoteOf(const PdfBox& mark, const PdfLine& text, double text_height) {
  const double height = text.box.Height(), gap = text.box.x_min - mark.x_max;
  const int first = CategoryOfFirst(text);
  const bool begins_note = first == UTF8PROC_CATEGORY_LU ||
                           (first == UTF8PROC_CATEGORY_LL && height <= kNoteHeight * text_height);
  return begins_note && mark.Height() <= kMostMark * height && gap > -0.1 * height &&
         gap <= kMarkGap * height && std::abs(text.box.y_min - mark.y_min) <= kMarkTop * height &&
         text.box.Width() > text.box.Height();
}

// The line behind a number or mark whose text has no stop; page.lines.size(): none.
size_t TextOfNumber(const PdfPage& page, const std::vector<size_t>& by_y, size_t at,
                    double text_height) {
  constexpr size_t kNeighbours = 12;  // as below
  const PdfLine& line = page.lines[by_y[at]];
  const std::string& word = line.words.front().text;
  for (size_t i = at < kNeighbours ? 0 : at - kNeighbours;
       i < std::min(by_y.size(), at + kNeighbours); ++i) {
    const PdfLine& text = page.lines[by_y[i]];
    if (i == at || text.block == line.block) continue;
    if (IsPlainNumber(word) && IsNumberedHeading(line, text)) return by_y[i];
    if (IsNoteMark(word) && IsNoteOf(line.box, text, text_height)) return by_y[i];
  }
  return page.lines.size();
}

// The index of the line that a marker belongs to; page.lines.size(): none.
size_t TextOfMarker(const PdfPage& page, const std::vector<size_t>& by_y, size_t at) {
  const PdfLine& line = page.lines[by_y[at]];
  const PdfBox& marker = line.box;
  const double height = marker.Height();
  const bool is_bullet =
      !IsSectionNumber(line.words.front().text) && !IsAsciiDigit(line.words.front().text.front());
  const double likeness = is_bullet ? kBulletLikeness : kLikeness;
  size_t found = page.lines.size();
  double nearest = kMaxMarkerGap * height;
  const auto consider = [&](size_t i) {
    const PdfBox& box = page.lines[i].box;
    const double gap = box.x_min - marker.x_max;
    if (gap < 0 || gap > nearest || std::abs(box.y_max - marker.y_max) > kMarkerLevel * height ||
        std::abs(box.Height() - height) > likeness * height) {
      return;
    }
    nearest = gap;
    found = i;
  };
  // Lines at the same height are few; hostile pages have many, so a dozen on each side is enough.
  constexpr size_t kNeighbours = 12;
  for (size_t i = at < kNeighbours ? 0 : at - kNeighbours;
       i < std::min(by_y.size(), at + kNeighbours); ++i) {
    if (i != at) consider(by_y[i]);
  }
  return found;
}

}  // namespace

bool IsListMarker(std::string_view text) {
  constexpr std::string_view kBullets[] = {"•", "\xEF\x82\xB7" /* U+F0B7: Symbol's bullet */,
                                           "–", "—",
                                           "-", "*",
                                           "◦", "▪",
                                           "·", "∙",
                                           "►", "➢",
                                           "o", "‣",
                                           "■", "□",
                                           "●", "○"};
  for (const std::string_view bullet : kBullets) {
    if (text == bullet) return true;
  }
  const bool is_closed = text.ends_with('.') || text.ends_with(')') || text.ends_with(']');
  if (!is_closed || text.size() > 6) return false;
  text.remove_suffix(1);
  if (text.starts_with('(') || text.starts_with('[')) text.remove_prefix(1);
  if (text.size() == 1 && IsAsciiLetter(text[0])) return true;
  const auto consists_of = [&](std::string_view set) {
    return !text.empty() && text.find_first_not_of(set) == std::string_view::npos;
  };
  return consists_of("0123456789.") || consists_of("ivxlc") || consists_of("IVXLC");
}

void JoinMarkers(PdfPage& page) {
  std::vector<size_t> lines_of_block(page.blocks.size()), markers_of_block(page.blocks.size());
  for (const PdfLine& line : page.lines) {
    ++lines_of_block[line.block];
    markers_of_block[line.block] += line.words.size() == 1 && IsListMarker(line.words.front().text);
  }
  std::vector<size_t> by_y(page.lines.size());
  for (size_t i = 0; i < by_y.size(); ++i) by_y[i] = i;
  std::sort(by_y.begin(), by_y.end(), [&](size_t a, size_t b) {
    return std::pair(page.lines[a].box.y_max, a) < std::pair(page.lines[b].box.y_max, b);
  });
  const double text_height = page.lines.empty() ? 0 : MedianLineHeight(page);
  std::vector<uint8_t> is_moved(page.lines.size());
  for (size_t at = 0; at < by_y.size(); ++at) {
    const PdfLine& marker = page.lines[by_y[at]];
    if (marker.words.size() != 1) continue;
    const std::string& word = marker.words.front().text;
    const bool is_marker = IsSectionNumber(word) || IsListMarker(word);
    if (!is_marker && !IsNoteMark(word)) continue;
    // pdftotext takes the markers of a list's items for a column, hence for one block.
    const bool is_column = markers_of_block[marker.block] == lines_of_block[marker.block];
    if (lines_of_block[marker.block] != 1 && !is_column) continue;
    size_t text = is_marker ? TextOfMarker(page, by_y, at) : page.lines.size();
    if (text == page.lines.size() && lines_of_block[marker.block] == 1 && IsNoteMark(word))
      text = TextOfNumber(page, by_y, at, text_height);
    // A marker beside a marker: both may be cells of a table.
    if (text == page.lines.size() || is_moved[text] != 0) continue;
    PdfLine& line = page.lines[text];
    const bool is_first = text == 0 || page.lines[text - 1].block != line.block;
    const bool is_item = is_column && IsListMarker(word);
    if (!(is_first || is_item) || line.words.front().text.size() < 2) continue;
    line.words.insert(line.words.begin(), marker.words.front());
    // A raised mark makes its line no higher: notes are told by their small letters.
    const PdfBox whole = line.box;
    line.box.Cover(marker.box);
    if (!is_marker) {
      line.box.y_min = whole.y_min;
      line.box.y_max = whole.y_max;
    }
    is_moved[by_y[at]] = 1;
  }
  std::vector<PdfLine> lines;
  lines.reserve(page.lines.size());
  for (size_t i = 0; i < page.lines.size(); ++i) {
    if (is_moved[i] == 0) lines.push_back(std::move(page.lines[i]));
  }
  page.lines = std::move(lines);
}

}  // namespace lectern::tools
