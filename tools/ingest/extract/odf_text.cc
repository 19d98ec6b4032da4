#include "tools/ingest/extract/odf_text.h"

#include <algorithm>
#include <optional>

#include "tools/ingest/alt_text.h"
#include "tools/ingest/html.h"

namespace lectern::tools {
namespace {

int RepeatsOf(XmlNode cell) {
  constexpr int kMostRepeated = 100;
  return std::clamp(cell.Number("number-columns-repeated", 1), 1, kMostRepeated);
}

// Elements without text of the document: deleted text, comments, forms, descriptions of pictures,
// tables of contents, and fields that only a page has.
bool IsLeftOut(std::string_view name) {
  constexpr std::string_view kNames[] = {"tracked-changes",
                                         "annotation",
                                         "annotation-end",
                                         "forms",
                                         "sequence-decls",
                                         "variable-decls",
                                         "user-field-decls",
                                         "title",
                                         "desc",
                                         "ruby-text",
                                         "table-of-content",
                                         "illustration-index",
                                         "table-index",
                                         "object-index",
                                         "user-index",
                                         "alphabetical-index",
                                         "hidden-text",
                                         "hidden-paragraph",
                                         "script",
                                         "event-listeners",
                                         "page-number",
                                         "page-count",
                                         "dde-connection-decls",
                                         "calculation-settings",
                                         "index-title-template",
                                         "bibliography-source",
                                         "notes"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Styles may have each other as parents, in a file that was made for it.
constexpr int kMostParents = 20;

NumberStyle StyleOf(std::string_view format) {
  return format == "a"   ? NumberStyle::kLowerLetter
         : format == "A" ? NumberStyle::kUpperLetter
         : format == "i" ? NumberStyle::kLowerRoman
         : format == "I" ? NumberStyle::kUpperRoman
                         : NumberStyle::kDecimal;
}

std::string Name(std::string_view text) { return std::string(text); }

// The text that stands for a frame's image; empty: it is an ornament, or says nothing.
std::string DescriptionOf(XmlNode frame) {
  if (frame.Attribute("decorative") == "true") return "";
  std::string title, description;
  if (const XmlNode node = frame.Child("title")) AppendAllText(node, title);
  if (const XmlNode node = frame.Child("desc")) AppendAllText(node, description);
  return ImageText(title, description);
}

// The main part of an object that a frame shows (a formula, a chart); nullptr: it has none here.
const std::string* PartOf(XmlNode object, const ZipParts& parts) {
  const std::string_view href = object.Attribute("href");
  if (href.empty() || href.find(':') != std::string_view::npos) return nullptr;
  return parts.Find(ResolvePart("", std::string(href) + "/content.xml"));
}

// Number of paragraphs inside of an element; all those above `most` count as `most` + 1, and a
// table too.
int NumParagraphs(XmlNode node, int most) {
  int count = 0;
  for (const XmlNode child : node) {
    if (count > most) break;
    if (child.name() == "table") return most + 1;
    const bool is_paragraph = child.name() == "p" || child.name() == "h";
    count += is_paragraph ? static_cast<bool>(child.first()) : NumParagraphs(child, most - count);
  }
  return count;
}

// Whether a row has cells with tables or long texts, which part a page rather than data.
bool IsLayoutRow(XmlNode row) {
  constexpr int kMostParagraphs = 8;
  for (const XmlNode cell : row) {
    if (cell.name() == "table-cell" && NumParagraphs(cell, kMostParagraphs) > kMostParagraphs)
      return true;
  }
  return false;
}

struct TableCounts {
  int num_cells = 0, num_rows = 0, num_layout_rows = 0;
};
void CountRows(XmlNode parent, TableCounts& counts) {
  for (const XmlNode node : parent) {
    if (node.name() == "table-row") {
      for (const XmlNode cell : node) counts.num_cells += cell.name() == "table-cell";
      ++counts.num_rows;
      counts.num_layout_rows += IsLayoutRow(node);
    } else if (node.name() != "table-cell") {
      CountRows(node, counts);
    }
  }
}

// Whether a table parts a page, as in Word documents: it has one cell, or half of its rows do.
bool IsLayout(XmlNode table) {
  TableCounts counts;
  CountRows(table, counts);
  return counts.num_cells == 1 ||
         (counts.num_layout_rows > 0 && 2 * counts.num_layout_rows >= counts.num_rows);
}

}  // namespace

api::Result<ZipParts> UnpackOdf(std::string_view bytes) {
  if (bytes.starts_with("<?xml") || bytes.starts_with("\xEF\xBB\xBF<?xml"))
    return ZipParts::Single("content.xml", bytes);
  auto parts = ZipParts::Unpack(bytes);
  if (!parts.ok()) return parts.error();
  const std::string* const manifest = parts->Find("META-INF/manifest.xml");
  if (manifest && manifest->find("encryption-data") != std::string::npos) {
    return api::Error{LECTERN_INVALID_ARGUMENT, "asks for a password; save it without one", "file"};
  }
  if (!parts->Find("content.xml")) {
    return api::Error{LECTERN_INVALID_ARGUMENT, "is damaged: it has no part content.xml", "file"};
  }
  return parts;
}

void OdfStyles::AddList(XmlNode node) {
  const bool is_outline = node.name() == "outline-style";
  auto& levels = lists_[Name(is_outline ? kOutline : node.Attribute("name"))];
  for (const XmlNode child : node) {
    const int at = child.Number("level", 0) - 1;
    if (at < 0 || at >= kNumLevels) continue;
    ListLevel& level = levels[static_cast<size_t>(at)];
    level.is_number =
        (child.name() == "list-level-style-number" || child.name() == "outline-level-style") &&
        !child.Attribute("num-format").empty();
    level.style = StyleOf(child.Attribute("num-format"));
    level.prefix = child.Attribute("num-prefix");
    level.suffix = child.Attribute("num-suffix");
    level.start = child.Number("start-value", 1);
    level.num_shown = std::clamp(child.Number("display-levels", 1), 1, at + 1);
  }
}

void OdfStyles::Add(XmlNode root) {
  for (const XmlNode group : root) {
    if (group.name() == "styles" || group.name() == "automatic-styles") AddGroup(group);
  }
}

void OdfStyles::AddGroup(XmlNode group) {
  for (const XmlNode node : group) {
    if (node.name() == "list-style" || node.name() == "outline-style") AddList(node);
    if (node.name() != "style") continue;
    const std::string name = Name(node.Attribute("name"));
    if (node.Attribute("family") == "paragraph")
      parents_[name] = node.Attribute("parent-style-name");
    const std::string_view display = node.Child("text-properties").Attribute("display");
    const bool is_hidden =
        display == "none" || node.Child("table-properties").Attribute("display") == "false" ||
        node.Child("drawing-page-properties").Attribute("visibility") == "hidden";
    if (is_hidden || !display.empty()) hidden_[name] = is_hidden;
    if (node.Child("text-properties").Attribute("text-position").starts_with("super"))
      raised_.insert(name);
  }
}

bool OdfStyles::IsHidden(std::string_view style) const {
  for (int i = 0; i < kMostParents && !style.empty(); ++i) {
    if (const auto told = hidden_.find(style); told != hidden_.end()) return told->second;
    const auto found = parents_.find(style);
    if (found == parents_.end()) return false;
    style = found->second;
  }
  return false;
}

bool OdfStyles::IsTitle(std::string_view style) const {
  for (int i = 0; i < kMostParents; ++i) {
    if (style == "Title") return true;
    const auto found = parents_.find(style);
    if (found == parents_.end()) return false;
    style = found->second;
  }
  return false;
}

OdfStyles::ListLevel OdfStyles::LevelOf(std::string_view list, int level) const {
  const auto found = lists_.find(list);
  if (found == lists_.end()) return {};
  return found->second[static_cast<size_t>(std::clamp(level, 0, kNumLevels - 1))];
}

void OdfText::Blocks(XmlNode parent) {
  for (const XmlNode node : parent) {
    const std::string_view name = node.name();
    if (name.empty() || IsLeftOut(name) || styles_.IsHidden(node.Attribute("style-name"))) continue;
    if (name == "p" || name == "h") {
      Paragraph(node);
    } else if (name == "list") {
      writer_.Gap();
      List(node, node.Attribute("style-name"), 0);
      writer_.Gap();
    } else if (name == "table") {
      Table(node);
    } else if (name == "frame" || name == "custom-shape" || name == "g") {
      Box(node);
    } else if (name == "object") {
      Chart(node);
    } else if (name == "soft-page-break") {
      writer_.Paragraph(std::string(1, kPageMark));
    } else if (name != "section" || node.Attribute("display") != "none") {
      Blocks(node);
    }
  }
}

void OdfText::Paragraph(XmlNode node) {
  Inline content;
  Collect(node, content);
  if (node.name() == "h") {
    const int level = std::clamp(node.Number("outline-level", 1), 1, 10);
    const bool is_numbered = node.Attribute("is-list-header") != "true" &&
                             content.text.find_first_not_of(" \n\f") != std::string::npos;
    writer_.Heading(level, (is_numbered ? HeadingNumber(level - 1) : "") + content.text);
  } else if (styles_.IsTitle(node.Attribute("style-name"))) {
    writer_.Heading(1, content.text);
  } else {
    writer_.Paragraph(content.text);
  }
  Behind(content);
}

// The number of the next heading, such as "2.1 ", by the outline of the document's styles; empty
// where its level has none. `level` from 0.
std::string OdfText::HeadingNumber(int level) {
  const OdfStyles::ListLevel style = styles_.LevelOf(OdfStyles::kOutline, level);
  const auto at = static_cast<size_t>(level);
  while (heading_counts_.size() <= at) {
    const auto next = static_cast<int>(heading_counts_.size());
    // A level that was skipped counts as its first.
    const int start = styles_.LevelOf(OdfStyles::kOutline, next).start;
    heading_counts_.push_back(next < level ? start : start - 1);
  }
  heading_counts_.resize(at + 1);
  ++heading_counts_[at];
  if (!style.is_number) return "";
  std::string number = style.prefix;
  for (size_t i = at + 1 - static_cast<size_t>(style.num_shown); i <= at; ++i) {
    const OdfStyles::ListLevel shown = styles_.LevelOf(OdfStyles::kOutline, static_cast<int>(i));
    if (!shown.is_number) continue;
    if (number != style.prefix) number += '.';
    number += NumberText(heading_counts_[i], shown.style);
  }
  return number + style.suffix + " ";
}

std::string OdfText::LineOf(XmlNode parent) {
  Inline content;
  CellText(parent, content);
  return CollapseSpace(content.text, false);
}

void OdfText::Behind(const Inline& content) {
  for (const auto& [label, body] : content.notes) {
    Inline inside;
    CellText(body, inside);
    writer_.Paragraph("[" + label + "] " + inside.text);
  }
  for (const XmlNode box : content.boxes) Box(box);
}

void OdfText::Box(XmlNode box) {
  const std::string formula = FormulaOf(box);
  writer_.Paragraph(formula.empty() ? DescriptionOf(box) : formula);
  if (formula.empty()) Blocks(box);
}

// The formula that a frame shows (MathML), in a line; empty: it shows something else. A flat file
// has it in the frame, with its source in LibreOffice's language.
std::string OdfText::FormulaOf(XmlNode frame) const {
  const XmlNode object = frame.Child("object");
  if (!object) return "";
  if (const XmlNode math = object.Child("math")) {
    std::string source;
    AppendAllText(math.Child("semantics").Child("annotation"), source);
    return source;
  }
  const std::string* const part = PartOf(object, parts_);
  constexpr size_t kHead = 1000;  // behind a prolog
  if (!part || part->substr(0, kHead).find("math") == std::string::npos) return "";
  constexpr std::string_view kPrefix = "math:";  // of old files; a page's elements have none
  std::string page;
  for (std::string_view rest = *part; !rest.empty();) {
    const size_t at = std::min(rest.find(kPrefix), rest.size());
    page += rest.substr(0, at);
    rest.remove_prefix(std::min(rest.size(), at + kPrefix.size()));
  }
  if (page.substr(0, kHead).find("<math") == std::string::npos) return "";
  auto text = ReadHtml(page, {.name = "a formula", .keeps_all = true});
  return text.ok() ? CollapseSpace(*text, false) : "";
}

// The numbers of a chart, which it keeps as a table.
void OdfText::Chart(XmlNode object) {
  const std::string* const part = PartOf(object, parts_);
  std::optional<XmlTree> tree;
  XmlNode document = object.Child("document");
  if (part) {
    auto parsed = XmlTree::Parse(*part, "of a chart");
    if (!parsed.ok()) return;
    tree = std::move(*parsed);
    document = tree->root();
  }
  const XmlNode chart = document.Child("body").Child("chart").Child("chart");
  if (!chart) return;
  for (const std::string_view name : {"title", "subtitle"}) {
    if (const XmlNode title = chart.Child(name)) writer_.Paragraph(LineOf(title));
  }
  if (const XmlNode table = chart.Child("table")) Table(table);
}

void OdfText::Collect(XmlNode parent, Inline& content) {
  for (const XmlNode node : parent) {
    const std::string_view name = node.name();
    if (node.is_text()) {
      AppendInline(node.text(), content.text);
    } else if (name == "s" || name == "tab") {
      content.text += ' ';
    } else if (name == "line-break") {
      content.text += '\n';
    } else if (name == "soft-page-break") {
      content.text += kPageMark;
    } else if (name == "note") {
      const std::string label = std::to_string(++num_notes_);
      content.text += "[" + label + "]";
      content.notes.emplace_back(label, node.Child("note-body"));
    } else if (name == "span" && styles_.IsRaised(node.Attribute("style-name")) && node.first() &&
               node.first().is_text() && !node.first().next()) {
      AppendSuperscript(node.first().text(), content.text);
    } else if (name == "frame" || name == "custom-shape" || name == "g" || name == "text-box") {
      const std::string formula = FormulaOf(node);
      content.text += formula;
      if (formula.empty()) content.boxes.push_back(node);
    } else if (!IsLeftOut(name) && !styles_.IsHidden(node.Attribute("style-name"))) {
      Collect(node, content);
    }
  }
}

// `style`: of the list, or of the one around it.
void OdfText::List(XmlNode list, std::string_view style, int depth) {
  if (const std::string_view own = list.Attribute("style-name"); !own.empty()) style = own;
  const OdfStyles::ListLevel level = styles_.LevelOf(style, depth);
  const bool goes_on =
      list.Attribute("continue-numbering") == "true" || !list.Attribute("continue-list").empty();
  const std::string key = Name(style) + "/" + std::to_string(depth);
  counts_.push_back(goes_on && last_count_.contains(key) ? last_count_[key] : level.start - 1);
  for (const XmlNode item : list) {
    if (item.name() == "list-item" || item.name() == "list-header")
      Item(item, style, depth, counts_);
  }
  last_count_[key] = counts_.back();
  counts_.pop_back();
}

void OdfText::Item(XmlNode item, std::string_view style, int depth, std::vector<int>& counts) {
  const OdfStyles::ListLevel level = styles_.LevelOf(style, depth);
  bool needs_marker = item.name() == "list-item";
  if (needs_marker) counts.back() = item.Number("start-value", counts.back() + 1);
  for (const XmlNode node : item) {
    if (node.name() == "list") {
      List(node, style, depth + 1);
    } else if (node.name() == "h") {
      Paragraph(node);
    } else if (node.name() == "p") {
      Inline content;
      Collect(node, content);
      std::string marker = needs_marker ? "- " : "  ";
      if (needs_marker && level.is_number) {
        marker = level.prefix;
        const size_t first = counts.size() - std::min(counts.size(), size_t(level.num_shown));
        for (size_t i = first; i < counts.size(); ++i) {
          const NumberStyle number = styles_.LevelOf(style, static_cast<int>(i)).style;
          marker += (i > first ? "." : "") + NumberText(counts[i], number);
        }
        marker += level.suffix + " ";
      }
      if (content.text.find_first_not_of(" \f\n") != std::string::npos) needs_marker = false;
      writer_.Item(depth, marker, content.text);
      Behind(content);
    } else if (node.name() == "soft-page-break") {
      writer_.Item(0, "", std::string(1, kPageMark));
    }
  }
}

void OdfText::Table(XmlNode table) {
  writer_.Gap();
  if (IsLayout(table)) {
    Cells(table);
  } else {
    Grid grid;
    AddColumns(table, grid.columns);
    Rows(table, grid);
  }
  writer_.Gap();
}

// Writes the cells of a layout one below the other.
void OdfText::Cells(XmlNode table) {
  for (const XmlNode node : table) {
    node.name() == "table-cell" ? Blocks(node) : Cells(node);
  }
}

bool OdfText::IsAroundRows(XmlNode node) {
  return node.name() == "table-header-rows" || node.name() == "table-rows" ||
         node.name() == "table-row-group";
}

// Where the cells of the rows begin. Rows without several texts are lines between others.
void OdfText::AddColumns(XmlNode parent, SpannedColumns& columns) {
  for (const XmlNode row : parent) {
    if (IsAroundRows(row)) AddColumns(row, columns);
    if (row.name() != "table-row") continue;
    int column = 0, num_texts = 0;
    std::vector<int> begins;
    for (const XmlNode cell : row) {
      const bool is_cell = cell.name() == "table-cell";
      if (!is_cell && cell.name() != "covered-table-cell") continue;
      num_texts += is_cell && HasAnyText(cell);
      for (int repeated = RepeatsOf(cell); repeated > 0; --repeated, ++column) {
        if (is_cell) begins.push_back(column);
      }
    }
    if (num_texts > 1) columns.AddRow(begins);
  }
}

void OdfText::Rows(XmlNode parent, Grid& grid) {
  for (const XmlNode node : parent) {
    if (node.name() == "table-row" && IsLayoutRow(node)) {
      Cells(node);
    } else if (node.name() == "table-row") {
      Row(node, grid);
    } else if (node.name() == "soft-page-break") {
      writer_.Line(std::string(1, kPageMark));
    } else if (IsAroundRows(node)) {
      Rows(node, grid);
    }
  }
}

// A cell that spans rows says its text in each of them.
void OdfText::Row(XmlNode row, Grid& grid) {
  std::map<int, MergedCell>& merged = grid.merged;
  std::vector<std::string> cells;
  std::vector<int> widths;
  Inline behind;
  int column = 0;
  for (const XmlNode cell : row) {
    const bool is_covered = cell.name() == "covered-table-cell";
    if (cell.name() != "table-cell" && !is_covered) continue;
    for (int repeated = RepeatsOf(cell); repeated > 0; --repeated, ++column) {
      if (is_covered) {
        const auto found = merged.find(column);
        if (found == merged.end() || found->second.num_rows-- <= 0) continue;
        cells.push_back(found->second.text);
        widths.push_back(found->second.width);
        continue;
      }
      Inline content;
      CellText(cell, content);
      widths.push_back(grid.columns.WidthOf(column, cell.Number("number-columns-spanned", 1)));
      merged[column] = {content.text, cell.Number("number-rows-spanned", 1) - 1, widths.back()};
      cells.push_back(content.text);
      behind.notes.insert(behind.notes.end(), content.notes.begin(), content.notes.end());
      behind.boxes.insert(behind.boxes.end(), content.boxes.begin(), content.boxes.end());
    }
  }
  writer_.Row(cells, widths);
  Behind(behind);
}

// The paragraphs of a cell, of lists and tables in it too, one behind the other.
void OdfText::CellText(XmlNode parent, Inline& content) {
  for (const XmlNode node : parent) {
    if (node.name() == "p" || node.name() == "h") {
      if (!content.text.empty()) content.text += ' ';
      Collect(node, content);
    } else if (!node.name().empty() && !IsLeftOut(node.name())) {
      CellText(node, content);
    }
  }
}

}  // namespace lectern::tools
