// Tells in how many columns a table's cell is said that spans several, for office files.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_SPANNED_COLUMNS_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_SPANNED_COLUMNS_H_

#include <cstddef>
#include <map>
#include <vector>

namespace lectern::tools {

// The columns of one table. A cell that spans several is said in each of them, so that a group's
// name stands over all of its columns. In forms and invoices the cells of each row begin somewhere
// else, and a column is only what one row needs: there a cell would be said ten times. So a column
// counts where at least half of the rows begin a cell.
class SpannedColumns {
 public:
  // The columns at which the cells of a row begin, ascending. A row of one cell does not count.
  void AddRow(const std::vector<int>& begins);
  // In how many columns a cell is said that stands at `column` and spans `width`, at least 1.
  int WidthOf(int column, int width) const;

 private:
  std::map<int, size_t> num_begins_;  // by column: rows that begin a cell there
  size_t num_rows_ = 0;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_SPANNED_COLUMNS_H_
