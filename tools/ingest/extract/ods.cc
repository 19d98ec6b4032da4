// OpenDocument spreadsheets (.ods, .ots), read row by row.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/ingest/extract/odf_text.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/extract/sheet_rows.h"

namespace lectern::tools {
namespace {

constexpr int kMostColumns = 16384;
// Copies of a cell or row with text that are written; files say how often the last one is repeated,
// up to the end of the sheet.
constexpr int kMostCopies = 100;

// A cell's text: dates in ISO 8601, the rest as the sheet shows it.
SheetCell CellOf(XmlNode node) {
  SheetCell cell;
  const std::string_view type = node.Attribute("value-type");
  cell.is_text = type.empty() || type == "string" || type == "boolean";
  if (type == "date") {
    cell.text = node.Attribute("date-value");
    if (cell.text.ends_with("T00:00:00")) cell.text.resize(cell.text.size() - 9);
    std::replace(cell.text.begin(), cell.text.end(), 'T', ' ');
    constexpr size_t kWithSeconds = 19;
    if (cell.text.size() == kWithSeconds && cell.text.ends_with(":00")) cell.text.resize(16);
    return cell;
  }
  for (const XmlNode paragraph : node) {
    if (paragraph.name() != "p") continue;
    if (!cell.text.empty()) cell.text += ' ';
    std::string text;
    for (const XmlNode part : paragraph) {
      if (part.is_text()) {
        text += part.text();
      } else if (part.name() == "s" || part.name() == "line-break") {
        text += ' ';
      } else if (part.name() != "annotation") {
        AppendAllText(part, text);
      }
    }
    AppendInline(text, cell.text);
  }
  if (cell.text.empty()) cell.text = node.Attribute("value");
  return cell;
}

// Whether a row or column is hidden by hand: those that a filter or a closed group hides are a
// click away, and read.
bool IsHiddenByHand(XmlNode node) {
  if (node.Attribute("visibility") != "collapse") return false;
  for (XmlNode group = node.parent(); group; group = group.parent()) {
    if (group.Attribute("display") == "false") return false;
  }
  return true;
}

class SheetsReader {
 public:
  // `parts`: of the file.
  explicit SheetsReader(const ZipParts& parts) : parts_(parts) {}

  api::Result<Extracted> Read(const std::string& xml) {
    XmlStream stream(xml, "content.xml");
    for (bool goes_on = stream.Next(); goes_on;) {
      const std::string_view name = stream.name();
      if (name == "table") BeginSheet(stream.current());
      if (name == "table-column") Column(stream.current());
      const bool is_skipped = name == "tracked-changes" || name == "forms" || name == "dde-links" ||
                              name == "content-validations" || (name == "table" && is_hidden_);
      if (name == "automatic-styles") {
        styles_.AddGroup(stream.Expand());
        goes_on = stream.Skip();
      } else if (name == "shapes") {
        if (rows_) Shapes(stream.Expand());
        goes_on = stream.Skip();
      } else if (name == "table-row" && rows_) {
        Row(stream.Expand());
        goes_on = stream.Skip();
      } else {
        goes_on = is_skipped ? stream.Skip() : stream.Next();
      }
    }
    EndSheet();
    if (stream.has_failed()) return stream.error();
    hidden_cells_.EndSheet();
    std::string note = hidden_;
    AddNote(hidden_cells_.Note(), note);
    AddNote(CountedNote(num_comments_, "comment", "left out"), note);
    if (is_shortened_) AddNote("rows that repeat very often are written 100 times", note);
    return writer_.Finish(num_sheets_, note);
  }

 private:
  // Text boxes and images lie over the cells: they follow the rows.
  void EndSheet() {
    if (rows_) rows_->End();
    rows_.reset();
    writer_.Verbatim(std::exchange(shapes_, TextBuilder()).Finish(0, "").text);
  }

  // Writes the shapes among an element's children. Charts are left out: their numbers are cells'.
  void Shapes(XmlNode parent) {
    for (const XmlNode node : parent) {
      const bool is_of_cell = node.name() == "p" || node.name() == "annotation";
      if (node.name().empty() || is_of_cell || node.Child("object")) continue;
      OdfText(styles_, parts_, shapes_).Box(node);
    }
  }

  void BeginSheet(XmlNode table) {
    EndSheet();
    merged_.clear();
    hidden_cells_.EndSheet();
    next_column_ = 0;
    writer_.BeginPage(++num_sheets_);
    const std::string name(table.Attribute("name"));
    is_hidden_ = styles_.IsHidden(table.Attribute("style-name"));
    if (is_hidden_) {
      hidden_ += (hidden_.empty() ? "hidden sheets are left out: " : ", ") + name;
    } else {
      writer_.Heading(1, name);
      rows_.emplace(writer_);
    }
  }

  void Column(XmlNode node) {
    const auto repeated = static_cast<uint32_t>(
        std::clamp(node.Number("number-columns-repeated", 1), 1, kMostColumns));
    if (IsHiddenByHand(node)) hidden_cells_.AddColumns(next_column_, next_column_ + repeated - 1);
    next_column_ = std::min(next_column_ + repeated, uint32_t{kMostColumns});
  }

  // A cell that spans rows says its text in each of them that has other cells.
  void Row(XmlNode row) {
    std::map<uint32_t, SheetCell> by_column, covered;
    std::vector<std::pair<uint32_t, uint32_t>>
        wide;  // cells that span columns: the first, the last
    int column = 0;
    for (const XmlNode node : row) {
      const bool is_covered = node.name() == "covered-table-cell";
      if (node.name() != "table-cell" && !is_covered) continue;
      const int repeated =
          std::clamp(node.Number("number-columns-repeated", 1), 1, kMostColumns - column);
      SheetCell cell = is_covered ? SheetCell() : CellOf(node);
      num_comments_ += static_cast<bool>(node.Child("annotation"));
      Shapes(node);
      for (int i = 0; i < repeated && is_covered && !merged_.empty(); ++i) {
        const auto found = merged_.find(column + i);
        if (found == merged_.end()) continue;
        covered.emplace(found->second.cell.column, found->second.cell);
        if (--found->second.num_rows <= 0) merged_.erase(found);
      }
      if (!cell.text.empty()) {
        const int num_rows = node.Number("number-rows-spanned", 1) - 1;
        const auto at = static_cast<uint32_t>(column);
        wide.emplace_back(at, at +
                                  static_cast<uint32_t>(std::clamp(
                                      node.Number("number-columns-spanned", 1), 1, kMostColumns)) -
                                  1);
        for (int i = 0; i < std::min(repeated, kMostCopies); ++i) {
          cell.column = static_cast<uint32_t>(column + i);
          if (num_rows > 0) merged_[column + i] = {cell, num_rows};
          by_column.emplace(cell.column, cell);
        }
      }
      column += repeated;
      if (column >= kMostColumns) break;
    }
    if (!by_column.empty()) by_column.merge(covered);
    for (const auto& [first, last] : wide) FillColumns(first, last, by_column);
    std::vector<SheetCell> cells;
    for (auto& [at, cell] : by_column) cells.push_back(std::move(cell));
    hidden_cells_.TakeOut(cells);
    if (IsHiddenByHand(row)) {
      if (!cells.empty()) hidden_cells_.AddRow();
      return;
    }
    const int repeated = std::max(1, row.Number("number-rows-repeated", 1));
    is_shortened_ |= !cells.empty() && repeated > kMostCopies;
    for (int i = 0; i < std::min(repeated, cells.empty() ? 1 : kMostCopies); ++i) rows_->Add(cells);
  }

  struct Merged {
    SheetCell cell;
    int num_rows;  // that it goes on for
  };
  const ZipParts& parts_;
  TextBuilder writer_, shapes_;  // the text of the sheets; that of the current sheet's shapes
  OdfStyles styles_;
  std::optional<SheetRows> rows_;
  std::map<int, Merged> merged_;  // by column
  std::string hidden_;            // a note that names the hidden sheets
  HiddenCells hidden_cells_;
  uint32_t next_column_ = 0;
  uint64_t num_sheets_ = 0, num_comments_ = 0;
  bool is_hidden_ = false, is_shortened_ = false;
};

}  // namespace

api::Result<Extracted> ReadOds(std::string_view bytes) {
  auto parts = UnpackOdf(bytes);
  if (!parts.ok()) return parts.error();
  return SheetsReader(*parts).Read(*parts->Find("content.xml"));
}

}  // namespace lectern::tools
