// Builds the text of an extracted document block by block, in the conventions of html.h, and notes
// where its pages (slides, sheets, chapters) begin. The readers of office files, books and mail
// write through it.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_TEXT_BUILDER_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_TEXT_BUILDER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"
#include "tools/ingest/extracted.h"

namespace lectern::tools {

// Stands in a text for the place where the next page begins; readers put it there, and documents
// cannot: CleanInline drops it.
inline constexpr char kPageMark = '\f';

// Appends a part of a paragraph to `out`: without controls, soft hyphens, zero-width spaces and
// byte order marks; no-break spaces become spaces. Line feeds and tabs become spaces.
void AppendInline(std::string_view text, std::string& out);

// The text of one block with every run of white space as one space, none at the ends; lines, which
// '\n' ends, stay lines if `keeps_lines`. Page marks stay.
std::string CollapseSpace(std::string_view text, bool keeps_lines);

// Appends a superscript: digits behind other text as "²", because "10²" is not "102".
void AppendSuperscript(std::string_view text, std::string& out);

// Appends "; " and `part` to a note; starts one that is empty. An empty part adds nothing.
void AddNote(std::string_view part, std::string& note);

// "1 comment is left out", "2 comments are left out"; empty for 0.
std::string CountedNote(uint64_t count, std::string_view thing, std::string_view what_happened);

// One document's text as it grows. Blocks without text are left out. One thread.
class TextBuilder {
 public:
  // The next text is on this page. Pages that follow each other must ascend.
  void BeginPage(uint64_t page);

  // "# Title" between empty lines. `level` counts from 1; deeper ones than 6 are of level 6.
  void Heading(int level, std::string_view title);
  // A paragraph between empty lines; its '\n' stay.
  void Paragraph(std::string_view text);
  // A line of a group without empty lines between them, such as a table or an address.
  void Line(std::string_view text);
  // A list item behind `marker` ("- ", "1. "), indented by two spaces for each `depth` from 0.
  void Item(int depth, std::string_view marker, std::string_view text);
  // Cells side by side; a row without text is left out. `widths`: how many columns each cell spans,
  // which it is said in; empty: one each. A row's only text is said once, and a long one too, with
  // empty cells behind it.
  void Row(std::span<const std::string> cells, std::span<const int> widths = {});
  // Code between empty lines and fences of Markdown, its spaces and lines as they are.
  void Code(std::string_view code);
  // Text of Markdown between empty lines, as it is.
  void Verbatim(std::string_view text);
  // Puts an empty line before the next block.
  void Gap() { has_gap_ = true; }

  bool is_empty() const { return text_.empty(); }
  // Moves the result out, with U+FFFD for bytes that are not UTF-8; call it last.
  // `num_pages`: of the document; the pages begun if that is more.
  Extracted Finish(uint64_t num_pages, std::string note);

 private:
  void Append(std::string_view line);

  std::string text_;
  std::vector<lectern_page> pages_;
  uint64_t page_ = 0;
  bool is_new_page_ = false;
  bool has_gap_ = false;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_TEXT_BUILDER_H_
