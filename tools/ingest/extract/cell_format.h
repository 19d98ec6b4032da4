// Writes the numbers of Excel's cells as the sheet shows them: dates, shares, amounts
// (ECMA-376 part 1, 18.8.30 and 18.8.31).
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_CELL_FORMAT_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_CELL_FORMAT_H_

#include <string>
#include <string_view>

namespace lectern::tools {

struct CellFormat {
  enum class Kind { kGeneral, kNumber, kDate, kTime, kDateTime, kDuration };
  Kind kind = Kind::kGeneral;
  int min_decimals = 0, max_decimals = 0;  // of a number
  int min_digits = 0;     // of a number before the point: "00000" shows 1234 as 01234
  int num_thousands = 0;  // how often a number is divided by 1,000: "0.0,," shows millions
  bool is_percent = false;
  std::string prefix = {}, suffix = {};  // of a number: a currency or a unit
};

// Reads a format's code, such as "#,##0.00\ [$€-407]" or "dd/mm/yyyy"; its first section counts.
CellFormat ParseCellFormat(std::string_view code);
// The format of a number below 164 that needs no code; general for those that have none.
CellFormat BuiltInCellFormat(int id);

// Writes a value. Dates are ISO 8601 ("2024-05-17", "2024-05-17 09:30"), numbers have a point and
// nothing between thousands. `is_1904`: days count from 1904, as in old files of the Mac.
std::string FormatCell(double value, const CellFormat& format, bool is_1904);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_CELL_FORMAT_H_
