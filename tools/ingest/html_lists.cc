#include "tools/ingest/html_lists.h"

#include <gumbo.h>

#include <algorithm>
#include <string_view>

#include "tools/ingest/characters.h"
#include "tools/ingest/line_markers.h"

namespace lectern::tools {
namespace {

constexpr size_t kMostMarkerBytes = 12;  // "10.11.12.", "Q10.3.:"

// "1.1.", "(a)", "•" as in other documents, or a question's and an answer's letter: "Q:", "A12.".
bool IsMarker(std::string_view text) {
  if (text.find_first_not_of('.') == std::string_view::npos) return false;  // "..." and nothing
  if (IsListMarker(text)) return true;
  const char first = text.empty() ? ' ' : text.front();
  const bool is_answer = first == 'Q' || first == 'A';
  if (is_answer) text.remove_prefix(1);
  const bool is_closed = text.ends_with('.') || text.ends_with(':');
  if (!is_closed || (!is_answer && !IsAsciiDigit(first))) return false;
  return text.find_first_not_of("0123456789.") >= text.size() - 1;
}

bool SpansOthers(const HtmlItem& cell) {
  return NumberAttribute(cell.node, "colspan", 1) > 1 ||
         NumberAttribute(cell.node, "rowspan", 1) > 1;
}

// A row whose first cell is empty or a marker, or which has one cell.
struct Row {
  size_t marker = 0, text = 0;  // items of its cells; 0: none
};

// The rows of the table at `table` if it is a list; else none. Tables inside of it are left alone.
std::vector<Row> RowsOfList(const std::vector<HtmlItem>& items, size_t table) {
  std::vector<Row> rows;
  bool has_markers = false;
  for (size_t i = table + 1; i < items[table].end; ++i) {
    if (items[i].tag == GUMBO_TAG_TH) return {};
    if (items[i].tag == GUMBO_TAG_TR) rows.emplace_back();
    if (items[i].tag != GUMBO_TAG_TD) continue;
    if (rows.empty() || items[i].parent < table || items[items[i].parent].tag != GUMBO_TAG_TR) {
      return {};
    }
    Row& row = rows.back();
    if (row.marker > 0) return {};  // a third cell
    if (row.text > 0) {
      const std::string marker = MarkerText(items, row.text);
      const bool is_marked = IsMarker(marker);
      if (SpansOthers(items[row.text]) || SpansOthers(items[i])) return {};
      if (!is_marked && items[row.text].shown > 0) return {};
      if (is_marked && items[i].shown == 0) return {};
      has_markers |= is_marked;
      row.marker = row.text;
    }
    row.text = i;
    i = items[i].end - 1;
  }
  return has_markers ? rows : std::vector<Row>();
}

}  // namespace

std::string MarkerText(const std::vector<HtmlItem>& items, size_t i) {
  if (items[i].shown == 0 || items[i].shown > kMostMarkerBytes) return "";
  std::string text;
  for (size_t at = i; at < items[i].end; ++at) {
    if (!IsText(items[at].node)) continue;
    for (const char c : std::string_view(items[at].node->v.text.text)) {
      if (!IsHtmlSpace(c)) {
        text += c;
      } else if (!text.empty() && !text.ends_with(' ')) {
        text += ' ';
      }
    }
  }
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

void MarkListTables(std::vector<HtmlItem>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].tag != GUMBO_TAG_TABLE) continue;
    for (const Row& row : RowsOfList(items, i)) {
      if (row.marker > 0) items[row.marker].part = HtmlItem::Part::kMarker;
      if (row.text > 0) items[row.text].part = HtmlItem::Part::kText;
    }
  }
}

}  // namespace lectern::tools
