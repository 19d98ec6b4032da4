// Recognises running heads, page numbers and watermarks in a PDF: lines that come again at the same
// place of many pages. document_text.h uses it.
#ifndef LECTERN_TOOLS_INGEST_RECURRING_LINES_H_
#define LECTERN_TOOLS_INGEST_RECURRING_LINES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lectern::tools {

// A line that was left out of the text, with its pages.
struct RecurringLine {
  std::string text;        // as on the first of these pages; UTF-8
  uint64_t num_pages = 0;  // on which it is, numbers apart; at least 3
};

// Where a line stands that may recur.
struct LinePlace {
  uint64_t text_hash = 0;  // HashOfRow, or HashWithoutNumbers
  uint64_t page = 0;
  float x = 0, y = 0;  // of its centre, in points
  size_t line = 0;      // the caller's index
  bool is_page_number = false;
};

// A hash of `text` in which each number, and a text that is a Roman numeral alone, counts as the
// same sign. Never 0.
uint64_t HashWithoutNumbers(std::string_view text);

// The hash by which a row of a margin recurs. A row that is a number alone is a page number if it
// counts with the pages: the hash is that of its distance to `page`, and is_page_number is set.
uint64_t HashOfRow(std::string_view text, uint64_t page, bool& is_page_number);

// Returns groups of the indices of `places` that recur: the same hash at the same height of the page
// (within 4 points) on at least 3 pages, and on at least 35 of 100 pages from the first of them to
// the last, without 8 pages between two of them (a running head of even pages is on half of them;
// page numbers may be rarer). If `same_x` they must also have the same x. Each group ascends by
// page. Time: that of sorting. Any thread.
std::vector<std::vector<size_t>> FindRecurring(const std::vector<LinePlace>& places, bool same_x);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_RECURRING_LINES_H_
