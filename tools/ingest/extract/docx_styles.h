// The styles and the numbering of a Word document: which paragraphs are headings or list items, and
// what number stands before them.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_DOCX_STYLES_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_DOCX_STYLES_H_

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tools/ingest/extract/xml_tree.h"
#include "tools/ingest/list_numbers.h"

namespace lectern::tools {

struct DocxParagraphStyle {
  int outline_level = -1;  // of a heading, from 0; -1: not told, 9: body text
  int list = -1;           // number of a list (numId); -1: not told, 0: none
  int list_level = -1;     // from 0; -1: not told
  bool is_title = false, is_contents = false;
  std::optional<bool> is_hidden = {};
};

class DocxStyles {
 public:
  // `root` of styles.xml.
  explicit DocxStyles(XmlNode root);
  // The properties of a paragraph: its own, then those of its style and of the styles that one is
  // based on.
  DocxParagraphStyle StyleOf(XmlNode paragraph) const;
  // Whether the text of a run is hidden, by its own properties, else by the style of its
  // characters, else as the paragraph's.
  bool IsHidden(XmlNode run, bool is_paragraph_hidden) const;

 private:
  struct Style {
    DocxParagraphStyle own;
    std::string based_on;
  };
  void Complete(std::string_view id, DocxParagraphStyle& style) const;
  std::map<std::string, Style, std::less<>> styles_;
  std::map<std::string, Style, std::less<>> character_styles_;
  std::string default_;
};

// Counts the items of numbered lists in the order of the document.
class DocxNumbering {
 public:
  // `root` of numbering.xml; none: no list is known.
  explicit DocxNumbering(XmlNode root);
  // The marker of the next item of a list, such as "- ", "2. " or "1.2 "; empty: it has none.
  std::string NextMarker(int list, int level);

 private:
  static constexpr int kNumLevels = 9;
  struct Level {
    bool is_bullet = true, is_none = false;
    NumberStyle style = NumberStyle::kDecimal;
    std::string text;  // with %1 to %9 for the numbers of the levels
    int start = 1;
    int restart = -1;       // 0: goes on under every higher level
    bool is_legal = false;  // all its numbers are decimal
  };
  using Levels = std::array<Level, kNumLevels>;
  struct List {
    int abstract = -1;
    Levels levels;
    std::array<bool, kNumLevels> restarts{};  // at this list's first item
  };
  static void ReadLevel(XmlNode node, Levels& levels);
  void AddList(XmlNode num, const std::map<int, Levels>& abstracts);
  std::map<int, List> lists_;
  // Lists that share a definition count together.
  std::map<int, std::array<int, kNumLevels>> counts_;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_DOCX_STYLES_H_
