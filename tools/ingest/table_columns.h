// The columns of a table: the empty strips between them, and whether texts that stand in columns
// are a table at all. table_layout.cc uses it, and what else reads columns.
#ifndef LECTERN_TOOLS_INGEST_TABLE_COLUMNS_H_
#define LECTERN_TOOLS_INGEST_TABLE_COLUMNS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ingest/table_layout.h"

namespace lectern::tools {

// An empty strip of the page between two columns, in points from the left.
struct Strip {
  double begin = 0, end = 0;
};

// The gaps between neighbouring runs, which are sorted by x_min, that are at least `min_width`
// wide.
std::vector<Strip> StripsOf(const std::vector<WordRun>& runs, double min_width);

// All that runs leave free, from the left edge of the page to the right one, ascending.
std::vector<Strip> FreeStrips(const std::vector<WordRun>& runs);

// The parts that two ascending lists share, at least `min_width` wide.
std::vector<Strip> IntersectStrips(const std::vector<Strip>& a, const std::vector<Strip>& b,
                                   double min_width);

// The column of a box: the number of strips to the left of its centre.
size_t ColumnOf(const PdfBox& box, const std::vector<Strip>& strips);

// Whether a text looks like a number: "12", "1,234.50", "-3 %", "€5", "2019-2020", "12:30",
// "12 kg". It has an ASCII digit, at most three ASCII letters, fewer than two of them for each
// digit, and at most three bytes for each digit and four more. Other scripts count as bytes alone.
bool LooksLikeNumber(std::string_view text);

// Whether a text has dot leaders, as a line of a table of contents has.
bool HasLeaders(std::string_view text);

// Returns how many words a reader counts in a word of `PdfPage`, which stands between two gaps: a
// word of Han or kana has about two characters, one of Thai about four. At least 1. Any thread.
size_t NumRead(const std::string& word);

// The words of a cell, joined by spaces, as pdftotext printed them.
std::string CellText(const PdfPage& page, const TableCell& cell);

// Facts about the page that help to tell a table.
struct TableSigns {
  bool has_row_gaps = false;      // wider gaps part the rows from the lines of their cells
  bool is_among_leaders = false;  // the page has lines of a table of contents
};

enum class Arrangement {
  kNone,     // lines of prose, of a list, of program text, by chance above each other
  kRows,     // a table
  kColumns,  // texts beside each other that are read one after the other: two addresses
};

// How lines of cells are to be read. `lines` has the same number of cells, at least two, in each
// line.
Arrangement Arrange(const PdfPage& page, const std::vector<std::vector<TableCell>>& lines,
                    const TableSigns& signs);

// Returns the middle of the empty strip between two columns of prose that run down most of a page;
// nothing: the page, given by the runs of each of its visual rows, has none.
std::optional<double> ProseGutter(const std::vector<std::vector<WordRun>>& rows);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_TABLE_COLUMNS_H_
