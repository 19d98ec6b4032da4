#include "tools/ingest/extract/sheet_grid.h"

#include <algorithm>

namespace lectern::tools {

std::string SheetsLeftOut::Note() const {
  std::string note;
  for (size_t i = 0; i < sheets.size(); ++i)
    note += (i > 0 ? ", " : "hidden sheets are left out: ") + sheets[i];
  AddNote(cells.Note(), note);
  AddNote(CountedNote(num_comments, "comment", "left out"), note);
  AddNote(CountedNote(num_empty_formulas, "formula",
                      "without a stored value: open and save the file in a spreadsheet program"),
          note);
  return note;
}

SheetGrid::SheetGrid(const std::vector<CellArea>& merged, bool is_filtered, HiddenCells& hidden,
                     TextBuilder& writer)
    : is_filtered_(is_filtered), hidden_(hidden), rows_(writer) {
  for (const CellArea& area : merged) {
    if (area.last_column > area.first_column)
      wide_.emplace(area.first_row, std::pair(area.first_column, area.last_column));
    if (area.last_row > area.first_row)
      merged_[area.first_column].push_back({area.first_row, area.last_row, "", true});
  }
  for (auto& [column, areas] : merged_) {
    std::sort(areas.begin(), areas.end(),
              [](const Merged& a, const Merged& b) { return a.first_row < b.first_row; });
  }
}

void SheetGrid::AddRow(uint32_t at, std::map<uint32_t, SheetCell> cells, bool is_hidden) {
  if (at > next_row_) rows_.Add({});
  next_row_ = at + 1;
  FillMerged(at, cells);
  for (auto [area, end] = wide_.equal_range(at); area != end; ++area)
    FillColumns(area->second.first, area->second.second, cells);
  std::vector<SheetCell> list;
  for (auto& [column, cell] : cells) list.push_back(std::move(cell));
  hidden_.TakeOut(list);
  if (is_hidden && !is_filtered_) {
    if (!list.empty()) hidden_.AddRow();
  } else {
    rows_.Add(std::move(list));
  }
}

void SheetGrid::End() {
  rows_.End();
  hidden_.EndSheet();
}

// Says the text of a cell that goes on over rows in each of them that has other cells.
void SheetGrid::FillMerged(uint32_t at, std::map<uint32_t, SheetCell>& cells) {
  const bool is_empty = cells.empty();
  for (auto& [column, areas] : merged_) {
    // Areas of a column do not overlap: the last that begins at or before this row is the one.
    auto area = std::upper_bound(areas.begin(), areas.end(), at,
                                 [](uint32_t row, const Merged& m) { return row < m.first_row; });
    if (area == areas.begin() || (--area)->last_row < at) continue;
    const auto found = cells.find(column);
    if (at == area->first_row && found != cells.end()) {
      area->text = found->second.text;
      area->is_text = found->second.is_text;
    } else if (at > area->first_row && !is_empty && found == cells.end() && !area->text.empty()) {
      cells[column] = {column, area->text, area->is_text};
    }
  }
}

}  // namespace lectern::tools
