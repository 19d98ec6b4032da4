#include "tools/ingest/extract/docbook_text.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "tools/ingest/alt_text.h"

namespace lectern::tools {
namespace {

// Elements that say where something is, or are in an index.
bool IsSilent(std::string_view name) {
  static const std::set<std::string_view> kSilent = {
      "indexterm",   "anchor", "remark",   "area",    "areaspec",
      "titleabbrev", "title",  "subtitle", "colspec", "spanspec"};
  return kSilent.contains(name);
}

// Appends `text` behind a separator, unless nothing stands before it.
void AppendPart(std::string_view text, std::string_view separator, std::string& out) {
  if (text.empty()) return;
  const bool is_first = out.empty() || out.ends_with(' ');
  if (!is_first && separator.starts_with('.') && (out.ends_with('.') || out.ends_with('?'))) {
    out += ' ';
  } else if (!is_first) {
    out += separator;
  }
  out += text;
}

}  // namespace

bool IsDocBookBlock(std::string_view name) {
  static const std::set<std::string_view> kBlocks = {"para",
                                                     "simpara",
                                                     "formalpara",
                                                     "itemizedlist",
                                                     "orderedlist",
                                                     "variablelist",
                                                     "procedure",
                                                     "substeps",
                                                     "stepalternatives",
                                                     "calloutlist",
                                                     "glosslist",
                                                     "segmentedlist",
                                                     "programlisting",
                                                     "programlistingco",
                                                     "screen",
                                                     "screenco",
                                                     "synopsis",
                                                     "literallayout",
                                                     "address",
                                                     "table",
                                                     "informaltable",
                                                     "figure",
                                                     "informalfigure",
                                                     "mediaobject",
                                                     "mediaobjectco",
                                                     "graphic",
                                                     "graphicco",
                                                     "screenshot",
                                                     "example",
                                                     "informalexample",
                                                     "note",
                                                     "tip",
                                                     "warning",
                                                     "caution",
                                                     "important",
                                                     "danger",
                                                     "blockquote",
                                                     "epigraph",
                                                     "equation",
                                                     "informalequation",
                                                     "cmdsynopsis",
                                                     "funcsynopsis",
                                                     "classsynopsis",
                                                     "classsynopsisinfo",
                                                     "funcsynopsisinfo",
                                                     "constructorsynopsis",
                                                     "methodsynopsis",
                                                     "bridgehead",
                                                     "refnamediv",
                                                     "abstract",
                                                     "legalnotice",
                                                     "highlights",
                                                     "listitem",
                                                     "glossentry",
                                                     "glossdef",
                                                     "varlistentry",
                                                     "question",
                                                     "answer",
                                                     "qandaentry",
                                                     "biblioentry",
                                                     "bibliomixed",
                                                     "msgset",
                                                     "productionset",
                                                     "caption",
                                                     "funcprototype",
                                                     "step",
                                                     "constraintdef",
                                                     "blockinfo",
                                                     "attribution",
                                                     "simplelist",
                                                     "formalgroup",
                                                     "printhistory",
                                                     "tasksummary",
                                                     "taskprerequisites",
                                                     "taskrelated",
                                                     "simplemsgentry"};
  return kBlocks.contains(name);
}

DocBookText::DocBookText(XmlNode root) { FindTitles(root); }

void DocBookText::FindTitles(XmlNode node) {
  constexpr size_t kMostTitleBytes = 200;  // a longer one is no title, and may be said often
  for (const XmlNode part : node) {
    if (!part.is_text()) FindTitles(part);
  }
  const std::string_view id = node.Attribute("id");
  if (id.empty()) return;
  std::string title(node.Attribute("xreflabel"));
  if (title.empty()) title = TitleOf(node);
  if (title.empty() && node.name() == "varlistentry") title = TextOf(node.Child("term"));
  if (title.empty() && node.name() == "glossentry") title = TextOf(node.Child("glossterm"));
  if (!title.empty() && title.size() <= kMostTitleBytes) titles_.emplace(id, title);
  notes_.clear();  // those of titles are read again with the text
  num_notes_ = 0;
  note_numbers_.clear();
}

std::string DocBookText::TitleOf(XmlNode node) {
  if (node.name() == "refentry") {
    const XmlNode meta = node.Child("refmeta");
    std::string title = TextOf(meta.Child("refentrytitle"));
    const std::string section = TextOf(meta.Child("manvolnum"));
    if (!title.empty()) return section.empty() ? title : title + "(" + section + ")";
    return TextOf(node.Child("refnamediv").Child("refname"));
  }
  XmlNode title = node.Child("title");
  for (const XmlNode part : node) {
    if (title) break;
    const std::string_view name = part.name();
    if (name.ends_with("info") || name == "artheader") title = part.Child("title");
  }
  return TextOf(title);
}

std::string DocBookText::TextOf(XmlNode node, std::string_view separator) {
  std::string text;
  if (node) AppendParts(node, separator, text);
  return CollapseSpace(text, false);
}

// Appends what is in an element; `separator` stands between blocks, and between elements that have
// no text around them, such as the names of an author.
void DocBookText::AppendParts(XmlNode node, std::string_view separator, std::string& out) {
  bool has_text = false;
  for (const XmlNode part : node) {
    has_text |= part.is_text() && part.text().find_first_not_of(" \t\r\n") != std::string::npos;
  }
  bool was_block = false;
  for (const XmlNode part : node) {
    const bool is_block = !part.is_text() && (IsDocBookBlock(part.name()) || !has_text);
    std::string text;
    if (is_block && IsDocBookBlock(part.name())) {
      if (!IsSilent(part.name())) AppendParts(part, separator, text);
    } else {
      Append(part, text);
    }
    if (is_block || was_block) {
      const std::string line = CollapseSpace(text, false);
      if (line.empty()) continue;
      AppendPart(line, separator, out);
    } else {
      out += text;
    }
    was_block = is_block;
  }
}

void DocBookText::AppendInside(XmlNode node, std::string& out) {
  for (const XmlNode part : node) Append(part, out);
}

void DocBookText::Append(XmlNode node, std::string& out) {
  if (node.is_text()) return AppendInline(node.text(), out);
  const std::string_view name = node.name();
  if (IsSilent(name)) return;
  if (name == "quote") {
    out += "“";
    AppendInside(node, out);
    out += "”";
  } else if (name == "optional") {
    out += '[';
    AppendInside(node, out);
    out += ']';
  } else if (name == "superscript") {
    std::string raised;
    AppendInside(node, raised);
    AppendSuperscript(raised, out);
  } else if (name == "footnote") {
    AppendNote(node, out);
  } else if (name == "footnoteref") {
    const auto note = note_numbers_.find(node.Attribute("linkend"));
    if (note != note_numbers_.end()) out += "[" + std::to_string(note->second) + "]";
  } else if (name == "citerefentry") {
    out += TextOf(node.Child("refentrytitle"));
    const std::string section = TextOf(node.Child("manvolnum"));
    if (!section.empty()) out += "(" + section + ")";
  } else if (name == "keycombo" || name == "menuchoice" || name == "simplelist") {
    const std::string_view between = name == "keycombo" ? "+" : name == "menuchoice" ? " > " : ", ";
    std::string parts, keys;
    for (const XmlNode part : node) {
      if (part.name() == "shortcut") keys = TextOf(part);
      std::string text;
      if (part.name() != "shortcut") Append(part, text);
      text = CollapseSpace(text, false);
      if (!text.empty()) parts += (parts.empty() ? "" : std::string(between)) + text;
    }
    if (!keys.empty()) parts += " (" + keys + ")";
    out += parts;
  } else if (name == "inlinemediaobject" || name == "inlinegraphic") {
    AppendInline(ImageText("", TextOf(node.Child("textobject"))), out);
  } else if (name == "personname" || name == "author" || name == "editor" ||
             name == "cmdsynopsis") {
    out += name == "cmdsynopsis" ? CommandOf(node) : TextOf(node);
  } else if (name == "xref" || name == "link" || name == "ulink" || name == "olink") {
    const size_t before = out.size();
    AppendInside(node, out);
    if (out.find_first_not_of(' ', before) != out.npos) return;
    const auto title = titles_.find(node.Attribute("linkend"));
    if (title != titles_.end()) out += title->second;
    if (title == titles_.end()) AppendInline(node.Attribute("url"), out);
    if (title == titles_.end() && node.Attribute("url").empty())
      AppendInline(node.Attribute("href"), out);
  } else if (name == "co") {
    return;
  } else {
    AppendInside(node, out);
  }
}

void DocBookText::AppendNote(XmlNode note, std::string& out) {
  const uint64_t number = ++num_notes_;
  const std::string mark = "[" + std::to_string(number) + "]";
  out += mark;
  note_numbers_.emplace(note.Attribute("id"), number);
  notes_.push_back(mark + " " + TextOf(note, " "));
}

void DocBookText::AppendCode(XmlNode node, std::string& out) {
  for (const XmlNode part : node) {
    if (part.is_text()) {
      out += part.text();
    } else if (part.name() == "footnote") {
      AppendNote(part, out);
    } else if (!IsSilent(part.name())) {
      AppendCode(part, out);
    }
  }
}

std::string DocBookText::CommandOf(XmlNode synopsis) {
  std::string command;
  AppendCommand(synopsis, command);
  return CollapseSpace(command, false);
}

void DocBookText::AppendCommand(XmlNode node, std::string& out) {
  const std::string_view name = node.name(), choice = node.Attribute("choice");
  const bool is_argument = name == "arg" || name == "group";
  const bool is_optional = is_argument && (choice.empty() || choice == "opt");
  const bool is_required = name == "group" && (choice == "req" || choice == "plain");
  out += is_optional ? "[" : is_required ? "{" : "";
  std::string inside;
  for (const XmlNode part : node) {
    const std::string_view kind = part.name();
    if (part.is_text()) {
      AppendInline(part.text(), inside);
    } else if (kind == "arg" || kind == "group" || kind == "command") {
      inside = inside.substr(0, inside.find_last_not_of(' ') + 1);
      if (!inside.empty()) inside += name == "group" ? " | " : " ";
      AppendCommand(part, inside);
    } else if (kind == "sbr") {
      inside += ' ';
    } else {
      Append(part, inside);
    }
  }
  out += CollapseSpace(inside, false);
  out += is_optional ? "]" : is_required ? "}" : "";
  if (node.Attribute("rep") == "repeat") out += "...";
}

std::string DocBookText::NamesOf(XmlNode names) {
  std::string list, purpose;
  for (const XmlNode part : names) {
    if (part.name() == "refname") AppendPart(TextOf(part), ", ", list);
    if (part.name() == "refpurpose") purpose = TextOf(part);
  }
  return purpose.empty() ? list : list + " — " + purpose;
}

void DocBookTable::Read(XmlNode node) {
  for (const XmlNode part : node) {
    const std::string_view name = part.name();
    if (name == "tgroup") {
      columns_.clear();
      spans_.clear();
      carried_.clear();
      num_columns_ = 0;
      Read(part);
    } else if (name == "thead" || name == "tbody" || name == "tfoot") {
      Read(part);
    } else if (name == "colspec") {
      ReadColumn(part);
    } else if (name == "spanspec") {
      spans_.emplace(part.Attribute("spanname"),
                     std::pair(part.Attribute("namest"), part.Attribute("nameend")));
    } else if (name == "row" || name == "tr") {
      Row(part);
    }
  }
}

void DocBookTable::ReadColumn(XmlNode column) {
  const int number = column.Number("colnum", num_columns_ + 1);
  num_columns_ = std::clamp(number, 1, 1000);
  columns_.emplace(column.Attribute("colname"), num_columns_ - 1);
}

int DocBookTable::ColumnOf(std::string_view name, int otherwise) const {
  const auto found = name.empty() ? columns_.end() : columns_.find(name);
  return found == columns_.end() ? otherwise : found->second;
}

void DocBookTable::Row(XmlNode row) {
  constexpr int kMostColumns = 1000;
  constexpr size_t kMostRepeated = 100;  // bytes of a cell that is said in each row it spans
  std::map<int, std::pair<std::string, int>> placed;  // text and columns of cells
  for (auto carried = carried_.begin(); carried != carried_.end();) {
    placed[carried->first] = {carried->second.text, 1};
    carried = --carried->second.num_rows > 0 ? std::next(carried) : carried_.erase(carried);
  }
  int next = 0;
  for (const XmlNode entry : row) {
    const std::string_view name = entry.name();
    if (name != "entry" && name != "entrytbl" && name != "td" && name != "th") continue;
    std::string first(entry.Attribute("namest")), last(entry.Attribute("nameend"));
    if (const auto span = spans_.find(entry.Attribute("spanname")); span != spans_.end())
      std::tie(first, last) = span->second;
    while (placed.contains(next)) ++next;
    const int column =
        std::clamp(ColumnOf(first, ColumnOf(entry.Attribute("colname"), next)), next, kMostColumns);
    const int behind = ColumnOf(last, column + std::clamp(entry.Number("colspan", 1), 1, 100) - 1);
    const int width = std::clamp(behind - column + 1, 1, 100);
    const int num_below =
        std::clamp(entry.Number("morerows", entry.Number("rowspan", 1) - 1), 0, 10'000);
    std::string text = inlines_.TextOf(entry, " ");
    if (num_below > 0) carried_[column] = {num_below, text.size() <= kMostRepeated ? text : ""};
    placed[column] = {std::move(text), width};
    next = column + width;
    if (next > kMostColumns) break;
  }
  std::vector<std::string> cells;
  std::vector<int> widths;
  int at = 0;
  for (auto& [column, cell] : placed) {
    for (; at < column; ++at) {
      cells.emplace_back();
      widths.push_back(1);
    }
    cells.push_back(std::move(cell.first));
    widths.push_back(cell.second);
    at = std::max(at, column + cell.second);
  }
  writer_.Row(cells, widths);
}

}  // namespace lectern::tools
