#include "tools/ingest/extract/spanned_columns.h"

#include <algorithm>

namespace lectern::tools {

void SpannedColumns::AddRow(const std::vector<int>& begins) {
  if (begins.size() < 2) return;
  ++num_rows_;
  for (const int column : begins) ++num_begins_[column];
}

int SpannedColumns::WidthOf(int column, int width) const {
  const auto counted = std::count_if(
      num_begins_.upper_bound(column), num_begins_.lower_bound(column + width),
      [this](const auto& begins) { return begins.second * 2 >= num_rows_; });
  return 1 + static_cast<int>(counted);
}

}  // namespace lectern::tools
