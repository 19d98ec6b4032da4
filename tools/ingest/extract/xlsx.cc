// Excel workbooks (.xlsx, .xlsm, .xltx): ECMA-376 part 1, SpreadsheetML.
#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <vector>

#include "tools/ingest/extract/cell_format.h"
#include "tools/ingest/extract/ooxml_drawing.h"
#include "tools/ingest/extract/ooxml_package.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/extract/sheet_grid.h"

namespace lectern::tools {
namespace {

constexpr uint32_t kMostColumns = 16384;  // of Excel
constexpr uint32_t kMostRows = 1u << 20;  // of Excel

// A cell's place, from 0.
struct Place {
  uint32_t row = 0, column = 0;
};

// "B3"; nothing for any other text.
std::optional<Place> ParsePlace(std::string_view text) {
  uint32_t column = 0, row = 0;
  size_t i = 0;
  for (; i < text.size() && text[i] >= 'A' && text[i] <= 'Z' && column < kMostColumns; ++i)
    column = column * 26 + static_cast<uint32_t>(text[i] - 'A' + 1);
  const auto read = std::from_chars(text.data() + i, text.data() + text.size(), row);
  if (i == 0 || read.ec != std::errc() || read.ptr != text.data() + text.size()) return {};
  if (row == 0 || row > kMostRows || column > kMostColumns) return {};
  return Place{row - 1, column - 1};
}

// The text of a string item: its runs, without the reading aids of East Asian text.
std::string StringText(XmlNode item) {
  std::string text;
  for (const XmlNode node : item) {
    if (node.name() == "t") AppendAllText(node, text);
    if (node.name() == "r") AppendAllText(node.Child("t"), text);
  }
  std::string clean;
  AppendInline(text, clean);
  return clean;
}

struct Workbook {
  std::vector<std::string> strings;
  std::vector<CellFormat> formats;  // by a cell's style
  bool is_1904 = false;
};

void ReadFormats(XmlNode styles, Workbook& workbook) {
  std::map<int, CellFormat> own;
  for (const XmlNode node : styles.Child("numFmts"))
    own[node.Number("numFmtId", -1)] = ParseCellFormat(node.Attribute("formatCode"));
  for (const XmlNode node : styles.Child("cellXfs")) {
    const int id = node.Number("numFmtId", 0);
    const auto found = own.find(id);
    workbook.formats.push_back(found != own.end() ? found->second : BuiltInCellFormat(id));
  }
}

// One sheet, read row by row.
class SheetReader {
 public:
  // `is_filtered`: rows may be hidden by a filter. `hidden` gets what is left out.
  SheetReader(const Workbook& workbook, bool is_filtered, HiddenCells& hidden, TextBuilder& writer)
      : workbook_(workbook), is_filtered_(is_filtered), hidden_(hidden), writer_(writer) {}

  // False: the part is damaged.
  bool Read(const std::string& xml, const std::string& part) {
    SheetGrid grid(ReadMerged(xml), is_filtered_, hidden_, writer_);
    XmlStream stream(xml, part);
    for (bool goes_on = stream.Next(); goes_on;) {
      if (stream.name() == "row") {
        Row(stream.Expand(), grid);
        goes_on = stream.Skip();
      } else {
        if (stream.name() == "col") Column(stream.current());
        goes_on = stream.Next();
      }
    }
    grid.End();
    return !stream.has_failed();
  }
  uint64_t num_empty_formulas() const { return num_empty_formulas_; }

 private:
  // Finds the cells that go on over rows and columns. They stand behind the rows, where the stream
  // comes last.
  static std::vector<CellArea> ReadMerged(std::string_view xml) {
    std::vector<CellArea> areas;
    const size_t begin = xml.rfind("mergeCells>");
    const size_t first = xml.find("mergeCells", xml.rfind("</sheetData>") == std::string_view::npos
                                                    ? 0
                                                    : xml.rfind("</sheetData>"));
    if (begin == std::string_view::npos || first == std::string_view::npos) return areas;
    constexpr std::string_view kRef = " ref=";
    for (size_t at = xml.find(kRef, first); at < begin; at = xml.find(kRef, at)) {
      at += kRef.size() + 1;
      const std::string_view area = xml.substr(at, xml.find(xml[at - 1], at) - at);  // in quotes
      const size_t colon = area.find(':');
      if (colon == std::string_view::npos) continue;
      const auto from = ParsePlace(area.substr(0, colon)), to = ParsePlace(area.substr(colon + 1));
      if (from && to) areas.push_back({from->row, to->row, from->column, to->column});
    }
    return areas;
  }

  // Rows and columns that a filter or a closed group hides are a click away, and read.
  bool IsHiddenByHand(XmlNode node) const {
    const std::string_view hidden = node.Attribute("hidden");
    return (hidden == "1" || hidden == "true") && node.Number("outlineLevel", 0) == 0;
  }

  void Column(XmlNode node) {
    const int first = node.Number("min", 0), last = node.Number("max", 0);
    if (!IsHiddenByHand(node) || first < 1 || last < first) return;
    hidden_.AddColumns(static_cast<uint32_t>(first - 1), static_cast<uint32_t>(last - 1));
  }

  void Row(XmlNode row, SheetGrid& grid) {
    const auto number = static_cast<uint32_t>(row.Number("r", 0));
    const uint32_t at = number > 0 ? number - 1 : grid.next_row();
    std::map<uint32_t, SheetCell> cells;
    uint32_t next_column = 0;
    for (const XmlNode node : row) {
      if (node.name() != "c") continue;
      const auto place = ParsePlace(node.Attribute("r"));
      const uint32_t column = place ? place->column : next_column;
      next_column = column + 1;
      if (column >= kMostColumns) break;
      SheetCell cell = Cell(node);
      cell.column = column;
      if (!cell.text.empty()) cells[column] = std::move(cell);
    }
    grid.AddRow(at, std::move(cells), IsHiddenByHand(row));
  }

  SheetCell Cell(XmlNode node) {
    const std::string_view type = node.Attribute("t");
    SheetCell cell;
    if (type == "inlineStr") {
      cell.text = StringText(node.Child("is"));
      return cell;
    }
    std::string value;
    AppendAllText(node.Child("v"), value);
    if (value.empty()) {
      num_empty_formulas_ += static_cast<bool>(node.Child("f"));
      return cell;
    }
    if (type == "s") {
      size_t index = workbook_.strings.size();
      std::from_chars(value.data(), value.data() + value.size(), index);
      if (index < workbook_.strings.size()) cell.text = workbook_.strings[index];
    } else if (type == "b") {
      cell.text = value == "1" ? "TRUE" : "FALSE";
    } else if (type == "str" || type == "e") {
      AppendInline(value, cell.text);
    } else if (type == "d") {
      cell.text = value;
      cell.is_text = false;
    } else {
      const auto style = static_cast<size_t>(node.Number("s", 0));
      double number = 0;
      const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
      cell.is_text = false;
      cell.text = read.ec != std::errc()
                      ? value
                      : FormatCell(number,
                                   style < workbook_.formats.size() ? workbook_.formats[style]
                                                                    : CellFormat(),
                                   workbook_.is_1904);
    }
    return cell;
  }

  const Workbook& workbook_;
  const bool is_filtered_;
  HiddenCells& hidden_;
  TextBuilder& writer_;
  uint64_t num_empty_formulas_ = 0;
};

// Reads the strings that cells share.
bool ReadStrings(const std::string& xml, Workbook& workbook) {
  XmlStream stream(xml, "sharedStrings.xml");
  for (bool goes_on = stream.Next(); goes_on;) {
    if (stream.name() == "si") {
      workbook.strings.push_back(StringText(stream.Expand()));
      goes_on = stream.Skip();
    } else {
      goes_on = stream.Next();
    }
  }
  return !stream.has_failed();
}

api::Error Damaged(const std::string& part) {
  return {LECTERN_INVALID_ARGUMENT, "is damaged: its part " + part + " is not well-formed XML",
          "file"};
}

// Whether the sheet, or a table in it, has a filter on.
bool IsFiltered(const OoxmlPackage& package, const std::string& part, const std::string& xml) {
  constexpr std::string_view kFilter = "<filterColumn", kPrefixed = ":filterColumn";
  const auto has_filter = [&](const std::string& text) {
    return text.find(kFilter) != text.npos || text.find(kPrefixed) != text.npos;
  };
  if (has_filter(xml)) return true;
  for (const auto& relationship : package.RelationshipsOf(part)) {
    const std::string* const table = package.parts().Find(relationship.target);
    if (relationship.type == "table" && table && has_filter(*table)) return true;
  }
  return false;
}

// Number of comments on a sheet's cells.
uint64_t NumComments(const OoxmlPackage& package, const std::string& part) {
  uint64_t count = 0;
  for (const auto& relationship : package.RelationshipsOf(part)) {
    if (relationship.type != "comments") continue;
    auto tree = package.Parse(relationship.target);
    if (!tree.ok()) continue;
    for (const XmlNode node : tree->root().Child("commentList")) count += node.name() == "comment";
  }
  return count;
}

// Writes what lies over a sheet's cells.
void WriteDrawings(const OoxmlPackage& package, const std::string& part, TextBuilder& writer) {
  for (const auto& relationship : package.RelationshipsOf(part)) {
    if (relationship.type != "drawing") continue;
    auto tree = package.Parse(relationship.target);
    if (tree.ok()) WriteSheetDrawing(tree->root(), writer);
  }
}

}  // namespace

api::Result<Extracted> ReadXlsx(std::string_view bytes) {
  auto package = OoxmlPackage::Open(bytes);
  if (!package.ok()) return package.error();
  auto tree = package->Parse(package->main_part());
  if (!tree.ok()) return tree.error();
  Workbook workbook;
  const std::string_view is_1904 = tree->root().Child("workbookPr").Attribute("date1904");
  workbook.is_1904 = is_1904 == "1" || is_1904 == "true";
  if (const auto styles = package->ParseRelated("styles")) ReadFormats(styles->root(), workbook);
  const auto relationships = package->RelationshipsOf(package->main_part());
  std::map<std::string, std::string> sheet_parts;
  for (const auto& [id, type, target] : relationships) {
    const std::string* const xml = package->parts().Find(target);
    if (type == "sharedStrings" && xml && !ReadStrings(*xml, workbook)) return Damaged(target);
    if (type == "worksheet") sheet_parts[id] = target;
  }
  TextBuilder writer;
  SheetsLeftOut left_out;
  uint64_t num_sheets = 0;
  for (const XmlNode sheet : tree->root().Child("sheets")) {
    if (sheet.name() != "sheet") continue;
    writer.BeginPage(++num_sheets);
    const std::string name(sheet.Attribute("name"));
    const auto part = sheet_parts.find(std::string(sheet.Attribute("relationships", "id")));
    if (part == sheet_parts.end()) continue;  // a sheet that is one chart
    if (sheet.Attribute("state") == "hidden" || sheet.Attribute("state") == "veryHidden") {
      left_out.sheets.push_back(name);
      continue;
    }
    const std::string* const xml = package->parts().Find(part->second);
    if (!xml) return Damaged(part->second);
    SheetReader reader(workbook, IsFiltered(*package, part->second, *xml), left_out.cells, writer);
    writer.Heading(1, name);
    if (!reader.Read(*xml, part->second)) return Damaged(part->second);
    WriteDrawings(*package, part->second, writer);
    left_out.num_comments += NumComments(*package, part->second);
    left_out.num_empty_formulas += reader.num_empty_formulas();
    package->parts().Drop(part->second);
  }
  return writer.Finish(num_sheets, left_out.Note());
}

}  // namespace lectern::tools
