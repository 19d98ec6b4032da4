// The text of DocBook's paragraphs, titles and table cells.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_DOCBOOK_TEXT_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_DOCBOOK_TEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/ingest/extract/text_builder.h"
#include "tools/ingest/extract/xml_tree.h"

namespace lectern::tools {

// Whether an element is a paragraph, list, table or the like, which ends the paragraph around it.
bool IsDocBookBlock(std::string_view name);

class DocBookText {
 public:
  // Finds the titles that references in the document lead to.
  explicit DocBookText(XmlNode root);

  // Appends a text, or an element within a paragraph. Footnotes leave their mark, "[1]".
  void Append(XmlNode node, std::string& out);
  // Appends the text of an element with its spaces and lines.
  void AppendCode(XmlNode node, std::string& out);
  // All text of an element in one line, with `separator` between its blocks and parts.
  std::string TextOf(XmlNode node, std::string_view separator = " ");
  // The title of a section, table or the like; of a manual page "ls(1)".
  std::string TitleOf(XmlNode node);
  // "ls [-l] [FILE...]" of a cmdsynopsis.
  std::string CommandOf(XmlNode synopsis);
  // "ls, dir — list files" of a refnamediv.
  std::string NamesOf(XmlNode names);
  // The footnotes since the last call, "[1] …".
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }

 private:
  void FindTitles(XmlNode node);
  void AppendParts(XmlNode node, std::string_view separator, std::string& out);
  void AppendInside(XmlNode node, std::string& out);
  void AppendCommand(XmlNode node, std::string& out);
  void AppendNote(XmlNode note, std::string& out);

  std::map<std::string, std::string, std::less<>> titles_;  // by id
  std::map<std::string, uint64_t, std::less<>> note_numbers_;
  std::vector<std::string> notes_;
  uint64_t num_notes_ = 0;
};

// Writes the rows of tables, of CALS (tgroup, row, entry) and of HTML (tr, td).
class DocBookTable {
 public:
  DocBookTable(DocBookText& inlines, TextBuilder& writer) : inlines_(inlines), writer_(writer) {}
  // Writes the rows that are in `node`.
  void Read(XmlNode node);

 private:
  struct Carried {
    int num_rows = 0;  // below
    std::string text;
  };
  void ReadColumn(XmlNode column);
  void Row(XmlNode row);
  int ColumnOf(std::string_view name, int otherwise) const;

  DocBookText& inlines_;
  TextBuilder& writer_;
  std::map<std::string, int, std::less<>> columns_;  // by name, from 0
  std::map<std::string, std::pair<std::string, std::string>, std::less<>> spans_;
  int num_columns_ = 0;
  std::map<int, Carried> carried_;  // cells that span rows, by column
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_DOCBOOK_TEXT_H_
