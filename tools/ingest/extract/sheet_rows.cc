#include "tools/ingest/extract/sheet_rows.h"

#include <algorithm>
#include <utility>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

constexpr size_t kMostWaiting = 20;     // rows that are looked at before a header is decided
constexpr size_t kMostNameBytes = 100;  // of a column's name; longer ones are values

bool IsYear(const std::string& text) {
  return text.size() == 4 && (text.starts_with("19") || text.starts_with("20")) &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Whether a text is a date in digits ("1/22/20", "2020-01-22"), a month ("2020-01") or a year that
// begins in another one ("2019/20").
bool IsDateInDigits(std::string_view text) {
  size_t num_groups = 0, num_digits = 0, longest = 0;
  char separator = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsDigit(text[i])) {
      num_groups += num_digits == 0;
      longest = std::max(longest, ++num_digits);
    } else {
      if (num_digits == 0 || std::string_view("-/.").find(text[i]) == std::string_view::npos ||
          (separator != '\0' && text[i] != separator))
        return false;
      separator = text[i];
      num_digits = 0;
    }
  }
  if (num_digits == 0 || longest > 4) return false;
  return num_groups == 3 ||
         (num_groups == 2 && separator != '.' && IsYear(std::string(text.substr(0, 4))));
}

// Whether a text is a span of numbers, as groups of ages are named: "18 - 34", "65+".
bool IsSpan(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of("0123456789"), text.size());
  if (first == 0 || first == text.size()) return false;
  std::string_view rest = text.substr(first);
  if (rest == "+") return true;
  size_t num_signs = 0;
  while (!rest.empty() && !IsDigit(rest[0])) {
    const std::string_view sign = rest.starts_with("–") ? "–" : rest.substr(0, 1);
    if (sign != "–" && sign != "-" && sign != " ") return false;
    num_signs += sign != " ";
    rest.remove_prefix(sign.size());
  }
  return num_signs == 1 && !rest.empty() && rest.find_first_not_of("0123456789") == rest.npos;
}

// How the cells below a name are: whether one repeats it, and how many are numbers and dates.
struct Below {
  size_t num_cells = 0, num_numbers = 0, num_dates = 0;
  bool repeats_name = false;
};

}  // namespace

bool CellLooksLikeNumber(std::string_view text) {
  size_t num_digits = 0, num_others = 0;
  // A letter before a digit is no currency: "Q1", "FDR2021".
  const char first = text.empty() ? '\0' : Lower(text[0]);
  if (first >= 'a' && first <= 'z') {
    const size_t digit = text.find_first_of("0123456789");
    if (digit != std::string_view::npos && Lower(text[digit - 1]) >= 'a' &&
        Lower(text[digit - 1]) <= 'z')
      return false;
  }
  for (const char c : text) {
    if (IsDigit(c)) {
      ++num_digits;
    } else if (std::string_view(".,-+/: %$'()").find(c) == std::string_view::npos) {
      ++num_others;  // of bytes: a currency has at most three
    }
  }
  return num_digits > 0 && num_others <= 3 && num_others <= num_digits;
}

// Whether `names` are the names of the columns of the rows from `first` on.
SheetRows::Header SheetRows::Judge(const Row& names, const std::vector<Row>& rows, size_t first) {
  if (names.size() < 2 || first == rows.size()) return Header::kNone;
  std::map<uint32_t, Below> below;
  std::set<std::string> different;
  size_t num_texts = 0, num_dates = 0, num_again = 0;
  const SheetCell* last_name = nullptr;
  for (const SheetCell& name : names) {
    const bool is_date = !name.is_text && IsDateInDigits(name.text);
    if (!name.is_text && !is_date && !IsYear(name.text)) return Header::kNone;
    const bool is_again = !different.insert(name.text).second && !name.is_merged;
    // Values next to each other are often the same, names are not.
    if (is_again && last_name != nullptr && last_name->text == name.text) return Header::kNone;
    if (name.text.size() > kMostNameBytes) return Header::kNone;
    num_again += is_again;
    num_texts += name.is_text;
    num_dates += is_date;
    below[name.column] = {};
    last_name = &name;
  }
  // Columns of days are many; one date is more likely a value.
  if (num_dates == 1) return Header::kNone;
  size_t num_outside = 0, num_inside = 0;
  for (size_t i = first; i < rows.size(); ++i) {
    for (const SheetCell& cell : rows[i]) {
      const auto found = below.find(cell.column);
      // A column of keys, to the left, often has no name.
      if (found == below.end()) num_outside += cell.column + 1 != names.front().column;
      if (found == below.end()) continue;
      ++num_inside;
      ++found->second.num_cells;
      found->second.num_numbers += !cell.is_text;
      found->second.num_dates += !cell.is_text && IsDateInDigits(cell.text);
      found->second.repeats_name |=
          cell.text == std::find_if(names.begin(), names.end(), [&](const SheetCell& name) {
                         return name.column == cell.column;
                       })->text;
    }
  }
  if (num_inside == 0 || num_outside * 4 > num_inside) return Header::kNone;
  bool is_certain = num_texts < names.size();
  for (const SheetCell& name : names) {
    const Below& cells = below[name.column];
    if (cells.repeats_name) return Header::kNone;
    const bool is_date = !name.is_text && IsDateInDigits(name.text);
    if (is_date && cells.num_dates > 0) return Header::kNone;
    is_certain |= name.is_text && cells.num_cells > 0 && cells.num_numbers * 2 >= cells.num_cells;
  }
  // Columns may have the same name, where the sheet holds the same things more than once.
  if (num_again > 0 && (!is_certain || different.size() * 2 < names.size())) return Header::kNone;
  if (is_certain && names.size() == 2) {
    const Below& last = below[names.back().column];
    if (last.num_numbers < last.num_cells) return Header::kNone;
  }
  if (is_certain) return Header::kCertain;
  return names.size() > 2 ? Header::kGuessed : Header::kNone;
}

// Whether every waiting row from `first` on stays in the columns of the names before.
bool SheetRows::FitsColumns(size_t first) const {
  if (names_.empty()) return false;
  for (size_t i = first; i < waiting_.size(); ++i) {
    for (const SheetCell& cell : waiting_[i]) {
      if (!names_.contains(cell.column)) return false;
    }
  }
  return true;
}

// The waiting row that names the columns, or else the first one of several cells; the number of
// rows where there is none. Sets `header` to how sure that is.
size_t SheetRows::FindNames(Header& header) const {
  size_t first = 0;
  while (first < waiting_.size() && waiting_[first].size() < 2) ++first;
  if (first == waiting_.size()) return first;
  header = Judge(waiting_[first], waiting_, first + 1);
  if (header == Header::kCertain) return first;
  for (size_t i = first + 1; i + 1 < waiting_.size(); ++i) {
    const Row& below = waiting_[i + 1];
    const bool has_number = std::any_of(below.begin(), below.end(), [&](const SheetCell& cell) {
      return !cell.is_text &&
             std::any_of(waiting_[i].begin(), waiting_[i].end(), [&](const SheetCell& name) {
               return name.is_text && name.column == cell.column;
             });
    });
    if (waiting_[i].size() < 3 || !has_number ||
        Judge(waiting_[i], waiting_, i + 1) != Header::kCertain)
      continue;
    header = Header::kCertain;
    return i;
  }
  return first;
}

// Says each of `groups` in the columns behind it that have no group, but one of `names`, as if its
// cell spanned them; false, and nothing is changed: these are no groups. Two or more of them must
// span columns, since a single one may be a title, and a row of names may lack some.
bool SheetRows::SpreadGroups(const Row& names, Row& groups) {
  const auto has_words = [](const SheetCell& cell) {
    return std::any_of(cell.text.begin(), cell.text.end(), [](char c) {
      return IsDigit(c) || IsAsciiLetter(c) || static_cast<uint8_t>(c) >= 0x80;
    });
  };
  Row spread;
  size_t num_wide = 0;
  std::vector<std::string> last_names;  // of the last group that spans columns
  for (size_t i = 0; i < groups.size(); ++i) {
    const SheetCell& group = groups[i];
    if (group.is_merged || group.text.size() > kMostNameBytes) return false;
    const uint32_t behind = i + 1 < groups.size() ? groups[i + 1].column : UINT32_MAX;
    SheetCell part = group;
    auto name = std::find_if(names.begin(), names.end(),
                             [&](const SheetCell& cell) { return cell.column == group.column; });
    // Where the groups have the same names, columns behind these belong to no group.
    std::vector<std::string> own_names;
    for (; name != names.end() && name->column == part.column && name->column < behind; ++name) {
      if (own_names.size() >= 2 && own_names == last_names) break;
      if (!has_words(*name)) return false;
      own_names.push_back(name->text);
      spread.push_back(part);
      ++part.column;
    }
    if (own_names.size() > 1) last_names = std::move(own_names);
    const uint32_t width = part.column - group.column;
    num_wide += width > 1;
    for (size_t last = spread.size(); width > 1 && last > spread.size() - width; --last)
      spread[last - 1].is_merged = true;
    if (width == 0) spread.push_back(group);  // a column that this row alone names
  }
  if (num_wide < 2) return false;
  groups = std::move(spread);
  return true;
}

// Makes one row of two that name the columns together: groups of columns, and the columns of each.
void SheetRows::CombineNames() {
  size_t first = 0;
  while (first < waiting_.size() && waiting_[first].size() < 2) ++first;
  if (first + 2 >= waiting_.size()) return;
  const auto can_name = [](const SheetCell& cell) {
    return cell.is_text || IsYear(cell.text) || IsDateInDigits(cell.text) || IsSpan(cell.text);
  };
  std::map<uint32_t, SheetCell> names;
  Row groups = waiting_[first];
  const bool is_spread = SpreadGroups(waiting_[first + 1], groups);
  for (const SheetCell& group : groups) {
    if (!can_name(group)) return;
    names[group.column] = group;
  }
  // A group has columns of different names; else the second row is no row of names.
  bool has_groups = false;
  std::map<std::string, std::string> first_names;  // by the group's
  for (const SheetCell& name : waiting_[first + 1]) {
    if (!can_name(name)) return;
    SheetCell& combined = names[name.column];
    if (combined.is_merged) {
      const auto [found, is_new] = first_names.emplace(combined.text, name.text);
      has_groups |= !is_new && found->second != name.text;
    }
    combined.column = name.column;
    combined.is_text |= name.is_text;
    if (combined.text != name.text) combined.text += (combined.text.empty() ? "" : " ") + name.text;
  }
  if (!has_groups) return;
  Row row;
  bool is_shared = false;  // whether columns that one cell spans have no names that part them
  for (auto& [column, name] : names) {
    is_shared |= !row.empty() && row.back().text == name.text;
    row.push_back(std::move(name));
  }
  const Header header = Judge(row, waiting_, first + 2);
  if (header == Header::kNone || ((is_shared || is_spread) && header != Header::kCertain)) return;
  waiting_[first] = std::move(row);
  waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(first) + 1);
}

// Finds the names in the waiting rows and writes the rows.
void SheetRows::Decide() {
  is_decided_ = true;
  CombineNames();
  Header header = Header::kNone;
  size_t first = FindNames(header);
  if (first < waiting_.size()) {
    const bool goes_on = header != Header::kCertain && FitsColumns(first);
    if (!goes_on) names_.clear();
    for (size_t i = 0; i < first; ++i) Write(waiting_[i]);
    if (header != Header::kNone && !goes_on) {
      std::vector<std::string> names;
      for (const SheetCell& name : waiting_[first]) names.push_back(name.text);
      writer_.Row(names);
      for (const SheetCell& name : waiting_[first]) names_[name.column] = name.text;
      has_guessed_ |= header == Header::kGuessed;
      ++first;
    }
  } else {
    first = 0;
  }
  for (size_t i = first; i < waiting_.size(); ++i) Write(waiting_[i]);
  waiting_.clear();
}

void SheetRows::Write(const Row& row) {
  std::vector<std::string> cells;
  for (const SheetCell& cell : row) {
    const auto name = names_.find(cell.column);
    const bool is_named = name != names_.end() && row.size() > 1;
    std::string text = is_named ? name->second + ": " + cell.text : cell.text;
    // Without names of their own columns tell nothing new.
    if (cell.is_repeat && !cells.empty() && cells.back() == text) continue;
    cells.push_back(std::move(text));
  }
  writer_.Row(cells);
}

void SheetRows::Add(std::vector<SheetCell> cells) {
  for (SheetCell& cell : cells) cell.text = CollapseSpace(cell.text, false);
  std::erase_if(cells, [](const SheetCell& cell) { return cell.text.empty(); });
  if (cells.empty()) {
    if (!is_decided_) Decide();
    is_decided_ = false;
    writer_.Gap();
  } else if (is_decided_) {
    Write(cells);
  } else {
    waiting_.push_back(std::move(cells));
    if (waiting_.size() >= kMostWaiting) Decide();
  }
}

void FillColumns(uint32_t column, uint32_t last, std::map<uint32_t, SheetCell>& row) {
  constexpr uint32_t kMostColumns = 50;
  const auto found = row.find(column);
  if (found == row.end() || row.size() < 2 || last <= column || last - column >= kMostColumns)
    return;
  if (found->second.text.size() > kMostNameBytes) return;
  found->second.is_merged = true;
  SheetCell cell = found->second;
  cell.is_repeat = true;
  for (cell.column = column + 1; cell.column <= last; ++cell.column)
    row.try_emplace(cell.column, cell);
}

void HiddenCells::TakeOut(std::vector<SheetCell>& cells) {
  if (columns_.empty()) return;
  std::erase_if(cells, [this](const SheetCell& cell) {
    auto range = std::upper_bound(
        columns_.begin(), columns_.end(), cell.column,
        [](uint32_t column, const auto& columns) { return column < columns.first; });
    const bool is_hidden = range != columns_.begin() && (--range)->second >= cell.column;
    if (is_hidden && !cell.text.empty()) used_.insert(cell.column);
    return is_hidden;
  });
}

void HiddenCells::EndSheet() {
  num_columns_ += used_.size();
  used_.clear();
  columns_.clear();
}

std::string HiddenCells::Note() const {
  const auto counted = [](uint64_t count, const char* thing) {
    return std::to_string(count) + " hidden " + thing + (count == 1 ? "" : "s");
  };
  std::string note;
  if (num_rows_ > 0) note = counted(num_rows_, "row");
  if (num_columns_ > 0) note += (note.empty() ? "" : " and ") + counted(num_columns_, "column");
  if (note.empty()) return "";
  return note + (num_rows_ + num_columns_ == 1 ? " is left out" : " are left out");
}

void SheetRows::End() {
  if (!is_decided_) Decide();
  writer_.Gap();
}

}  // namespace lectern::tools
