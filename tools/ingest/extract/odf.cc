// OpenDocument texts (.odt, .ott) and presentations (.odp).
#include <string>

#include "tools/ingest/extract/odf_text.h"
#include "tools/ingest/extract/readers.h"

namespace lectern::tools {
namespace {

uint64_t NumElements(XmlNode node, std::string_view name) {
  uint64_t count = 0;
  for (const XmlNode child : node) count += child.name() == name ? 1 : NumElements(child, name);
  return count;
}

// The trees of a file's content and styles; they live as long as this.
struct OdfFile {
  ZipParts parts;
  XmlTree content;
  OdfStyles styles;

  static api::Result<OdfFile> Open(std::string_view bytes) {
    auto parts = UnpackOdf(bytes);
    if (!parts.ok()) return parts.error();
    auto content = XmlTree::Parse(*parts->Find("content.xml"), "content.xml");
    if (!content.ok()) return content.error();
    parts->Drop("content.xml");
    OdfFile file{std::move(*parts), std::move(*content), {}};
    if (const std::string* const xml = file.parts.Find("styles.xml")) {
      if (auto tree = XmlTree::Parse(*xml, "styles.xml"); tree.ok()) file.styles.Add(tree->root());
    }
    file.styles.Add(file.content.root());
    return file;
  }
};

// Writes one slide: its title, then its other frames.
class SlideReader {
 public:
  SlideReader(const OdfFile& file, TextBuilder& writer)
      : writer_(writer), text_(file.styles, file.parts, writer) {}

  void Read(XmlNode slide) {
    for (const XmlNode frame : slide) {
      if (frame.Attribute("class") == "title") writer_.Heading(1, text_.LineOf(frame));
    }
    for (const XmlNode frame : slide) Frame(frame);
    for (const XmlNode notes : slide) {
      if (notes.name() != "notes") continue;
      for (const XmlNode frame : notes) {
        if (frame.Attribute("class") == "notes") text_.Blocks(frame);
      }
    }
  }

 private:
  void Frame(XmlNode frame) {
    const std::string_view kind = frame.Attribute("class");
    if (kind == "title" || kind == "page-number" || kind == "footer" || kind == "header" ||
        kind == "date-time" || frame.name() == "notes" || frame.name() == "forms" ||
        frame.name() == "animations" || frame.name() == "par")
      return;
    if (frame.name() == "g") {
      for (const XmlNode child : frame) Frame(child);
      return;
    }
    writer_.Gap();
    text_.Box(frame);
  }

  TextBuilder& writer_;
  OdfText text_;
};

}  // namespace

api::Result<Extracted> ReadOdt(std::string_view bytes) {
  auto file = OdfFile::Open(bytes);
  if (!file.ok()) return file.error();
  const XmlNode body = file->content.root().Child("body").Child("text");
  TextBuilder writer;
  if (NumElements(body, "soft-page-break") > 0) writer.BeginPage(1);
  OdfText(file->styles, file->parts, writer).Blocks(body);
  return writer.Finish(0, CountedNote(NumElements(body, "annotation"), "comment", "left out"));
}

api::Result<Extracted> ReadOdp(std::string_view bytes) {
  auto file = OdfFile::Open(bytes);
  if (!file.ok()) return file.error();
  TextBuilder writer;
  SlideReader reader(*file, writer);
  uint64_t num_slides = 0, num_hidden = 0;
  for (const XmlNode slide : file->content.root().Child("body").Child("presentation")) {
    if (slide.name() != "page") continue;
    writer.BeginPage(++num_slides);
    if (file->styles.IsHidden(slide.Attribute("style-name"))) {
      ++num_hidden;
    } else {
      reader.Read(slide);
    }
  }
  const std::string note = CountedNote(num_hidden, "hidden slide", "left out");
  return writer.Finish(num_slides, note);
}

}  // namespace lectern::tools
