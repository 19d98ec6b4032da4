#include "tools/ingest/extract/docx_styles.h"

#include <algorithm>

#include "tools/ingest/characters.h"
#include "tools/ingest/extract/ooxml_package.h"

namespace lectern::tools {
namespace {

// The n of "heading n", with or without the space, as a level from 0; -1: another name.
int HeadingOfName(std::string_view lower) {
  if (!lower.starts_with("heading")) return -1;
  lower.remove_prefix(std::string_view("heading").size());
  while (lower.starts_with(' ')) lower.remove_prefix(1);
  return lower.size() == 1 && lower[0] >= '1' && lower[0] <= '9' ? lower[0] - '1' : -1;
}

// Styles may be based on each other in a circle, in a file that was made for it.
constexpr int kMostBases = 20;

std::optional<bool> HiddenBy(XmlNode run_properties) {
  const XmlNode vanish = run_properties.Child("vanish");
  return vanish ? std::optional(IsOn(vanish)) : std::nullopt;
}

// Completes what is not told yet in `style` by the properties of a paragraph or a style (w:pPr).
void AddProperties(XmlNode properties, DocxParagraphStyle& style) {
  if (const XmlNode outline = properties.Child("outlineLvl"); outline && style.outline_level < 0)
    style.outline_level = outline.Number("val", -1);
  const XmlNode numbering = properties.Child("numPr");
  if (!numbering) return;
  if (style.list < 0) style.list = numbering.Child("numId").Number("val", -1);
  if (style.list_level < 0) style.list_level = numbering.Child("ilvl").Number("val", -1);
}

}  // namespace

DocxStyles::DocxStyles(XmlNode root) {
  for (const XmlNode node : root) {
    if (node.name() != "style") continue;
    const std::string id(node.Attribute("styleId"));
    if (node.Attribute("type") == "character") {
      Style& style = character_styles_[id];
      style.based_on = node.Child("basedOn").Attribute("val");
      style.own.is_hidden = HiddenBy(node.Child("rPr"));
    }
    if (node.Attribute("type") != "paragraph") continue;
    const std::string name = Lower(node.Child("name").Attribute("val"));
    Style& style = styles_[id];
    style.based_on = node.Child("basedOn").Attribute("val");
    AddProperties(node.Child("pPr"), style.own);
    const int heading = std::max(HeadingOfName(name), HeadingOfName(Lower(id)));
    if (style.own.outline_level < 0 && heading >= 0) style.own.outline_level = heading;
    style.own.is_title = name == "title";
    style.own.is_contents = name.starts_with("toc ") || name.starts_with("contents ") ||
                            name == "table of figures" || name == "toc heading";
    style.own.is_hidden = HiddenBy(node.Child("rPr"));
    if (node.Attribute("default") == "1" || node.Attribute("default") == "true") default_ = id;
  }
}

void DocxStyles::Complete(std::string_view id, DocxParagraphStyle& style) const {
  for (int i = 0; i < kMostBases; ++i) {
    const auto found = styles_.find(id);
    if (found == styles_.end()) return;
    const DocxParagraphStyle& base = found->second.own;
    if (style.outline_level < 0) style.outline_level = base.outline_level;
    if (style.list < 0) style.list = base.list;
    if (style.list_level < 0) style.list_level = base.list_level;
    if (!style.is_hidden) style.is_hidden = base.is_hidden;
    if (i == 0) {
      style.is_title = base.is_title;
      style.is_contents = base.is_contents;
    }
    id = found->second.based_on;
  }
}

DocxParagraphStyle DocxStyles::StyleOf(XmlNode paragraph) const {
  DocxParagraphStyle style;
  const XmlNode properties = paragraph.Child("pPr");
  AddProperties(properties, style);
  const std::string_view id = properties.Child("pStyle").Attribute("val");
  Complete(id.empty() ? std::string_view(default_) : id, style);
  // A file without styles may still name the built-in ones.
  if (style.outline_level < 0 && !styles_.contains(id))
    style.outline_level = HeadingOfName(Lower(id));
  return style;
}

bool DocxStyles::IsHidden(XmlNode run, bool is_paragraph_hidden) const {
  const XmlNode properties = run.Child("rPr");
  if (const auto own = HiddenBy(properties)) return *own;
  std::string_view id = properties.Child("rStyle").Attribute("val");
  for (int i = 0; i < kMostBases && !id.empty(); ++i) {
    const auto found = character_styles_.find(id);
    if (found == character_styles_.end()) break;
    if (found->second.own.is_hidden) return *found->second.own.is_hidden;
    id = found->second.based_on;
  }
  return is_paragraph_hidden;
}

void DocxNumbering::ReadLevel(XmlNode node, Levels& levels) {
  const int at = node.Number("ilvl", kNumLevels);
  if (at >= kNumLevels) return;
  Level& level = levels[static_cast<size_t>(at)];
  const std::string_view format = node.Child("numFmt").Attribute("val");
  level.is_bullet = format == "bullet";
  level.is_none = format == "none";
  level.style = format == "lowerLetter"   ? NumberStyle::kLowerLetter
                : format == "upperLetter" ? NumberStyle::kUpperLetter
                : format == "lowerRoman"  ? NumberStyle::kLowerRoman
                : format == "upperRoman"  ? NumberStyle::kUpperRoman
                                          : NumberStyle::kDecimal;
  level.text = node.Child("lvlText").Attribute("val");
  level.start = node.Child("start").Number("val", 1);
  level.restart = node.Child("lvlRestart").Number("val", -1);
  level.is_legal = IsOn(node.Child("isLgl"));
}

// Definitions of lists may refer to another one by the name of a style (numStyleLink, styleLink).
DocxNumbering::DocxNumbering(XmlNode root) {
  std::map<int, Levels> abstracts;
  std::map<std::string, int, std::less<>> styles;
  for (const XmlNode node : root) {
    if (node.name() != "abstractNum") continue;
    const int id = node.Number("abstractNumId", -1);
    Levels& levels = abstracts[id];
    for (const XmlNode level : node) {
      if (level.name() == "lvl") ReadLevel(level, levels);
    }
    if (const XmlNode style = node.Child("styleLink")) styles.emplace(style.Attribute("val"), id);
  }
  for (const XmlNode node : root) {
    const auto linked = styles.find(node.Child("numStyleLink").Attribute("val"));
    if (node.name() == "abstractNum" && linked != styles.end())
      abstracts[node.Number("abstractNumId", -1)] = abstracts[linked->second];
  }
  for (const XmlNode node : root) {
    if (node.name() == "num") AddList(node, abstracts);
  }
}

void DocxNumbering::AddList(XmlNode num, const std::map<int, Levels>& abstracts) {
  List& list = lists_[num.Number("numId", -1)];
  list.abstract = num.Child("abstractNumId").Number("val", -1);
  if (const auto found = abstracts.find(list.abstract); found != abstracts.end())
    list.levels = found->second;
  for (const XmlNode change : num) {
    const int at = change.Number("ilvl", kNumLevels);
    if (change.name() != "lvlOverride" || at >= kNumLevels) continue;
    if (const XmlNode level = change.Child("lvl")) ReadLevel(level, list.levels);
    if (const XmlNode start = change.Child("startOverride")) {
      list.levels[static_cast<size_t>(at)].start = start.Number("val", 1);
      list.restarts[static_cast<size_t>(at)] = true;
    }
  }
}

std::string DocxNumbering::NextMarker(int list_id, int level_number) {
  const auto found = lists_.find(list_id);
  if (found == lists_.end()) return list_id > 0 ? "- " : "";
  List& list = found->second;
  const auto at = static_cast<size_t>(std::clamp(level_number, 0, kNumLevels - 1));
  const Level& level = list.levels[at];
  auto [entry, is_new] = counts_.try_emplace(list.abstract);
  std::array<int, kNumLevels>& counts = entry->second;
  if (is_new) counts.fill(-1);
  if (list.restarts[at]) {
    list.restarts[at] = false;
    counts[at] = -1;
  }
  counts[at] = counts[at] < 0 ? level.start : counts[at] + 1;
  for (size_t below = at + 1; below < kNumLevels; ++below) {
    if (list.levels[below].restart != 0) counts[below] = -1;
  }
  if (level.is_bullet) return "- ";
  std::string marker;
  for (size_t i = 0; i < level.text.size(); ++i) {
    const char digit = i + 1 < level.text.size() ? level.text[i + 1] : '\0';
    if (level.text[i] != '%' || digit < '1' || digit > '9') {
      marker += level.text[i];
      continue;
    }
    const auto named = static_cast<size_t>(digit - '1');
    const Level& of_number = list.levels[named];
    ++i;
    if (of_number.is_none) continue;
    const int number = counts[named] < 0 ? of_number.start : counts[named];
    marker += NumberText(number, level.is_legal ? NumberStyle::kDecimal : of_number.style);
  }
  return marker.find_first_not_of(' ') == std::string::npos ? "" : marker + " ";
}

}  // namespace lectern::tools
