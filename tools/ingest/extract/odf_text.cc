#include "tools/ingest/extract/odf_text.h"

#include <algorithm>

namespace lectern::tools {
namespace {

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

NumberStyle StyleOf(std::string_view format) {
  return format == "a"   ? NumberStyle::kLowerLetter
         : format == "A" ? NumberStyle::kUpperLetter
         : format == "i" ? NumberStyle::kLowerRoman
         : format == "I" ? NumberStyle::kUpperRoman
                         : NumberStyle::kDecimal;
}

std::string Name(std::string_view text) { return std::string(text); }

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
    const bool is_hidden =
        node.Child("text-properties").Attribute("display") == "none" ||
        node.Child("table-properties").Attribute("display") == "false" ||
        node.Child("drawing-page-properties").Attribute("visibility") == "hidden";
    if (is_hidden) hidden_.insert(name);
    if (node.Child("text-properties").Attribute("text-position").starts_with("super"))
      raised_.insert(name);
  }
}

// Styles may have each other as parents, in a file that was made for it.
bool OdfStyles::IsTitle(std::string_view style) const {
  constexpr int kMostParents = 20;
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
  for (const XmlNode box : content.boxes) Blocks(box);
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
      content.boxes.push_back(node);
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
  Merged merged;
  Rows(table, merged);
  writer_.Gap();
}

void OdfText::Rows(XmlNode parent, Merged& merged) {
  for (const XmlNode node : parent) {
    if (node.name() == "table-row") {
      Row(node, merged);
    } else if (node.name() == "soft-page-break") {
      writer_.Line(std::string(1, kPageMark));
    } else if (node.name() == "table-header-rows" || node.name() == "table-rows" ||
               node.name() == "table-row-group") {
      Rows(node, merged);
    }
  }
}

// A cell that spans rows says its text in each of them.
void OdfText::Row(XmlNode row, Merged& merged) {
  constexpr int kMostRepeated = 100;
  std::vector<std::string> cells;
  Inline behind;
  int column = 0;
  for (const XmlNode cell : row) {
    const bool is_covered = cell.name() == "covered-table-cell";
    if (cell.name() != "table-cell" && !is_covered) continue;
    const int repeated = std::clamp(cell.Number("number-columns-repeated", 1), 1, kMostRepeated);
    for (int i = 0; i < repeated; ++i, ++column) {
      if (is_covered) {
        const auto found = merged.find(column);
        if (found == merged.end() || found->second.num_rows-- <= 0) continue;
        cells.push_back(found->second.text);
        continue;
      }
      Inline content;
      CellText(cell, content);
      merged[column] = {content.text, cell.Number("number-rows-spanned", 1) - 1};
      cells.push_back(content.text);
      behind.notes.insert(behind.notes.end(), content.notes.begin(), content.notes.end());
      behind.boxes.insert(behind.boxes.end(), content.boxes.begin(), content.boxes.end());
    }
  }
  writer_.Row(cells);
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
