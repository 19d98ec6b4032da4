// Finds the rows of a page that share empty strips, and may therefore be a table, and those strips.
// table_layout.cc alone uses it.
#ifndef LECTERN_TOOLS_INGEST_TABLE_REGION_H_
#define LECTERN_TOOLS_INGEST_TABLE_REGION_H_

#include <cstddef>
#include <vector>

#include "tools/ingest/pdf_page.h"
#include "tools/ingest/table_columns.h"
#include "tools/ingest/table_layout.h"

namespace lectern::tools {

// In heights of a line, which are about 1.2 times the font's size: the gap between words of
// different cells, at least.
inline constexpr double kCellGap = 0.62;
inline constexpr size_t kMaxColumns = 64;  // of a table

// Lines that stand beside each other.
struct VisualRow {
  std::vector<WordRun> runs;   // by x_min
  std::vector<WordRun> words;  // likewise, each alone
  PdfBox box;
  double height = 0;  // of its highest run
};

// Rows [begin, end) with common empty strips, and those strips.
struct Region {
  size_t begin = 0, end = 0;
  std::vector<Strip> strips;
  double left = 0;  // where the texts of its rows begin
};

// Returns the rows from `begin` on that are a table perhaps. Its strips are those of the first row,
// or of the second one if a head is set more tightly, and those between a column of numbers,
// aligned at the right, and one that is aligned at the left, which may be as narrow as a space. Any
// thread.
Region GrowRegion(const PdfPage& page, const std::vector<VisualRow>& rows, size_t begin);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_TABLE_REGION_H_
