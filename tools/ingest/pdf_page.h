// One page of a PDF as pdftotext sees it: words with their places. bbox_text.h fills it,
// page_layout.h reads it.
#ifndef LECTERN_TOOLS_INGEST_PDF_PAGE_H_
#define LECTERN_TOOLS_INGEST_PDF_PAGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lectern::tools {

// A rectangle on the page, in points (1/72 inch); x grows to the right, y grows downwards. Numbers
// are finite; a hostile page may have x_max < x_min.
struct PdfBox {
  double x_min = 0, y_min = 0, x_max = 0, y_max = 0;

  double Width() const { return x_max - x_min; }
  double Height() const { return y_max - y_min; }
  double CenterY() const { return (y_min + y_max) / 2; }
  void Cover(const PdfBox& other) {
    x_min = std::min(x_min, other.x_min);
    y_min = std::min(y_min, other.y_min);
    x_max = std::max(x_max, other.x_max);
    y_max = std::max(y_max, other.y_max);
  }
};

struct PdfWord {
  std::string
      text;  // valid UTF-8, in visual order (from left to right), without control characters
  PdfBox box;
};

// Words that pdftotext found on one line, from left to right; at least one.
struct PdfLine {
  std::vector<PdfWord> words;
  PdfBox box;
  size_t block = 0;  // its index in PdfPage::blocks
  // The column of a section (column_sections.h) that it stands in, else 0: no table has lines of
  // two areas.
  size_t area = 0;
  bool is_entry = false;  // of a table of contents (leader_lines.h): a line of its own
};

struct PdfPage {
  uint64_t number = 0;  // counts from 1
  double width = 0, height = 0;
  std::vector<PdfBox> blocks;  // paragraphs and columns, as pdftotext found them
  std::vector<PdfLine> lines;  // in pdftotext's reading order; lines of a block are neighbours
  size_t num_words = 0;        // in all lines
  size_t num_characters = 0;
  size_t num_unmapped = 0;  // of them: without a Unicode value
  size_t num_controls = 0;  // of them: control characters, which are glyph numbers most likely
  size_t num_rare_signs = 0;  // of them: ASCII signs that texts have few of: quotes, brackets, $ …
  size_t num_sign_words = 0;  // of them: in words of four different signs and more, such as !"#$%
};

// The height in points that half of the page's lines have at most; it has one line or more.
inline double MedianLineHeight(const PdfPage& page) {
  std::vector<double> heights;
  for (const PdfLine& line : page.lines) heights.push_back(line.box.Height());
  const auto middle = heights.begin() + static_cast<ptrdiff_t>(heights.size() / 2);
  std::nth_element(heights.begin(), middle, heights.end());
  return *middle;
}

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_PDF_PAGE_H_
