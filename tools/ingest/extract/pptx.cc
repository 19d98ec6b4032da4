// PowerPoint presentations (.pptx, .pptm, .ppsx): ECMA-376 part 1, PresentationML.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tools/ingest/extract/ooxml_package.h"
#include "tools/ingest/extract/readers.h"

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

bool IsTitle(std::string_view kind) { return kind == "title" || kind == "ctrTitle"; }

class SlideReader {
 public:
  SlideReader(const OoxmlPackage& package, TextBuilder& writer)
      : package_(package), writer_(writer) {}

  void Read(const std::string& part, XmlNode slide) {
    relationships_ = package_.RelationshipsOf(part);
    const XmlNode shapes = slide.Child("cSld").Child("spTree");
    Titles(shapes);
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
      std::string piece;
      if (const XmlNode plain = run.Child("t")) {
        AppendAllText(plain, piece);
      } else {
        AppendAllText(run.name() == "AlternateContent" ? run.Child("Choice") : run, piece);
      }
      AppendInline(piece, text);
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

  void Titles(XmlNode shapes) {
    for (const XmlNode shape : shapes) {
      if (IsTitle(PlaceholderOf(shape))) writer_.Heading(1, AllLines(shape.Child("txBody")));
      if (shape.name() == "grpSp") Titles(shape);
    }
  }

  void Shapes(XmlNode shapes) {
    for (const XmlNode shape : shapes) {
      if (shape.name() == "grpSp") {
        Shapes(shape);
      } else if (shape.name() == "AlternateContent") {
        const XmlNode choice = shape.Child("Choice");
        Shapes(choice ? choice : shape.Child("Fallback"));
      } else if (shape.name() == "graphicFrame") {
        Graphic(shape.Child("graphic").Child("graphicData"));
      } else if (shape.name() == "sp" || shape.name() == "cxnSp") {
        const std::string_view kind = PlaceholderOf(shape);
        if (IsTitle(kind) || kind == "sldNum" || kind == "dt" || kind == "ftr" || kind == "hdr")
          continue;
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
      const bool is_numbered = static_cast<bool>(properties.Child("buAutoNum"));
      const bool is_item = is_numbered || properties.Child("buChar") ||
                           properties.Child("buBlip") ||
                           (has_bullets && !properties.Child("buNone"));
      const int level = std::min(properties.Number("lvl", 0), 8);
      int& number = numbers[static_cast<size_t>(level)];
      number = is_numbered ? number + 1 : 0;
      std::fill(numbers.begin() + level + 1, numbers.end(), 0);
      if (is_item) {
        writer_.Item(level, is_numbered ? std::to_string(number) + ". " : "- ", text);
      } else {
        writer_.Paragraph(text);
      }
    }
    writer_.Gap();
  }

  // A table, or the texts of a diagram, which are a part of their own.
  void Graphic(XmlNode data) {
    writer_.Gap();
    for (const XmlNode row : data.Child("tbl")) {
      std::vector<std::string> cells;
      for (const XmlNode cell : row) {
        const bool is_covered =
            cell.Attribute("hMerge") == "1" || cell.Attribute("hMerge") == "true";
        if (cell.name() == "tc" && !is_covered) cells.push_back(AllLines(cell.Child("txBody")));
      }
      writer_.Row(cells);
    }
    writer_.Gap();
    const XmlNode diagram = data.Child("relIds");
    if (!diagram) return;
    const std::string part = Target(relationships_, diagram.Attribute("dm"));
    auto tree = package_.Parse(part);
    if (!tree.ok()) return;
    for (const XmlNode point : tree->root().Child("ptLst")) {
      const std::string_view type = point.Attribute("type");
      if (type == "pres" || type == "parTrans" || type == "sibTrans") continue;
      writer_.Item(0, "- ", AllLines(point.Child("t")));
    }
    writer_.Gap();
  }

  const OoxmlPackage& package_;
  TextBuilder& writer_;
  std::vector<OoxmlPackage::Relationship> relationships_;  // of the current slide
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
  std::string note;
  if (num_hidden > 0) note = std::to_string(num_hidden) + " hidden slides are left out";
  return writer.Finish(num_slides, note);
}

}  // namespace lectern::tools
