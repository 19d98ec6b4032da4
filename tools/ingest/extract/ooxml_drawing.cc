#include "tools/ingest/extract/ooxml_drawing.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include "tools/ingest/alt_text.h"
#include "tools/ingest/extract/cell_format.h"

namespace lectern::tools {
namespace {

// The texts (a:t) inside of an element, with a space between paragraphs.
void AppendRuns(XmlNode node, std::string& out) {
  for (const XmlNode child : node) {
    if (child.name() == "p" && !out.empty()) out += ' ';
    if (child.name() == "t") {
      AppendAllText(child, out);
    } else {
      AppendRuns(child, out);
    }
  }
}

void WriteDiagram(XmlNode root, TextBuilder& writer) {
  for (const XmlNode point : root.Child("ptLst")) {
    const std::string_view type = point.Attribute("type");
    if (type == "pres" || type == "parTrans" || type == "sibTrans") continue;
    std::string text;
    AppendRuns(point.Child("t"), text);
    writer.Item(0, "- ", text);
  }
}

// The values that a chart keeps of one range of cells, by their place there.
using ChartValues = std::map<int, std::string>;

// `range`: c:cat, c:val, c:tx …, which holds a reference with a cache, or values of its own.
ChartValues ValuesOf(XmlNode range) {
  ChartValues values;
  XmlNode cache = range;
  for (const std::string_view name : {"strRef", "numRef", "multiLvlStrRef"}) {
    if (const XmlNode reference = range.Child(name)) cache = reference;
  }
  for (const std::string_view name :
       {"strCache", "numCache", "multiLvlStrCache", "lvl", "strLit", "numLit"}) {
    if (const XmlNode inside = cache.Child(name)) cache = inside;
  }
  std::string code;
  AppendAllText(cache.Child("formatCode"), code);
  const CellFormat format = ParseCellFormat(code);
  const bool is_number = !code.empty() || cache.name().starts_with("num");
  for (const XmlNode point : cache) {
    if (point.name() != "pt") continue;
    std::string value;
    AppendAllText(point.Child("v"), value);
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    const bool is_whole = end != value.c_str() && *end == '\0';
    if (is_number && is_whole) value = FormatCell(number, format, false);
    values[point.Number("idx", 0)] = value;
  }
  return values;
}

std::string TitleOf(XmlNode titled) {
  std::string title;
  AppendRuns(titled.Child("title"), title);
  return title;
}

// A chart's series as they are met: names, and a row of values for each category.
struct ChartTable {
  static constexpr size_t kMostSeries = 500;
  std::vector<std::string> names = {""};
  std::map<int, std::vector<std::string>> rows;  // by the category's place

  void Add(XmlNode series) {
    if (names.size() > kMostSeries) return;
    std::string name;
    for (const auto& [at, text] : ValuesOf(series.Child("tx"))) name += (at > 0 ? " " : "") + text;
    names.push_back(name);
    const XmlNode categories = series.Child("cat"), values = series.Child("val");
    Put(ValuesOf(categories ? categories : series.Child("xVal")), 0);
    Put(ValuesOf(values ? values : series.Child("yVal")), names.size() - 1);
  }
  void Put(const ChartValues& values, size_t column) {
    for (const auto& [at, value] : values) {
      std::vector<std::string>& row = rows[at];
      if (row.size() <= column) row.resize(column + 1);
      row[column] = value;
    }
  }
};

void WriteChart(XmlNode root, TextBuilder& writer) {
  const XmlNode chart = root.Child("chart");
  ChartTable table;
  std::string axes;
  for (const XmlNode part : chart.Child("plotArea")) {
    if (const std::string title = TitleOf(part); !title.empty())
      axes += (axes.empty() ? "" : ", ") + title;
    for (const XmlNode series : part) {
      if (series.name() == "ser") table.Add(series);
    }
  }
  const std::string title = TitleOf(chart);
  writer.Paragraph(axes.empty() ? title : title + (title.empty() ? "" : " ") + "(" + axes + ")");
  if (std::any_of(table.names.begin(), table.names.end(),
                  [](const std::string& name) { return !name.empty(); }))
    writer.Row(table.names);
  for (const auto& [at, row] : table.rows) writer.Row(row);
}

}  // namespace

std::string DrawingText(XmlNode properties) {
  for (const XmlNode extension : properties.Child("extLst")) {
    const XmlNode decorative = extension.Child("decorative");
    if (decorative && IsOn(decorative)) return "";
  }
  if (properties.Attribute("hidden") == "1" || properties.Attribute("hidden") == "true") return "";
  return ImageText(properties.Attribute("title"), properties.Attribute("descr"));
}

namespace {

// Writes a shape's text or, where it has none, its description.
void WriteShape(XmlNode shape, TextBuilder& writer) {
  const XmlNode properties =
      shape.Child(shape.name() == "pic" ? "nvPicPr" : "nvSpPr").Child("cNvPr");
  const std::string_view hidden = properties.Attribute("hidden");
  if (hidden == "1" || hidden == "true") return;
  std::string all;
  AppendRuns(shape.Child("txBody"), all);
  writer.Gap();
  if (CollapseSpace(all, false).empty()) writer.Line(DrawingText(properties));
  for (const XmlNode paragraph : shape.Child("txBody")) {
    std::string text;
    AppendRuns(paragraph, text);
    writer.Line(text);
  }
  writer.Gap();
}

}  // namespace

void WriteSheetDrawing(XmlNode drawing, TextBuilder& writer) {
  for (const XmlNode node : drawing) {
    if (node.name() == "AlternateContent") {
      const XmlNode choice = node.Child("Choice");
      WriteSheetDrawing(choice ? choice : node.Child("Fallback"), writer);
    } else if (node.name() == "sp" || node.name() == "pic") {
      WriteShape(node, writer);
    } else if (node.name() != "graphicFrame") {
      WriteSheetDrawing(node, writer);
    }
  }
}

void WriteGraphic(XmlNode data, const std::vector<OoxmlPackage::Relationship>& relationships,
                  const OoxmlPackage& package, TextBuilder& writer) {
  const XmlNode diagram = data.Child("relIds"), chart = data.Child("chart");
  const std::string_view id =
      diagram ? diagram.Attribute("dm") : chart.Attribute("relationships", "id");
  for (const auto& relationship : relationships) {
    if (id.empty() || relationship.id != id) continue;
    auto tree = package.Parse(relationship.target);
    if (!tree.ok()) return;
    writer.Gap();
    diagram ? WriteDiagram(tree->root(), writer) : WriteChart(tree->root(), writer);
    writer.Gap();
  }
}

}  // namespace lectern::tools
