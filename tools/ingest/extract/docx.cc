// Word documents (.docx, .docm, .dotx): ECMA-376 part 1, WordprocessingML.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/ingest/alt_text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/extract/docx_math.h"
#include "tools/ingest/extract/docx_styles.h"
#include "tools/ingest/extract/docx_symbols.h"
#include "tools/ingest/extract/ooxml_drawing.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/extract/spanned_columns.h"
#include "tools/ingest/html.h"
#include "tools/ingest/text_encoding.h"

namespace lectern::tools {
namespace {

constexpr std::string_view kPageBreak = "lastRenderedPageBreak";

bool HasElement(XmlNode node, std::string_view name) {
  for (const XmlNode child : node) {
    if (child.name() == name || HasElement(child, name)) return true;
  }
  return false;
}

// The notes of a part (footnotes.xml, endnotes.xml) by their ids; separators are none.
std::map<int, XmlNode> NotesOf(const std::optional<XmlTree>& tree) {
  std::map<int, XmlNode> notes;
  if (!tree) return notes;
  for (const XmlNode node : tree->root()) {
    const std::string_view type = node.Attribute("type");
    if (type.empty() || type == "normal") notes[node.Number("id", -1)] = node;
  }
  return notes;
}

// How Word shows a field of a form that has no text: the mark of a box, the chosen entry of a list.
std::string FormFieldText(XmlNode field) {
  if (field.name() == "checkBox") {
    const XmlNode checked = field.Child("checked");
    return IsOn(checked ? checked : field.Child("default")) ? "☒" : "☐";
  }
  int chosen = field.Child("result").Number("val", 0);
  for (const XmlNode entry : field) {
    if (entry.name() == "listEntry" && chosen-- == 0) return std::string(entry.Attribute("val"));
  }
  return "";
}

// Elements whose text is not the document's: deleted, of a field's instruction, or a comment's.
bool IsLeftOut(std::string_view name) {
  return name == "del" || name == "moveFrom" || name == "delText" || name == "instrText" ||
         name == "pPr" || name == "rPr" || name == "sectPr" || name == "rt" || name == "tblPr" ||
         name == "trPr" || name == "tcPr" || name == "sdtPr" || name == "fldData" ||
         name == "txbxContent" || name == "posOffset" || name == "pctWidth" ||
         name == "pctHeight" || name == "align" || name == "annotationRef";
}

// The choice of an mc:AlternateContent: both hold the same, for newer and older programs.
XmlNode ChoiceOf(XmlNode alternate) {
  const XmlNode choice = alternate.Child("Choice");
  return choice ? choice : alternate.Child("Fallback");
}

// Reads a Word document; `is_chunk`: as of DocxReader.
api::Result<Extracted> ReadWord(std::string_view bytes, bool is_chunk);

class DocxReader {
 public:
  // `is_chunk`: the document is embedded in another one, and those in it are not read.
  DocxReader(const OoxmlPackage& package, XmlNode styles, XmlNode numbering, bool is_chunk)
      : package_(package),
        is_chunk_(is_chunk),
        relationships_(package.RelationshipsOf(package.main_part())),
        styles_(styles),
        numbering_(numbering),
        footnote_tree_(package.ParseRelated("footnotes")),
        endnote_tree_(package.ParseRelated("endnotes")),
        footnotes_(NotesOf(footnote_tree_)),
        endnotes_(NotesOf(endnote_tree_)) {}

  Extracted Read(XmlNode document) {
    const XmlNode body = document.Child("body");
    if (HasElement(body, kPageBreak)) writer_.BeginPage(1);
    Blocks(body);
    std::string note = CountedNote(num_unread_, "embedded document", "not read");
    AddNote(CountedNote(NumComments(), "comment", "left out"), note);
    return writer_.Finish(0, note);
  }

 private:
  struct Note {
    std::string label;
    XmlNode node;
  };
  // A paragraph's text, and blocks that stand behind it.
  struct Inline {
    std::string text;
    std::vector<Note> notes;
    std::vector<XmlNode> boxes, graphics;
  };

  uint64_t NumComments() const {
    uint64_t count = 0;
    const auto comments = package_.ParseRelated("comments");
    if (!comments) return 0;
    for (const XmlNode node : comments->root()) count += node.name() == "comment";
    return count;
  }

  // The cells of a row, and in how many columns each is said.
  struct RowCells {
    std::vector<std::string> texts;
    std::vector<int> widths;
  };
  // A table's columns, and the texts of cells that go on downwards, by column.
  struct Grid {
    SpannedColumns columns;
    std::map<int, std::string> merged;
  };

  // Writes the blocks of a body, a cell, a text box or an element around blocks.
  void Blocks(XmlNode parent) {
    for (const XmlNode node : parent) {
      const std::string_view name = node.name();
      if (name == "p") {
        Paragraph(node);
      } else if (name == "tbl") {
        Table(node);
      } else if (name == "AlternateContent") {
        Blocks(ChoiceOf(node));
      } else if (name == "sdt") {
        const std::string_view gallery =
            node.Child("sdtPr").Child("docPartObj").Child("docPartGallery").Attribute("val");
        if (gallery != "Table of Contents") Blocks(node.Child("sdtContent"));
      } else if (name == "oMathPara") {
        writer_.Paragraph(OfficeMathText(node));
      } else if (name == "altChunk") {
        Embedded(node.Attribute("relationships", "id"));
      } else if (!name.empty() && !IsLeftOut(name)) {
        Blocks(node);
      }
    }
  }

  // A document inside of the document, which Word takes in when it opens the file.
  void Embedded(std::string_view id) {
    for (const auto& relationship : relationships_) {
      if (relationship.id != id) continue;
      const std::string* const chunk = package_.parts().Find(relationship.target);
      const std::string text = chunk ? ChunkText(relationship.target, *chunk) : "";
      if (text.empty()) break;
      in_list_ = false;
      return writer_.Verbatim(text);
    }
    ++num_unread_;
  }

  // The text of an embedded document: Word's, a web page, one saved as a mail, or plain text;
  // empty: another kind, or it has none.
  std::string ChunkText(const std::string& part, const std::string& bytes) const {
    const std::string name = Lower(part);
    const auto text_of = [](api::Result<Extracted> read) {
      return read.ok() ? std::move(read->text) : std::string();
    };
    if (bytes.starts_with("PK")) return is_chunk_ ? "" : text_of(ReadWord(bytes, true));
    if (name.ends_with(".mht") || name.ends_with(".mhtml") || bytes.starts_with("MIME-Version:"))
      return text_of(ReadMail(bytes));
    if (name.ends_with(".txt")) {
      auto decoded = DecodeText(bytes, "auto");
      return decoded.ok() ? decoded->text : "";
    }
    if (name.ends_with(".xml") || name.ends_with(".rtf")) return "";
    auto text =
        ReadHtml(bytes, {.name = "its part " + part, .keeps_all = true, .marks_headings = true});
    return text.ok() ? *text : "";
  }

  void Paragraph(XmlNode node) {
    const DocxParagraphStyle style = styles_.StyleOf(node);
    is_hidden_ = style.is_hidden.value_or(false);
    Inline content;
    content.text = std::exchange(drop_cap_, "");
    Collect(node, content);
    // A large first letter is a paragraph of its own before the one that it belongs to.
    if (!node.Child("pPr").Child("framePr").Attribute("dropCap").empty()) {
      drop_cap_ = CollapseSpace(content.text, false);
      return Behind(content);
    }
    if (style.is_contents) {
      std::erase_if(content.text, [](char c) { return c != kPageMark; });
    }
    const bool is_heading = style.is_title || (style.outline_level >= 0 && style.outline_level < 9);
    const int list_level = std::max(style.list_level, 0);
    const bool has_text = content.text.find_first_not_of(" \n\f") != std::string::npos;
    const std::string marker =
        style.list > 0 && has_text ? numbering_.NextMarker(style.list, list_level) : "";
    if (is_heading) {
      in_list_ = false;
      writer_.Heading(style.is_title ? 1 : style.outline_level + 1,
                      (marker == "- " ? "" : marker) + content.text);
    } else if (style.list > 0 && has_text) {
      if (!in_list_ || (list_level == 0 && style.list != last_list_)) writer_.Gap();
      in_list_ = true;
      if (list_level == 0) last_list_ = style.list;
      writer_.Item(list_level, marker, content.text);
    } else {
      if (in_list_ && has_text) in_list_ = false;
      writer_.Paragraph(content.text);
    }
    Behind(content);
  }

  // Writes the notes and text boxes that a paragraph or a row refers to.
  void Behind(const Inline& content) {
    for (const Note& note : content.notes) {
      Inline inside;
      CellText(note.node, inside);
      in_list_ = false;
      writer_.Paragraph("[" + note.label + "] " + inside.text);
    }
    for (const XmlNode box : content.boxes) {
      writer_.Gap();
      in_list_ = false;
      Blocks(box);
    }
    for (const XmlNode graphic : content.graphics)
      WriteGraphic(graphic, relationships_, package_, writer_);
  }

  // Collects the text inside of an element of a paragraph.
  void Collect(XmlNode parent, Inline& content) {
    for (const XmlNode node : parent) {
      const std::string_view name = node.name();
      if (name == "r" && styles_.IsHidden(node, is_hidden_)) continue;
      if (Character(node, parent, content)) continue;
      if (name == "footnoteReference" || name == "endnoteReference") {
        AddReference(node, content);
      } else if (name == "txbxContent") {
        content.boxes.push_back(node);
      } else if (name == "AlternateContent") {
        Collect(ChoiceOf(node), content);
      } else if (name == "graphicData" && (node.Child("chart") || node.Child("relIds"))) {
        content.graphics.push_back(node);
      } else if (name == "docPr") {
        AddImage(DrawingText(node), content);
      } else if (name == "oMath") {
        AppendInline(OfficeMathText(node), content.text);
      } else if (!IsLeftOut(name)) {
        if (name == "shape" || name == "rect")
          AddImage(ImageText("", node.Attribute("alt")), content);
        Collect(node, content);
      }
    }
  }

  // Adds an element that stands for characters; false: it does not.
  bool Character(XmlNode node, XmlNode run, Inline& content) {
    const std::string_view name = node.name();
    if (name == "t") {
      std::string text;
      AppendAllText(node, text);
      const bool is_raised = run.Child("rPr").Child("vertAlign").Attribute("val") == "superscript";
      is_raised ? AppendSuperscript(text, content.text) : AppendInline(text, content.text);
    } else if (name == "tab" || name == "ptab" || name == "cr") {
      content.text += name == "cr" ? '\n' : ' ';
    } else if (name == "br") {
      const bool is_line =
          node.Attribute("type").empty() || node.Attribute("type") == "textWrapping";
      content.text += is_line ? '\n' : ' ';
    } else if (name == "noBreakHyphen") {
      content.text += '-';
    } else if (name == "sym") {
      content.text += SymbolText(node.Attribute("font"), node.Attribute("char"));
    } else if (name == "checkBox" || name == "ddList") {
      AppendInline(FormFieldText(node), content.text);
    } else if (name == kPageBreak) {
      content.text += kPageMark;
    } else {
      return false;
    }
    return true;
  }

  static void AddImage(const std::string& text, Inline& content) {
    if (text.empty()) return;
    if (!content.text.empty() && content.text.back() != ' ') content.text += ' ';
    AppendInline(text, content.text);
    content.text += ' ';
  }

  // Notes are counted as they are met: their ids have gaps.
  void AddReference(XmlNode node, Inline& content) {
    const bool is_footnote = node.name() == "footnoteReference";
    const std::map<int, XmlNode>& notes = is_footnote ? footnotes_ : endnotes_;
    const auto found = notes.find(node.Number("id", -1));
    if (found == notes.end()) return;
    const std::string label = std::to_string(++num_notes_);
    content.text += "[" + label + "]";
    content.notes.push_back({label, found->second});
  }

  // A table by row; rows that hold other tables or long texts in their cells are a layout, whose
  // cells are blocks, and so is a table of which half of the rows are.
  void Table(XmlNode table) {
    writer_.Gap();
    in_list_ = false;
    const bool is_layout = IsLayout(table);
    Grid grid;
    AddColumns(table, grid.columns);
    Rows(table, is_layout, grid);
    writer_.Gap();
  }

  // Where the cells of the rows begin. Rows without several texts are lines between others.
  static void AddColumns(XmlNode parent, SpannedColumns& columns) {
    for (const XmlNode row : parent) {
      if (IsAroundRows(row)) AddColumns(row, columns);
      if (row.name() != "tr") continue;
      int column = FirstColumn(row);
      std::vector<int> begins;
      if (AddCells(row, column, begins) > 1) columns.AddRow(begins);
    }
  }

  // Returns how many of the cells have a text.
  static int AddCells(XmlNode parent, int& column, std::vector<int>& begins) {
    int num_texts = 0;
    for (const XmlNode cell : parent) {
      if (IsAroundCells(cell)) num_texts += AddCells(cell, column, begins);
      if (cell.name() != "tc") continue;
      num_texts += HasAnyText(cell);
      begins.push_back(column);
      column += SpanOf(cell);
    }
    return num_texts;
  }

  static bool IsAroundCells(XmlNode node) {
    return node.name() == "sdt" || node.name() == "sdtContent" || node.name() == "customXml";
  }
  static bool IsAroundRows(XmlNode node) { return IsAroundCells(node) || node.name() == "ins"; }
  static int FirstColumn(XmlNode row) {
    return row.Child("trPr").Child("gridBefore").Number("val", 0);
  }
  static int SpanOf(XmlNode cell) {
    return std::clamp(cell.Child("tcPr").Child("gridSpan").Number("val", 1), 1, 1000);
  }

  void Rows(XmlNode parent, bool is_layout, Grid& grid) {
    for (const XmlNode row : parent) {
      if (row.name() == "tr" && (is_layout || IsLayoutRow(row) || IsLoneCell(row))) {
        Blocks(row);
      } else if (row.name() == "tr") {
        if (!row.Child("trPr").Child("del")) Row(row, grid);
      } else if (IsAroundRows(row)) {
        Rows(row, is_layout, grid);
      }
    }
  }

  void Row(XmlNode row, Grid& grid) {
    RowCells cells;
    Inline behind;
    int column = FirstColumn(row);
    Cells(row, cells, behind, grid, column);
    writer_.Row(cells.texts, cells.widths);
    Behind(behind);
  }

  void Cells(XmlNode parent, RowCells& cells, Inline& behind, Grid& grid, int& column) {
    std::map<int, std::string>& merged = grid.merged;
    for (const XmlNode cell : parent) {
      if (IsAroundCells(cell)) Cells(cell, cells, behind, grid, column);
      const XmlNode properties = cell.Child("tcPr");
      if (cell.name() != "tc" || properties.Child("cellDel")) continue;
      const XmlNode merge = properties.Child("vMerge");
      Inline content;
      CellText(cell, content);
      if (merge && merge.Attribute("val") != "restart" && merged.contains(column)) {
        content.text = merged[column];
      } else if (merge) {
        merged[column] = content.text;
      } else {
        merged.erase(column);
      }
      const int span = SpanOf(cell);
      cells.widths.push_back(grid.columns.WidthOf(column, span));
      column += span;
      cells.texts.push_back(content.text);
      behind.notes.insert(behind.notes.end(), content.notes.begin(), content.notes.end());
      behind.boxes.insert(behind.boxes.end(), content.boxes.begin(), content.boxes.end());
      behind.graphics.insert(behind.graphics.end(), content.graphics.begin(),
                             content.graphics.end());
    }
  }

  // The paragraphs of a cell, one behind the other.
  void CellText(XmlNode parent, Inline& content) {
    for (const XmlNode node : parent) {
      if (node.name() == "p") {
        if (!content.text.empty()) content.text += ' ';
        const DocxParagraphStyle style = styles_.StyleOf(node);
        is_hidden_ = style.is_hidden.value_or(false);
        if (style.list > 0) {
          const std::string marker =
              numbering_.NextMarker(style.list, std::max(style.list_level, 0));
          if (marker != "- ") content.text += marker;
        }
        Collect(node, content);
      } else if (!node.name().empty() && !IsLeftOut(node.name())) {
        CellText(node, content);
      }
    }
  }

  // A table of one cell, or of which half of the rows have cells of more than kMostParagraphs
  // paragraphs or with tables in them, parts a page, not data.
  static bool IsLayout(XmlNode table) {
    int num_cells = 0, num_rows = 0, num_layouts = 0;
    for (const XmlNode row : table) {
      if (row.name() != "tr") continue;
      for (const XmlNode cell : row) num_cells += cell.name() == "tc";
      ++num_rows;
      num_layouts += IsLayoutRow(row);
    }
    return num_cells == 1 || (num_layouts > 0 && 2 * num_layouts >= num_rows);
  }

  // The number is a choice: addresses in cells have up to 6 lines.
  static bool IsLayoutRow(XmlNode row) {
    constexpr int kMostParagraphs = 8;
    for (const XmlNode cell : row) {
      if (cell.name() != "tc") continue;
      int num_paragraphs = 0;
      for (const XmlNode node : cell) {
        if (node.name() == "tbl") return true;
        num_paragraphs += node.name() == "p" && node.Child("r") ? 1 : 0;
      }
      if (num_paragraphs > kMostParagraphs) return true;
    }
    return false;
  }

  // A row of one cell with several paragraphs.
  static bool IsLoneCell(XmlNode row) {
    int num_cells = 0, num_paragraphs = 0;
    for (const XmlNode cell : row) {
      num_cells += cell.name() == "tc" || IsAroundCells(cell);
      if (cell.name() != "tc") continue;
      for (const XmlNode node : cell) num_paragraphs += node.name() == "p" && node.Child("r");
    }
    return num_cells == 1 && num_paragraphs > 1;
  }

  const OoxmlPackage& package_;
  const bool is_chunk_;
  const std::vector<OoxmlPackage::Relationship> relationships_;  // of the main part
  DocxStyles styles_;
  DocxNumbering numbering_;
  std::optional<XmlTree> footnote_tree_, endnote_tree_;
  std::map<int, XmlNode> footnotes_, endnotes_;
  TextBuilder writer_;
  std::string drop_cap_;
  uint64_t num_unread_ = 0;  // embedded documents
  int num_notes_ = 0, last_list_ = 0;
  bool in_list_ = false;
  bool is_hidden_ = false;  // the paragraph, but for runs that say otherwise
};

api::Result<Extracted> ReadWord(std::string_view bytes, bool is_chunk) {
  auto package = OoxmlPackage::Open(bytes);
  if (!package.ok()) return package.error();
  auto document = package->Parse(package->main_part());
  if (!document.ok()) return document.error();
  const auto styles = package->ParseRelated("styles");
  const auto numbering = package->ParseRelated("numbering");
  return DocxReader(*package, styles ? styles->root() : XmlNode(),
                    numbering ? numbering->root() : XmlNode(), is_chunk)
      .Read(document->root());
}

}  // namespace

api::Result<Extracted> ReadDocx(std::string_view bytes) { return ReadWord(bytes, false); }

}  // namespace lectern::tools
