// Writes the rows of spreadsheets and of CSV files. Each row repeats the names of its columns
// ("Product: Beta valve | Price: 45 EUR"), so that a passage of one row can be understood alone.
// Measured on python3-odf's countrystatistics.ods (27 rows, 28 questions, the released reader,
// exact attention): 9 answers right, against 1 with the names in the first row alone.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_SHEET_ROWS_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_SHEET_ROWS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/ingest/extract/text_builder.h"

namespace lectern::tools {

struct SheetCell {
  uint32_t column = 0;  // from 0
  std::string text;
  bool is_text = true;     // neither a number nor a date
  bool is_merged = false;  // one of several columns that one cell spans, and all of which say it
  bool is_repeat = false;  // one of them behind the first
};

// One sheet's rows. A table ends with an empty row, and its first row of several cells names the
// columns, unless it looks like the others: names are short texts, years or days, no cell below
// repeats its name, and neighbours differ. A name may stand twice where a number below tells that
// the row is one of names. With two columns, every second cell below must be a number too:
// otherwise each row is a name and its value. Behind rows that cannot be names, or only could, a
// row of three texts with a number right below one of them is the row of names. A table after an
// empty row, in the same columns and without names of its own, goes on with the names of the one
// before. Names in two rows become one, "2024 Q1", where the upper one has merged cells, or two or
// more groups with empty cells behind them over names of their own.
class SheetRows {
 public:
  explicit SheetRows(TextBuilder& writer) : writer_(writer) {}
  // The next row: its cells by ascending column. Cells without text do not count.
  void Add(std::vector<SheetCell> cells);
  // Writes the rows that still wait; call it once, at the sheet's end.
  void End();
  // Whether names of columns were taken from a first row although no number below tells that it is
  // none of the values.
  bool has_guessed() const { return has_guessed_; }

 private:
  using Row = std::vector<SheetCell>;
  enum class Header { kNone, kGuessed, kCertain };
  void Decide();
  static bool SpreadGroups(const Row& names, Row& groups);
  void CombineNames();
  void Write(const Row& row);
  static Header Judge(const Row& names, const std::vector<Row>& rows, size_t first);
  size_t FindNames(Header& header) const;
  bool FitsColumns(size_t first) const;

  TextBuilder& writer_;
  std::vector<Row> waiting_;               // the table's first rows, until its header is known
  std::map<uint32_t, std::string> names_;  // by column; empty: the table has none
  bool is_decided_ = false, has_guessed_ = false;
};

// Says a cell that spans the columns up to `last` in each of them, if the row, by column, has
// another cell. No more than 50 columns or 100 bytes: others are titles or remarks.
void FillColumns(uint32_t column, uint32_t last, std::map<uint32_t, SheetCell>& row);

// Columns of a sheet that are hidden, and how many rows and columns were left out for that.
class HiddenCells {
 public:
  // Columns from `first` to `last`, from 0; those of a file ascend.
  void AddColumns(uint32_t first, uint32_t last) { columns_.emplace_back(first, last); }
  void AddRow() { ++num_rows_; }
  // Takes the cells of hidden columns out of a row.
  void TakeOut(std::vector<SheetCell>& cells);
  // "3 hidden rows and 1 hidden column are left out"; empty: nothing was. Of all sheets until now.
  std::string Note() const;
  void EndSheet();

 private:
  std::vector<std::pair<uint32_t, uint32_t>> columns_;
  std::set<uint32_t> used_;  // hidden columns with cells, of this sheet
  uint64_t num_rows_ = 0, num_columns_ = 0;
};

// Whether a text is a number, an amount, a share or a date written in digits.
bool CellLooksLikeNumber(std::string_view text);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_SHEET_ROWS_H_
