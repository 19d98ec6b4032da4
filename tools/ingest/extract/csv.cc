// CSV and TSV (RFC 4180, and the dialects that programs write).
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/extract/sheet_rows.h"

namespace lectern::tools {
namespace {

// Reads records from front to back. A quote that nothing closes is a character like others.
class CsvRecords {
 public:
  CsvRecords(std::string_view text, char delimiter) : text_(text), delimiter_(delimiter) {}

  bool is_at_end() const { return at_ >= text_.size(); }
  // The fields of the next record; none for an empty line.
  std::vector<std::string> Next() {
    std::vector<std::string> fields;
    for (;;) {
      fields.push_back(Field());
      if (is_at_end() || text_[at_] != delimiter_) break;
      ++at_;
      if (is_at_end()) fields.emplace_back();
    }
    if (!is_at_end() && text_[at_] == '\r') ++at_;
    if (!is_at_end() && text_[at_] == '\n') ++at_;
    if (fields.size() == 1 && fields[0].empty()) fields.clear();
    return fields;
  }

 private:
  bool IsEnd(size_t i) const {
    return i >= text_.size() || text_[i] == delimiter_ || text_[i] == '\n' || text_[i] == '\r';
  }

  // The quote that closes the field whose content begins at `i`; npos: there is none.
  size_t ClosingQuote(size_t i) {
    if (!may_close_) return std::string_view::npos;
    for (i = text_.find('"', i); i != std::string_view::npos; i = text_.find('"', i)) {
      if (i + 1 < text_.size() && text_[i + 1] == '"') {
        i += 2;
      } else if (IsEnd(i + 1)) {
        return i;
      } else {
        ++i;
      }
    }
    may_close_ = false;  // and so none closes a later field
    return std::string_view::npos;
  }

  std::string Field() {
    size_t begin = at_;
    while (begin < text_.size() && text_[begin] == ' ') ++begin;
    const size_t close = begin < text_.size() && text_[begin] == '"' ? ClosingQuote(begin + 1)
                                                                     : std::string_view::npos;
    std::string field;
    if (close == std::string_view::npos) {
      for (; !IsEnd(at_); ++at_) field += text_[at_];
      return field;
    }
    for (size_t i = begin + 1; i < close; ++i) {
      field += text_[i];
      if (text_[i] == '"' && text_[i + 1] == '"' && i + 1 < close) ++i;
    }
    at_ = close + 1;
    return field;
  }

  std::string_view text_;
  char delimiter_;
  size_t at_ = 0;
  bool may_close_ = true;
};

// How evenly a delimiter parts the first records: the share of them with the most frequent number
// of fields; 0 where that is one field.
double Evenness(std::string_view text, char delimiter, size_t& num_fields) {
  constexpr size_t kMostRecords = 100;
  CsvRecords records(text, delimiter);
  std::map<size_t, size_t> counts;
  size_t num_records = 0;
  while (!records.is_at_end() && num_records < kMostRecords) {
    const size_t count = records.Next().size();
    if (count == 0) continue;
    ++counts[count];
    ++num_records;
  }
  num_fields = 0;
  size_t most = 0;
  for (const auto& [fields, count] : counts) {
    if (count < most) continue;
    most = count;
    num_fields = fields;
  }
  return num_fields < 2 ? 0 : static_cast<double>(most) / static_cast<double>(num_records);
}

// The delimiter that parts the first records most evenly; of equal ones that with more fields.
char SniffDelimiter(std::string_view text) {
  constexpr size_t kMostBytes = 1 << 18;
  // A piece that ends with whole lines, so that its last record is like the others.
  std::string_view head = text.substr(0, kMostBytes);
  if (head.size() < text.size()) head = head.substr(0, head.rfind('\n') + 1);
  char best = ',';
  double most = 0;
  size_t most_fields = 0;
  for (const char delimiter : {',', ';', '\t', '|'}) {
    size_t num_fields = 0;
    const double evenness = Evenness(head, delimiter, num_fields);
    if (evenness > most || (evenness == most && num_fields > most_fields)) {
      best = delimiter;
      most = evenness;
      most_fields = num_fields;
    }
  }
  return best;
}

}  // namespace

api::Result<Extracted> ReadCsv(std::string_view bytes, bool is_tsv) {
  const CleanText clean = CleanUtf8(bytes);
  std::string_view text = clean.text;
  char delimiter = is_tsv ? '\t' : '\0';
  // Excel's first line, which names the delimiter.
  if (text.starts_with("sep=") && text.size() > 5 && (text[5] == '\n' || text[5] == '\r')) {
    delimiter = text[4];
    text.remove_prefix(text.find('\n', 5) == std::string_view::npos ? 6 : text.find('\n', 5) + 1);
  }
  if (delimiter == '\0') delimiter = SniffDelimiter(text);
  TextBuilder writer;
  SheetRows rows(writer);
  CsvRecords records(text, delimiter);
  while (!records.is_at_end()) {
    std::vector<SheetCell> cells;
    for (std::string& field : records.Next()) {
      SheetCell cell{static_cast<uint32_t>(cells.size()), "", !CellLooksLikeNumber(field)};
      AppendInline(field, cell.text);
      cells.push_back(std::move(cell));
    }
    rows.Add(std::move(cells));
  }
  rows.End();
  return writer.Finish(0,
                       rows.has_guessed() ? "its first row was taken for the columns' names" : "");
}

}  // namespace lectern::tools
