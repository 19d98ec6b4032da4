// Recognises running heads, page numbers and watermarks in a PDF: lines that come again at the same
// place of many pages. document_text.h uses it.
#ifndef LECTERN_TOOLS_INGEST_RECURRING_LINES_H_
#define LECTERN_TOOLS_INGEST_RECURRING_LINES_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lectern::tools {

inline constexpr size_t kMinRecurringPages = 3;

// A line that was left out of the text, with its pages.
struct RecurringLine {
  std::string text;        // as on the first of these pages; UTF-8
  uint64_t num_pages = 0;  // on which it is, page numbers apart; at least 3
};

// Hashes by which a line recurs: of its whole text, and with one of its numbers (the first three
// and the last three) replaced by its distance to the page's number, so that only a number that
// counts with the pages ("Chapter 2: The Repository 9") is no difference. Numbers are decimal, or
// Roman as words of their own in small letters. 0: the line has no such number.
struct RowHashes {
  uint64_t whole = 0;
  std::array<uint64_t, 6> with_distance = {};
  bool is_number = false;  // it is a number alone
};
RowHashes HashesOf(std::string_view text, uint64_t page);

// A line that may recur.
struct LinePlace {
  uint64_t hash = 0;  // one of RowHashes
  uint64_t page = 0;
  float x = 0, y = 0;  // of its centre, in points
  size_t row = 0;      // the caller's index
  bool is_number = false;
  // The page's first or last line, in letters like the text's. Others are part of a head only if
  // they are on most pages: "Parameters" may begin the text of three pages by chance.
  bool is_likely = false;
};

// Returns groups of the indices of `places` that recur: the same hash at the same height of the
// page (within 4 points) on at least 3 pages, and on at least 35 of 100 pages from the first of
// them to the last (a running head of even pages is on half of them), without 8 pages between two
// of them. Page numbers may be rarer; lines that are not likely must be on 60 of 100 of the
// `num_pages` pages of the document. If `same_x` they must also have the same x. Each group ascends
// by page. Time: that of sorting. Any thread.
std::vector<std::vector<size_t>> FindRecurring(const std::vector<LinePlace>& places,
                                               uint64_t num_pages, bool same_x);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_RECURRING_LINES_H_
