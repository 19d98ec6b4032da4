#include "tools/ingest/table_labels.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tools/ingest/letter_forms.h"
#include "tools/ingest/table_columns.h"

namespace lectern::tools {
namespace {

// A label is no sentence that ends in a colon, and a value is no line of prose. Chosen by reading
// the fields that 1,801 PDFs give.
constexpr size_t kMostLabelWords = 4, kMostAmountLabelWords = 10, kMostValueWords = 10;
constexpr double kLikeSize = 1.5;      // of the heights of a label and its value, at most
constexpr double kMostFieldGap = 1.5;  // between two rows of a table, in their height
// A value of several lines, such as an address: how many lines it has below the first one, the gap
// between them, and how far apart they begin, in their height.
constexpr size_t kMostMoreLines = 5;
constexpr double kMostValueGap = 0.6, kValueEdge = 0.3;

bool EndsInColon(std::string_view text) { return text.ends_with(':') || text.ends_with("："); }

// "$ 262.90", "16,94 €", "15.00 %": a number with a sign of money or percent, or with two decimals.
bool IsAmount(std::string_view text) {
  constexpr size_t kMostAmountLetters = 3;  // "EUR"
  size_t num_digits = 0, num_letters = 0, num_behind_point = 0;
  bool has_sign = false, has_decimals = false, is_behind_point = false;
  const auto end_number = [&] {
    has_decimals |= is_behind_point && num_behind_point == 2;
    is_behind_point = false;
  };
  for (const uint32_t character : CodePoints(text)) {
    const int category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
    if (category == UTF8PROC_CATEGORY_ND) {
      ++num_digits;
      ++num_behind_point;
      continue;
    }
    end_number();
    if ((character == '.' || character == ',') && num_digits > 0) {
      is_behind_point = true;
      num_behind_point = 0;
    } else if (category == UTF8PROC_CATEGORY_SC || character == '%') {
      has_sign = true;
    } else if (category <= UTF8PROC_CATEGORY_LO && category != UTF8PROC_CATEGORY_CN) {
      ++num_letters;
    } else if (character != ' ' && character != '-' && character != '+' && character != 0x2212 &&
               character != '\'') {
      return false;  // "(2.24)" is the number of a formula
    }
  }
  end_number();
  return num_digits > 0 && num_letters <= kMostAmountLetters && (has_sign || has_decimals);
}

bool HasLetters(std::string_view text) {
  const auto characters = CodePoints(text);
  return std::any_of(characters.begin(), characters.end(), [](uint32_t character) {
    const int category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
    return category <= UTF8PROC_CATEGORY_LO && category != UTF8PROC_CATEGORY_CN;
  });
}

struct LabelledField {
  size_t row = 0, place = 0;  // its row, and how many fields are before it there
  WordRun label, value;
  TableCell more;       // the lines of the value below its first one
  size_t last_row = 0;  // the row of the last of them
};

class FieldFinder {
 public:
  FieldFinder(const PdfPage& page, std::span<const VisualRow> rows) : page_(page), rows_(rows) {}

  std::vector<LabelledField> Find() {
    std::vector<LabelledField> found;
    for (size_t i = 0; i < rows_.size(); ++i) {
      size_t num_fields = 0;
      for (size_t k = 0; k + 1 < rows_[i].runs.size(); ++k) {
        if (!IsField(i, k)) continue;
        found.push_back({i, num_fields++, rows_[i].runs[k], rows_[i].runs[k + 1], {}, i});
        ++k;  // a value is no label
      }
    }
    FindMoreLines(found);
    // Blocks of nothing but labels, and of nothing but values.
    std::unordered_map<size_t, size_t> num_others;
    for (const LabelledField& field : found) {
      for (const WordRun& run : {field.label, field.value}) {
        const auto [others, is_new] = num_others.try_emplace(BlockOf(run), 0);
        if (is_new) others->second = NumLinesAround(run.line);
        --others->second;
      }
      num_others[BlockOf(field.value)] -= field.more.size();
    }
    std::erase_if(found, [&](const LabelledField& field) {
      return num_others[BlockOf(field.label)] > 0 || num_others[BlockOf(field.value)] > 0;
    });
    return found;
  }

 private:
  // Gives each field the lines of its value's block that stand below the value, up to the next
  // label: an address. Nothing may stand where their label would be.
  void FindMoreLines(std::vector<LabelledField>& fields) const {
    std::unordered_map<size_t, size_t> field_of_value;  // by its line
    for (size_t i = 0; i < fields.size(); ++i) {
      if (EndsInColon(CellText(page_, {fields[i].label}))) field_of_value[fields[i].value.line] = i;
    }
    std::unordered_map<size_t, std::pair<size_t, size_t>> place_of;  // of a line: row and run
    for (size_t row = 0; row < rows_.size() && !fields.empty(); ++row) {
      for (size_t k = 0; k < rows_[row].runs.size(); ++k) {
        if (IsWholeLine(rows_[row].runs[k])) place_of[rows_[row].runs[k].line] = {row, k};
      }
    }
    for (const auto& [first, index] : field_of_value) {
      LabelledField& field = fields[index];
      for (size_t line = first + 1; line < page_.lines.size(); ++line) {
        const auto place = place_of.find(line);
        if (page_.lines[line].block != BlockOf(field.value) || field_of_value.contains(line) ||
            place == place_of.end() || field.more.size() == kMostMoreLines ||
            !IsMore(field, place->second.first, place->second.second))
          break;
        field.more.push_back(rows_[place->second.first].runs[place->second.second]);
        field.last_row = place->second.first;
      }
    }
  }
  // Whether run k of a row goes on with the value of a field.
  bool IsMore(const LabelledField& field, size_t row, size_t k) const {
    const WordRun& run = rows_[row].runs[k];
    const double height = field.value.box.Height();
    const WordRun& above = field.more.empty() ? field.value : field.more.back();
    // A program's line may end in a colon, too: "%.pdf:".
    const auto first = CodePoints(CellText(page_, {field.label}));
    const bool is_label =
        !first.empty() &&
        utf8proc_category(static_cast<utf8proc_int32_t>(first.front())) <= UTF8PROC_CATEGORY_LO;
    const bool is_behind_label = k > 0 && rows_[row].runs[k - 1].box.x_max > field.label.box.x_min;
    return is_label && row == field.last_row + 1 && !is_behind_label &&
           run.num_read <= kMostValueWords &&
           run.box.y_min - above.box.y_max <= kMostValueGap * height &&
           std::abs(run.box.x_min - field.value.box.x_min) <= kValueEdge * height &&
           run.box.Height() <= kLikeSize * height && !EndsInColon(CellText(page_, {run}));
  }

  size_t BlockOf(const WordRun& run) const { return page_.lines[run.line].block; }
  // The lines of a line's block, which are neighbours.
  size_t NumLinesAround(size_t line) const {
    const auto is_same = [&](size_t other) {
      return page_.lines[other].block == page_.lines[line].block;
    };
    size_t begin = line, end = line + 1;
    while (begin > 0 && is_same(begin - 1)) --begin;
    while (end < page_.lines.size() && is_same(end)) ++end;
    return end - begin;
  }
  bool IsWholeLine(const WordRun& run) const {
    return run.num_words == page_.lines[run.line].words.size();
  }
  // Whether runs k and k + 1 of a row are a label and its value.
  bool IsField(size_t row, size_t k) const {
    const WordRun &label = rows_[row].runs[k], &value = rows_[row].runs[k + 1];
    if (!IsWholeLine(label) || !IsWholeLine(value) || BlockOf(label) == BlockOf(value)) {
      return false;
    }
    const double height = label.box.Height(), other = value.box.Height();
    if (height > kLikeSize * other || other > kLikeSize * height) return false;
    if (value.num_read > kMostValueWords || label.num_read > kMostAmountLabelWords) return false;
    const std::string name = CellText(page_, {label}), text = CellText(page_, {value});
    if (!HasLetters(name) || EndsInColon(text)) return false;
    if (EndsInColon(name)) {
      // A further cell behind the value would stay outside of the table.
      const bool is_last =
          k + 2 == rows_[row].runs.size() || EndsInColon(CellText(page_, {rows_[row].runs[k + 2]}));
      const bool has_own_colon = name == ":" || name.ends_with(" :") || name.ends_with(" ：");
      return is_last && label.num_read <= kMostLabelWords + has_own_colon;
    }
    // The first and the last row may be a running head or foot.
    return rows_[row].runs.size() == 2 && row > 0 && row + 1 < rows_.size() && IsAmount(text);
  }

  const PdfPage& page_;
  const std::span<const VisualRow> rows_;
};

}  // namespace

void AppendLabelTables(const PdfPage& page, std::span<const VisualRow> rows,
                       std::vector<PdfTable>& tables) {
  struct Open {
    size_t table, row;
  };
  std::vector<Open> open;  // by the place of a field in its row: the table of the row above
  for (const LabelledField& field : FieldFinder(page, rows).Find()) {
    if (open.size() <= field.place) open.resize(field.place + 1, {SIZE_MAX, 0});
    Open& last = open[field.place];
    const bool is_below = last.table != SIZE_MAX && last.row + 1 == field.row &&
                          rows[field.row].box.y_min - rows[last.row].box.y_max <=
                              kMostFieldGap * rows[field.row].height;
    if (!is_below) {
      last.table = tables.size();
      tables.emplace_back();
    }
    last.row = field.last_row;
    TableCell value = {field.value};
    value.insert(value.end(), field.more.begin(), field.more.end());
    tables[last.table].rows.push_back({{field.label}, std::move(value)});
  }
}

}  // namespace lectern::tools
