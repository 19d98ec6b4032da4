// Divides the lines of a table on a page into its rows: the further lines of wrapped cells are
// joined to the row that they belong to. table_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_TABLE_ROWS_H_
#define LECTERN_TOOLS_INGEST_TABLE_ROWS_H_

#include <vector>

#include "tools/ingest/table_layout.h"

namespace lectern::tools {

// Whether wider gaps part the rows of a table from the lines of its cells. `lines` are the cells of
// each line that is seen on the page, the same number in each.
bool HasRowGaps(const std::vector<std::vector<TableCell>>& lines);

// Lines of cells, divided into rows.
struct RowDivision {
  std::vector<std::vector<TableCell>> rows;
  // The sum of all that speaks against the division: cells that are cut in their middle, and texts
  // of two cells in one. Near 0 for a table; texts beside each other that are none have 1 or more
  // for each paragraph.
  double doubt = 0;
};

// Returns the division with the least doubt. Whether a cell goes on in the next line is told by the
// gap between them, by whether the next word would have fitted into the line above, and by capitals
// and full stops; a row has one text in each column. So cells may be aligned at the top or in the
// middle. Time is proportional to the number of cells. Any thread.
RowDivision DivideIntoRows(const PdfPage& page, const std::vector<std::vector<TableCell>>& lines);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_TABLE_ROWS_H_
