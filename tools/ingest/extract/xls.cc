// Excel's old workbooks (.xls, Excel 5 to 2003): MS-XLS, and its forerunner BIFF5. The text is that
// of the same workbook as .xlsx.
#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/ingest/compound_file.h"
#include "tools/ingest/extract/biff_records.h"
#include "tools/ingest/extract/cell_format.h"
#include "tools/ingest/extract/code_page.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/extract/sheet_grid.h"

namespace lectern::tools {
namespace {

constexpr uint16_t kBiff8 = 0x0600;
constexpr uint16_t kMostBiffColumns = 256;  // of Excel before 2007

struct BiffSheet {
  enum class Kind : uint8_t { kCells = 0, kMacros = 1, kChart = 2, kModule = 6 };
  std::string name;
  size_t at = 0;  // in the stream
  bool is_hidden = false;
  Kind kind = Kind::kCells;
};

// The records that stand before the sheets.
struct BiffWorkbook {
  bool is_biff8 = false, is_1904 = false, has_password = false;
  uint32_t code_page = 1252;
  std::vector<std::string> strings;
  std::map<uint16_t, CellFormat> formats;
  std::vector<uint16_t> styles;  // the numbers of their formats
  std::vector<BiffSheet> sheets;

  CellFormat FormatOf(uint16_t style) const {
    if (style >= styles.size()) return {};
    const auto found = formats.find(styles[style]);
    return found != formats.end() ? found->second : BuiltInCellFormat(styles[style]);
  }
};

// The text that stands in a record from `at` on, behind its length, of one byte or of two.
std::string TextAt(std::string_view data, size_t at, bool is_short, BiffRecords& records,
                   const BiffWorkbook& workbook) {
  std::vector<std::string_view> pieces = records.TakeContinued();
  const std::string_view rest = data.substr(std::min(at, data.size()));
  std::string text;
  if (workbook.is_biff8) {
    pieces.insert(pieces.begin(), rest);
    text = BiffBytes(std::move(pieces)).Text(is_short);
  } else {
    const size_t head = is_short ? 1 : 2;
    const size_t size = is_short ? Uint16At(rest, 0) & 0xFF : Uint16At(rest, 0);
    std::string bytes(rest.substr(std::min(head, rest.size()), size));
    for (const std::string_view piece : pieces) bytes += piece.substr(0, size - bytes.size());
    text = CodePageText(bytes, workbook.code_page);
  }
  std::string clean;
  AppendInline(text, clean);
  return clean;
}

void ReadStrings(std::string_view data, BiffRecords& records, BiffWorkbook& workbook) {
  constexpr size_t kHead = 8;
  std::vector<std::string_view> pieces = records.TakeContinued();
  pieces.insert(pieces.begin(), data.substr(std::min(kHead, data.size())));
  const uint32_t count = Uint32At(data, 4);
  BiffBytes bytes(std::move(pieces));
  while (workbook.strings.size() < count && !bytes.is_at_end()) {
    std::string clean;
    AppendInline(bytes.Text(false), clean);
    workbook.strings.push_back(std::move(clean));
  }
}

void ReadGlobal(const BiffRecord& record, BiffRecords& records, BiffWorkbook& workbook) {
  const std::string_view data = record.data;
  switch (record.id) {
    case BiffId::kFilePass:
      workbook.has_password = true;
      break;
    case BiffId::kDateMode:
      workbook.is_1904 = Uint16At(data, 0) == 1;
      break;
    case BiffId::kCodePage:
      workbook.code_page = Uint16At(data, 0);
      break;
    case BiffId::kStrings:
      ReadStrings(data, records, workbook);
      break;
    case BiffId::kCellStyle:
      workbook.styles.push_back(Uint16At(data, 2));
      break;
    case BiffId::kFormat:
      workbook.formats[Uint16At(data, 0)] =
          ParseCellFormat(TextAt(data, 2, !workbook.is_biff8, records, workbook));
      break;
    case BiffId::kSheet: {
      constexpr size_t kState = 4, kKind = 5, kName = 6;
      if (data.size() < kName) break;
      workbook.sheets.push_back({TextAt(data, kName, true, records, workbook), Uint32At(data, 0),
                                 (data[kState] & 3) != 0,
                                 static_cast<BiffSheet::Kind>(data[kKind])});
      break;
    }
    default:
      break;
  }
}

double RkNumber(uint32_t rk) {
  constexpr uint32_t kIsHundredth = 1, kIsWhole = 2;
  const double number = rk & kIsWhole ? static_cast<double>(static_cast<int32_t>(rk) >> 2)
                                      : std::bit_cast<double>(uint64_t{rk & ~uint32_t{3}} << 32);
  return rk & kIsHundredth ? number / 100 : number;
}

std::string ErrorText(uint8_t code) {
  switch (code) {
    case 0x00:
      return "#NULL!";
    case 0x07:
      return "#DIV/0!";
    case 0x0F:
      return "#VALUE!";
    case 0x17:
      return "#REF!";
    case 0x1D:
      return "#NAME?";
    case 0x24:
      return "#NUM!";
    default:
      return "#N/A";
  }
}

// One sheet: collects its cells, which need not stand in order, and writes them.
class BiffSheetReader {
 public:
  explicit BiffSheetReader(const BiffWorkbook& workbook) : workbook_(workbook) {}

  // Reads the records from the sheet's first one on. False: there is none.
  bool Read(BiffRecords& records) {
    BiffRecord record;
    if (!records.Next(record) || record.id != BiffId::kBegin) return false;
    // Charts stand in the sheet like sheets of their own.
    for (int depth = 1; depth > 0 && records.Next(record);) {
      if (record.id == BiffId::kBegin) ++depth;
      if (record.id == BiffId::kEof) --depth;
      if (depth == 1) Take(record, records);
    }
    return true;
  }

  void Write(SheetsLeftOut& left_out, TextBuilder& writer) {
    left_out.num_comments += num_comments_;
    std::ranges::sort(hidden_columns_);
    for (const auto& [first, last] : hidden_columns_) left_out.cells.AddColumns(first, last);
    std::ranges::stable_sort(cells_, {}, &Cell::row);
    SheetGrid grid(merged_, is_filtered_, left_out.cells, writer);
    auto hidden = hidden_rows_.begin();
    for (auto cell = cells_.begin(); cell != cells_.end();) {
      const uint16_t at = cell->row;
      for (; hidden != hidden_rows_.end() && *hidden < at; ++hidden) grid.AddRow(*hidden, {}, true);
      const bool is_hidden = hidden != hidden_rows_.end() && *hidden == at;
      if (is_hidden) ++hidden;
      std::map<uint32_t, SheetCell> row;
      for (; cell != cells_.end() && cell->row == at; ++cell) {
        SheetCell shown = Shown(*cell);
        if (!shown.text.empty()) row[cell->column] = std::move(shown);
      }
      grid.AddRow(at, std::move(row), is_hidden);
    }
    grid.End();
    for (const std::string& text : box_texts_) WriteBox(text, writer);
  }

 private:
  struct Cell {
    enum class Kind : uint8_t { kNumber, kText, kShared };
    uint16_t row, column, style;
    Kind kind;
    uint32_t text = 0;  // a number among texts_, or among the workbook's strings
    double number = 0;
  };

  void Take(const BiffRecord& record, BiffRecords& records) {
    constexpr size_t kValue = 6;  // behind row, column and style
    const std::string_view data = record.data;
    switch (record.id) {
      case BiffId::kNumber:
        AddNumber(data, 0, std::bit_cast<double>(Uint64At(data, kValue)));
        break;
      case BiffId::kRk:
        AddNumber(data, 0, RkNumber(Uint32At(data, kValue)));
        break;
      case BiffId::kMultipleRk:
        AddNumbers(data);
        break;
      case BiffId::kFormula:
        Formula(data);
        break;
      case BiffId::kString:
        if (waits_for_string_) AddText(formula_, TextAt(data, 0, false, records, workbook_));
        waits_for_string_ = false;
        break;
      case BiffId::kLabel:
      case BiffId::kRichLabel:
        AddText(data, TextAt(data, kValue, false, records, workbook_));
        break;
      case BiffId::kStringCell:
        cells_.push_back(CellAt(data, Cell::Kind::kShared));
        cells_.back().text = Uint32At(data, kValue);
        break;
      case BiffId::kBoolean:
        if (data.size() >= kValue + 2) AddText(data, Value(data[kValue], data[kValue + 1] != 0));
        break;
      case BiffId::kRow:
        Row(data);
        break;
      case BiffId::kColumn:
        Column(data);
        break;
      case BiffId::kMergedCells:
        Merged(data);
        break;
      case BiffId::kFilter:
        is_filtered_ = true;
        break;
      case BiffId::kNote:
        num_comments_ += Uint16At(data, 0) != 0xFFFF;
        break;  // else it goes on
      case BiffId::kObject:
        object_ = Uint16At(data, 4);
        break;
      case BiffId::kTextObject:
        TextObject(data, records);
        break;
      default:
        break;
    }
  }

  static Cell CellAt(std::string_view data, Cell::Kind kind) {
    return {Uint16At(data, 0), Uint16At(data, 2), Uint16At(data, 4), kind};
  }
  // `column`: behind the first one of the record.
  void AddNumber(std::string_view data, uint16_t column, double number) {
    cells_.push_back(CellAt(data, Cell::Kind::kNumber));
    cells_.back().column = static_cast<uint16_t>(cells_.back().column + column);
    cells_.back().number = number;
  }
  // Row, first column, style and number of each cell, last column.
  void AddNumbers(std::string_view data) {
    constexpr size_t kFirst = 4, kEach = 6;
    uint16_t column = 0;
    for (size_t at = kFirst; at + kEach + 2 <= data.size(); at += kEach, ++column) {
      AddNumber(data, column, RkNumber(Uint32At(data, at + 2)));
      cells_.back().style = Uint16At(data, at);
    }
  }
  void AddText(std::string_view data, std::string text) {
    cells_.push_back(CellAt(data, Cell::Kind::kText));
    cells_.back().text = static_cast<uint32_t>(texts_.size());
    texts_.push_back(std::move(text));
  }
  static std::string Value(char value, bool is_error) {
    if (is_error) return ErrorText(static_cast<uint8_t>(value));
    return value != 0 ? "TRUE" : "FALSE";
  }

  // A formula's result: a number, or a mark for another kind of value. A text stands in a record of
  // its own behind it.
  void Formula(std::string_view data) {
    constexpr size_t kResult = 6, kIsOther = 12, kValue = 8;
    constexpr char kText = 0, kTruth = 1, kError = 2;
    waits_for_string_ = false;
    if (data.size() < kResult + 8) return;
    if (Uint16At(data, kIsOther) != 0xFFFF)
      return AddNumber(data, 0, std::bit_cast<double>(Uint64At(data, kResult)));
    const char kind = data[kResult];
    if (kind == kText) {
      waits_for_string_ = true;
      formula_ = data;
    }
    if (kind == kTruth || kind == kError) AddText(data, Value(data[kValue], kind == kError));
  }

  // Rows and columns that a closed group hides are a click away, and read.
  void Row(std::string_view data) {
    constexpr size_t kOptions = 12;
    constexpr uint16_t kLevel = 7, kHidden = 0x20;
    const uint16_t options = Uint16At(data, kOptions);
    if ((options & kHidden) && !(options & kLevel)) hidden_rows_.insert(Uint16At(data, 0));
  }
  void Column(std::string_view data) {
    constexpr size_t kOptions = 8;
    constexpr uint16_t kHidden = 1, kLevel = 0x700;
    const uint16_t options = Uint16At(data, kOptions);
    const uint16_t first = Uint16At(data, 0), last = Uint16At(data, 2);
    if ((options & kHidden) && !(options & kLevel) && first <= last)
      hidden_columns_.emplace_back(first, last);
  }
  void Merged(std::string_view data) {
    constexpr size_t kHead = 2, kEach = 8;
    for (size_t at = kHead; at + kEach <= data.size(); at += kEach) {
      if (Uint16At(data, at + 6) >= kMostBiffColumns) continue;
      merged_.push_back({Uint16At(data, at), Uint16At(data, at + 2), Uint16At(data, at + 4),
                         Uint16At(data, at + 6)});
    }
  }

  // The text of a shape. That of a comment is counted as such, and that of a button or a list is
  // no part of the table.
  void TextObject(std::string_view data, BiffRecords& records) {
    constexpr uint16_t kMostShapes = 9, kButton = 7, kPicture = 8, kDrawing = 0x1E;
    constexpr size_t kLength = 10;
    const uint32_t count = Uint16At(data, kLength);
    const bool is_shape = (object_ <= kMostShapes && object_ != kButton && object_ != kPicture) ||
                          object_ == kDrawing;
    std::vector<std::string_view> pieces = records.TakeContinued();
    if (is_shape && count > 0 && !pieces.empty())
      box_texts_.push_back(BiffBytes(std::move(pieces)).Characters(count));
  }
  static void WriteBox(std::string_view text, TextBuilder& writer) {
    writer.Gap();
    while (!text.empty()) {
      const size_t end = std::min(text.find_first_of("\r\n"), text.size());
      std::string line;
      AppendInline(text.substr(0, end), line);
      writer.Line(line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    writer.Gap();
  }

  SheetCell Shown(const Cell& cell) const {
    SheetCell shown{.column = cell.column, .text = {}};
    if (cell.kind == Cell::Kind::kNumber) {
      shown.is_text = false;
      shown.text = FormatCell(cell.number, workbook_.FormatOf(cell.style), workbook_.is_1904);
    } else {
      const auto& texts = cell.kind == Cell::Kind::kText ? texts_ : workbook_.strings;
      if (cell.text < texts.size()) shown.text = texts[cell.text];
    }
    return shown;
  }

  const BiffWorkbook& workbook_;
  std::vector<Cell> cells_;
  std::vector<std::string> texts_, box_texts_;
  std::vector<CellArea> merged_;
  std::set<uint16_t> hidden_rows_;
  std::vector<std::pair<uint32_t, uint32_t>> hidden_columns_;
  std::string_view formula_;  // the last one
  bool waits_for_string_ = false, is_filtered_ = false;
  uint16_t object_ = 0;  // the kind of the last one
  uint64_t num_comments_ = 0;
};

// The stream of a workbook's records: of both versions in one file the newer one; the file itself
// where it is one stream.
api::Result<std::string> WorkbookStream(std::string_view bytes, bool& is_cut_off) {
  if (!CompoundFile::IsOne(bytes)) return std::string(bytes);
  auto file = CompoundFile::Open(bytes);
  if (!file.ok()) return file.error();
  for (const char* const name : {"Workbook", "Book"}) {
    const auto entry = file->Find(CompoundFile::kRoot, name);
    if (!entry) continue;
    auto stream = file->Read(*entry);
    is_cut_off = file->is_cut_off();
    return stream;
  }
  return api::Error{LECTERN_INVALID_ARGUMENT, "has no workbook in it", "file"};
}

}  // namespace

api::Result<Extracted> ReadXls(std::string_view bytes) {
  bool is_cut_off = false;
  auto stream = WorkbookStream(bytes, is_cut_off);
  if (!stream.ok()) return stream.error();
  BiffWorkbook workbook;
  BiffRecords records(*stream, 0);
  BiffRecord record;
  if (!records.Next(record) || record.id != BiffId::kBegin) {
    return api::Error{LECTERN_INVALID_ARGUMENT,
                      "is damaged, or of an older Excel than 5: save it as xlsx, ods or CSV",
                      "file"};
  }
  workbook.is_biff8 = Uint16At(record.data, 0) >= kBiff8;
  constexpr uint16_t kWorksheet = 0x10;
  const bool is_one_sheet = Uint16At(record.data, 2) == kWorksheet;
  while (records.Next(record) && record.id != BiffId::kEof) ReadGlobal(record, records, workbook);
  if (workbook.has_password) {
    return api::Error{
        LECTERN_INVALID_ARGUMENT,
        "asks for a password, or is protected in Excel, which encrypts it too; save it "
        "without the password or the protection",
        "file"};
  }
  if (is_one_sheet) workbook.sheets = {BiffSheet()};
  TextBuilder writer;
  SheetsLeftOut left_out;
  std::string damaged;
  uint64_t num_sheets = 0, num_walked = 0;
  for (const BiffSheet& sheet : workbook.sheets) {
    if (sheet.kind == BiffSheet::Kind::kModule) continue;
    writer.BeginPage(++num_sheets);
    if (sheet.is_hidden) left_out.sheets.push_back(sheet.name);
    if (sheet.is_hidden || sheet.kind != BiffSheet::Kind::kCells) continue;
    BiffRecords rows(*stream, sheet.at);
    BiffSheetReader reader(workbook);
    // Sheets of a sound file share no records.
    if (num_walked > stream->size() || !reader.Read(rows)) {
      damaged += (damaged.empty() ? "sheets are damaged and left out: " : ", ") + sheet.name;
      continue;
    }
    num_walked += rows.position() - sheet.at;
    writer.Heading(1, sheet.name);
    reader.Write(left_out, writer);
  }
  std::string note = left_out.Note();
  AddNote(damaged, note);
  if (is_cut_off) AddNote("the file is cut off, so that parts of it may be missing", note);
  return writer.Finish(num_sheets, note);
}

}  // namespace lectern::tools
