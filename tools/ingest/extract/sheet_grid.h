// Writes the rows of Excel's sheets, for the readers of .xlsx and .xls: what merged cells say in
// each row, and which rows and columns are left out because they are hidden.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_SHEET_GRID_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_SHEET_GRID_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/ingest/extract/sheet_rows.h"

namespace lectern::tools {

// A block of cells, from 0, with its last row and column.
struct CellArea {
  uint32_t first_row = 0, last_row = 0, first_column = 0, last_column = 0;
};

// The parts of a workbook that are not read.
struct SheetsLeftOut {
  std::vector<std::string> sheets;
  HiddenCells cells;
  uint64_t num_empty_formulas = 0, num_comments = 0;

  std::string Note() const;
};

class SheetGrid {
 public:
  // `merged`: cells that go on over rows and columns; they do not overlap. `is_filtered`: rows may
  // be hidden by a filter. `hidden` gets what is left out.
  SheetGrid(const std::vector<CellArea>& merged, bool is_filtered, HiddenCells& hidden,
            TextBuilder& writer);

  // Writes the next row; `at` ascends, and rows that are left out are empty: a thousand of them end
  // a table like one. `is_hidden`: by hand.
  void AddRow(uint32_t at, std::map<uint32_t, SheetCell> cells, bool is_hidden);
  // Call it once, behind the last row.
  void End();
  uint32_t next_row() const { return next_row_; }

 private:
  struct Merged {
    uint32_t first_row, last_row;
    std::string text;
    bool is_text = true;
  };
  void FillMerged(uint32_t at, std::map<uint32_t, SheetCell>& cells);

  const bool is_filtered_;
  HiddenCells& hidden_;
  SheetRows rows_;
  std::map<uint32_t, std::vector<Merged>> merged_;               // by column, by ascending row
  std::multimap<uint32_t, std::pair<uint32_t, uint32_t>> wide_;  // columns, by the area's first row
  uint32_t next_row_ = 0;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_SHEET_GRID_H_
