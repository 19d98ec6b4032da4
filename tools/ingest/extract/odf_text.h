// The parts that OpenDocument's text and presentation files share: styles, paragraphs, lists and
// tables (OpenDocument 1.3, part 3).
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_ODF_TEXT_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_ODF_TEXT_H_

#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ingest/extract/spanned_columns.h"
#include "tools/ingest/extract/text_builder.h"
#include "tools/ingest/extract/xml_tree.h"
#include "tools/ingest/extract/zip_parts.h"
#include "tools/ingest/list_numbers.h"

namespace lectern::tools {

// The unpacked parts of an OpenDocument file; a flat one (.fodt) is its part content.xml. Errors:
// those of ZipParts::Unpack; INVALID_ARGUMENT: it asks for a password, or has no content.
api::Result<ZipParts> UnpackOdf(std::string_view bytes);

class OdfStyles {
 public:
  static constexpr std::string_view kOutline = "\n";  // no style has this name
  struct ListLevel {
    bool is_number = false;
    NumberStyle style = NumberStyle::kDecimal;
    std::string prefix, suffix;
    int start = 1, num_shown = 1;  // numbers of that many levels stand before an item
  };
  // Reads the styles below `root`, of content.xml or styles.xml; later ones win.
  void Add(XmlNode root);
  // Reads the styles of one element around styles.
  void AddGroup(XmlNode group);

  // Whether text, a section or a slide with this style is hidden.
  bool IsHidden(std::string_view style) const;
  // Whether text with this style stands above the line.
  bool IsRaised(std::string_view style) const { return raised_.contains(style); }
  // Whether a paragraph's style is a document's title, or based on it.
  bool IsTitle(std::string_view style) const;
  // `level` from 0; a bullet where the list is not known. Headings are the list kOutline.
  ListLevel LevelOf(std::string_view list, int level) const;

 private:
  static constexpr int kNumLevels = 10;
  void AddList(XmlNode node);
  std::map<std::string, std::array<ListLevel, kNumLevels>, std::less<>> lists_;
  std::map<std::string, std::string, std::less<>> parents_;  // of paragraph styles
  std::map<std::string, bool, std::less<>> hidden_;          // those that say it
  std::set<std::string, std::less<>> raised_;
};

// Writes blocks of OpenDocument. `styles`, `parts` and `writer` must outlive it.
class OdfText {
 public:
  // `parts`: of the file, where formulas and charts have parts of their own.
  OdfText(const OdfStyles& styles, const ZipParts& parts, TextBuilder& writer)
      : styles_(styles), parts_(parts), writer_(writer) {}
  // Writes the blocks inside of an element.
  void Blocks(XmlNode parent);
  // Writes a frame or a shape: the description of an image, then its text.
  void Box(XmlNode box);
  // The text inside of an element, on one line.
  std::string LineOf(XmlNode parent);

 private:
  struct Inline {
    std::string text;
    std::vector<std::pair<std::string, XmlNode>> notes;  // the label and the note's body
    std::vector<XmlNode> boxes;
  };
  struct MergedCell {
    std::string text;
    int num_rows = 0;  // that it goes on for
    int width = 1;     // columns in which it is said
  };
  // A table's columns, and its cells that go on downwards, by column.
  struct Grid {
    SpannedColumns columns;
    std::map<int, MergedCell> merged;
  };

  void Paragraph(XmlNode node);
  std::string HeadingNumber(int level);
  void Collect(XmlNode parent, Inline& content);
  void Behind(const Inline& content);
  void List(XmlNode list, std::string_view style, int depth);
  void Item(XmlNode item, std::string_view style, int depth, std::vector<int>& counts);
  std::string FormulaOf(XmlNode frame) const;
  void Chart(XmlNode object);
  void Table(XmlNode table);
  void Cells(XmlNode table);
  static bool IsAroundRows(XmlNode node);
  static void AddColumns(XmlNode parent, SpannedColumns& columns);
  void Rows(XmlNode parent, Grid& grid);
  void Row(XmlNode row, Grid& grid);
  void CellText(XmlNode parent, Inline& content);

  const OdfStyles& styles_;
  const ZipParts& parts_;
  TextBuilder& writer_;
  std::vector<int> counts_;                // of the open lists, by depth
  std::map<std::string, int> last_count_;  // of an ended list, by its style
  std::vector<int> heading_counts_;        // by level
  int num_notes_ = 0;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_ODF_TEXT_H_
