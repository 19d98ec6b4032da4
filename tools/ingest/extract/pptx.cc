// PowerPoint presentations (.pptx, .pptm, .ppsx): ECMA-376 part 1, PresentationML.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/ingest/extract/docx_math.h"
#include "tools/ingest/extract/ooxml_drawing.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/list_numbers.h"

namespace lectern::tools {
namespace {

std::string Target(const std::vector<OoxmlPackage::Relationship>& relationships,
                   std::string_view id) {
  for (const auto& relationship : relationships) {
    if (relationship.id == id) return relationship.target;
  }
  return "";
}

// The kind of a placeholder that a shape fills: "title", "body", ... "obj" where it is not told;
// empty: it is none.
std::string_view PlaceholderOf(XmlNode shape) {
  const XmlNode placeholder = shape.Child("nvSpPr").Child("nvPr").Child("ph");
  if (!placeholder) return "";
  const std::string_view type = placeholder.Attribute("type");
  return type.empty() ? "obj" : type;
}

// The properties that every kind of shape has: its name, its description.
XmlNode PropertiesOf(XmlNode shape) {
  for (const XmlNode child : shape) {
    if (const XmlNode properties = child.Child("cNvPr")) return properties;
  }
  return {};
}

bool IsHiddenShape(XmlNode shape) {
  const std::string_view hidden = PropertiesOf(shape).Attribute("hidden");
  return hidden == "1" || hidden == "true";
}

// The number of a list's item as a type of DrawingML's writes it: "arabicPeriod", "alphaLcParenR".
std::string NumberedAs(std::string_view type, int number) {
  const NumberStyle style = type.starts_with("alphaLc")   ? NumberStyle::kLowerLetter
                            : type.starts_with("alphaUc") ? NumberStyle::kUpperLetter
                            : type.starts_with("romanLc") ? NumberStyle::kLowerRoman
                            : type.starts_with("romanUc") ? NumberStyle::kUpperRoman
                                                          : NumberStyle::kDecimal;
  const std::string text = NumberText(number, style);
  if (type.ends_with("ParenBoth")) return "(" + text + ") ";
  return text + (type.ends_with("ParenR") ? ") " : type.ends_with("Plain") ? " " : ". ");
}

bool IsTitle(std::string_view kind) { return kind == "title" || kind == "ctrTitle"; }

class SlideReader {
 public:
  SlideReader(const OoxmlPackage& package, TextBuilder& writer)
      : package_(package), writer_(writer) {}

  void Read(const std::string& part, XmlNode slide) {
    relationships_ = package_.RelationshipsOf(part);
    const XmlNode shapes = slide.Child("cSld").Child("spTree");
    title_ = {};
    if (!Titles(shapes)) {
      title_ = TopLine(shapes);
      writer_.Heading(1, AllLines(title_.Child("txBody")));
    }
    Shapes(shapes);
  }

  // The notes page: the text of its body alone.
  void ReadNotes(XmlNode notes) {
    for (const XmlNode shape : notes.Child("cSld").Child("spTree")) {
      if (PlaceholderOf(shape) == "body") TextBody(shape.Child("txBody"), false);
    }
  }

 private:
  static std::string LineOf(XmlNode paragraph) {
    std::string text;
    for (const XmlNode run : paragraph) {
      if (run.name() == "br") text += '\n';
      if (run.name() != "r" && run.name() != "fld" && run.name() != "m" &&
          run.name() != "AlternateContent")
        continue;
      if (run.name() == "fld" && run.Attribute("type") == "slidenum") continue;
      const XmlNode plain = run.Child("t");
      if (!plain) {
        const XmlNode formula = run.name() == "AlternateContent" ? run.Child("Choice") : run;
        AppendInline(OfficeMathText(formula), text);
        continue;
      }
      std::string piece;
      AppendAllText(plain, piece);
      run.Child("rPr").Number("baseline", 0) > 0 ? AppendSuperscript(piece, text)
                                                 : AppendInline(piece, text);
    }
    return text;
  }

  static std::string AllLines(XmlNode body) {
    std::string text;
    for (const XmlNode paragraph : body) {
      if (paragraph.name() == "p") text += (text.empty() ? "" : " ") + LineOf(paragraph);
    }
    return text;
  }

  // Whether there are any.
  bool Titles(XmlNode shapes) {
    bool has_title = false;
    for (const XmlNode shape : shapes) {
      if (IsTitle(PlaceholderOf(shape))) {
        const std::string title = AllLines(shape.Child("txBody"));
        writer_.Heading(1, title);
        has_title |= !CollapseSpace(title, false).empty();
      }
      if (shape.name() == "grpSp") has_title |= Titles(shape);
    }
    return has_title;
  }

  // The shape whose text is the title of a slide that fills no placeholder for one: a short line
  // above all tables, charts and other texts, in letters as large as any of it. None: there is
  // none.
  static XmlNode TopLine(XmlNode shapes) {
    constexpr size_t kMostTitleBytes = 100;  // a choice: longer ones are sentences
    XmlNode best;
    int64_t best_top = 0, best_middle = 0, best_size = 0, next_top = INT64_MAX, most_size = 0;
    for (const XmlNode shape : shapes) {
      const std::string_view kind = PlaceholderOf(shape);
      if (IsHiddenShape(shape) || IsOfFrame(kind)) continue;
      std::string text;
      AppendAllText(shape, text);
      const bool is_graphic = shape.name() == "graphicFrame";  // a chart has its text elsewhere
      if (!is_graphic && CollapseSpace(text, false).empty()) continue;
      const XmlNode form = shape.Child(shape.name() == "grpSp" ? "grpSpPr" : "spPr").Child("xfrm");
      const XmlNode place = form ? form : shape.Child("xfrm");
      if (!place) return {};  // its layout has it
      const int64_t top = place.Child("off").Number("y", 0);
      const int64_t middle = top + place.Child("ext").Number("cy", 0) / 2;
      const int64_t size = LargestLetters(shape.Child("txBody"));
      if (!best || top < best_top) {
        if (best)
          next_top = std::min(next_top, best_top), most_size = std::max(most_size, best_size);
        best = shape;
        best_top = top;
        best_middle = middle;
        best_size = size;
      } else {
        next_top = std::min(next_top, top);
        most_size = std::max(most_size, size);
      }
    }
    if (!best || best.name() != "sp" || next_top == INT64_MAX || next_top < best_middle ||
        best_size < most_size)
      return {};
    size_t num_lines = 0;
    for (const XmlNode paragraph : best.Child("txBody")) {
      num_lines += paragraph.name() == "p" && !CollapseSpace(LineOf(paragraph), false).empty();
    }
    const bool is_short = AllLines(best.Child("txBody")).size() <= kMostTitleBytes;
    return num_lines == 1 && is_short ? best : XmlNode();
  }

  // The size that a text's runs name, in hundredths of a point; 0: none does.
  static int LargestLetters(XmlNode body) {
    int largest = 0;
    for (const XmlNode paragraph : body) {
      for (const XmlNode run : paragraph)
        largest = std::max(largest, run.Child("rPr").Number("sz", 0));
    }
    return largest;
  }

  // A placeholder of what stands on each slide: its number, the date, feet and heads.
  static bool IsOfFrame(std::string_view kind) {
    return kind == "sldNum" || kind == "dt" || kind == "ftr" || kind == "hdr";
  }

  void Shapes(XmlNode shapes) {
    for (const XmlNode shape : shapes) {
      if (IsHiddenShape(shape) || shape == title_) continue;
      writer_.Paragraph(DrawingText(PropertiesOf(shape)));
      if (shape.name() == "grpSp") {
        Shapes(shape);
      } else if (shape.name() == "AlternateContent") {
        const XmlNode choice = shape.Child("Choice");
        Shapes(choice ? choice : shape.Child("Fallback"));
      } else if (shape.name() == "graphicFrame") {
        Graphic(shape.Child("graphic").Child("graphicData"));
      } else if (shape.name() == "sp" || shape.name() == "cxnSp") {
        const std::string_view kind = PlaceholderOf(shape);
        if (IsTitle(kind) || IsOfFrame(kind)) continue;
        // The layout gives bullets to these placeholders.
        TextBody(shape.Child("txBody"), kind == "obj" || kind == "body");
      }
    }
  }

  void TextBody(XmlNode body, bool has_bullets) {
    writer_.Gap();
    std::array<int, 9> numbers{};  // of the last items, by level
    for (const XmlNode paragraph : body) {
      if (paragraph.name() != "p") continue;
      const XmlNode properties = paragraph.Child("pPr");
      const std::string text = LineOf(paragraph);
      const XmlNode counted = properties.Child("buAutoNum");
      const bool is_numbered = static_cast<bool>(counted);
      const bool is_item = is_numbered || properties.Child("buChar") ||
                           properties.Child("buBlip") ||
                           (has_bullets && !properties.Child("buNone"));
      const int level = std::min(properties.Number("lvl", 0), 8);
      int& number = numbers[static_cast<size_t>(level)];
      const int first = counted.Number("startAt", 1);
      number = !is_numbered ? 0 : number == 0 ? first : number + 1;
      std::fill(numbers.begin() + level + 1, numbers.end(), 0);
      if (is_item) {
        writer_.Item(level, is_numbered ? NumberedAs(counted.Attribute("type"), number) : "- ",
                     text);
      } else {
        writer_.Paragraph(text);
      }
    }
    writer_.Gap();
  }

  // A table, a diagram or a chart.
  void Graphic(XmlNode data) {
    writer_.Gap();
    std::map<size_t, std::string> merged;  // texts of cells that go on downwards, by column
    for (const XmlNode row : data.Child("tbl")) {
      std::vector<std::string> cells;
      std::vector<int> widths;
      size_t column = 0;
      for (const XmlNode cell : row) {
        if (cell.name() != "tc") continue;
        if (IsSet(cell, "hMerge")) {
          ++column;
          continue;
        }
        std::string text = AllLines(cell.Child("txBody"));
        if (cell.Number("rowSpan", 1) > 1) merged[column] = text;
        if (IsSet(cell, "vMerge")) text = merged[column];
        ++column;
        widths.push_back(cell.Number("gridSpan", 1));
        cells.push_back(std::move(text));
      }
      writer_.Row(cells, widths);
    }
    writer_.Gap();
    WriteGraphic(data, relationships_, package_, writer_);
  }

  static bool IsSet(XmlNode node, const char* attribute) {
    return node.Attribute(attribute) == "1" || node.Attribute(attribute) == "true";
  }

  const OoxmlPackage& package_;
  TextBuilder& writer_;
  std::vector<OoxmlPackage::Relationship> relationships_;  // of the current slide
  XmlNode title_;  // the shape that was written as the slide's title; none: placeholders were
};

}  // namespace

api::Result<Extracted> ReadPptx(std::string_view bytes) {
  auto package = OoxmlPackage::Open(bytes);
  if (!package.ok()) return package.error();
  auto presentation = package->Parse(package->main_part());
  if (!presentation.ok()) return presentation.error();
  const auto relationships = package->RelationshipsOf(package->main_part());
  TextBuilder writer;
  SlideReader reader(*package, writer);
  uint64_t num_slides = 0, num_hidden = 0;
  for (const XmlNode node : presentation->root().Child("sldIdLst")) {
    if (node.name() != "sldId") continue;
    writer.BeginPage(++num_slides);
    const std::string part = Target(relationships, node.Attribute("relationships", "id"));
    auto slide = package->Parse(part);
    if (!slide.ok()) return slide.error();
    if (slide->root().Attribute("show") == "0" || slide->root().Attribute("show") == "false") {
      ++num_hidden;
      continue;
    }
    reader.Read(part, slide->root());
    for (const auto& relationship : package->RelationshipsOf(part)) {
      if (relationship.type != "notesSlide") continue;
      auto notes = package->Parse(relationship.target);
      if (notes.ok()) reader.ReadNotes(notes->root());
    }
  }
  const std::string note = CountedNote(num_hidden, "hidden slide", "left out");
  return writer.Finish(num_slides, note);
}

}  // namespace lectern::tools
