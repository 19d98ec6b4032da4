// Joins the pages of a PDF into one text: without running heads and page numbers, with divided
// words made whole. bbox_text.h feeds it.
#ifndef LECTERN_TOOLS_INGEST_DOCUMENT_TEXT_H_
#define LECTERN_TOOLS_INGEST_DOCUMENT_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"
#include "tools/ingest/hyphens.h"
#include "tools/ingest/page_layout.h"
#include "tools/ingest/pdf_page.h"
#include "tools/ingest/pdf_structure.h"
#include "tools/ingest/recurring_lines.h"

namespace lectern::tools {

// The text of a PDF. Valid UTF-8. Blocks and pages are parted by an empty line; a newline ends the
// text, unless it is empty. Control characters, a byte order mark at the start and words of white
// space alone are left out. page_layout.h says how a page becomes lines, hyphens.h which hyphens at
// the ends of lines go, letter_forms.h which characters become plain letters. Titles of the outline
// are headings of Markdown ("## Rent") between empty lines where their page has them.
struct PagedText {
  std::string text;
  // Where each page begins in `text`; pages count from 1; only pages that have text, ascending. A
  // paragraph that goes on from page to page is not interrupted: the page then begins within it.
  std::vector<lectern_page> pages;
  uint64_t num_pages = 0;  // all pages, also those that have no text
  std::vector<std::string> page_labels;  // of `pages`, empty: the number; or no labels at all
  // Running heads, page numbers and watermarks, which are not in `text`: each once, at most 100.
  std::vector<RecurringLine> recurring;
  std::vector<uint64_t> pages_without_text;  // scans and empty pages: no words at all; ascending
  std::vector<uint64_t> recognised_pages;  // whose text was recognised from their image; ascending
  std::string recogniser;                  // "Tesseract, eng"; empty: none was asked
  std::string recognition_failure;         // why a page was not recognised; empty: all were
  // Pages on which most characters have no Unicode value, so that their text is garbage; ascending.
  std::vector<uint64_t> unmapped_pages;
  // Other pages on which some characters have none, ascending, and how many on all of them: they
  // are missing from `text`, or stand there as other signs.
  std::vector<uint64_t> partly_unmapped_pages;
  uint64_t num_unmapped = 0;
  // Whether poppler said that it lacks the tables of Chinese, Japanese or Korean characters, so
  // that text in fonts which need them is missing.
  bool lacks_cjk_tables = false;
  bool may_have_ligatures = false;  // in Arabic words (pdf_ligatures.h)
};

// Takes pages one by one. It holds the text, 40 bytes for each line, and no page. One thread at a
// time.
class DocumentText {
 public:
  // Appends a page. A page may come in several parts with the same number; numbers ascend.
  void Add(PdfPage page);
  // Moves the text out; the object is then empty. Headings and labels are those of `structure`.
  PagedText Finish(uint64_t num_pages, const PdfStructure& structure = {});

 private:
  static constexpr uint32_t kNoRow = ~uint32_t{0};

  // Lines beside each other at the head or the foot of a page.
  struct MarginRow {
    RowHashes hashes;
    uint32_t page = 0;
    float y = 0, height = 0;  // of its centre; of its highest line
    bool is_outermost = false;
  };
  struct Line {
    uint64_t begin = 0;     // in text_; it ends where the next one begins
    uint32_t row = kNoRow;  // in rows_: the row of the page's margin that it is part of
    float x = 0, y = 0;     // of its centre
    float height = 0;       // in points; of rotated lines, their width
    uint32_t page = 0;
    LineBreak before = LineBreak::kParagraph;
    bool is_full = false, is_footnote = false, is_in_table = false;
    bool is_left_out = false;
    uint8_t heading = 0;  // its level, of a heading's first line; else 0
    bool is_heading_rest = false;
  };

  void MarkMargins(const std::vector<LaidOutLine>& lines, size_t first);
  std::string_view TextOf(size_t line) const;
  float TextHeight() const;
  void LeaveOutRecurring(PagedText& paged);
  void LeaveOut(const std::vector<LinePlace>& places,
                const std::vector<std::vector<size_t>>& lines_of_rows, bool same_x,
                PagedText& paged);
  void KeepInnerRows(const std::vector<LinePlace>& places,
                     std::vector<std::vector<size_t>>& groups) const;
  bool KeepsPages(const std::vector<uint8_t>& is_left_out) const;
  bool IsOneParagraph(const Line& line, const Line& next, std::string_view text,
                      std::string_view next_text) const;
  HyphenJudge JudgeHyphens() const;
  void CountHyphens(std::string_view text);
  bool SoftHyphensAreHyphens() const;
  std::string Shown(std::string_view text, size_t hyphen_size) const;
  void AppendHyphen(std::string_view text, std::string& out) const;
  void AppendBreak(LineBreak before, std::string_view last_text, std::string_view text,
                   const HyphenJudge& judge, std::string& out) const;
  void MarkHeadings(const std::vector<OutlineItem>& outline);
  LineBreak BreakBetween(const Line& last, const Line& line, std::string_view last_text,
                         std::string_view text) const;
  void Assemble(PagedText& paged);

  std::string text_;  // of all lines, without anything between them
  std::vector<Line> lines_;
  std::vector<MarginRow> rows_;
  std::vector<uint64_t> pages_with_words_, unmapped_pages_, partly_unmapped_pages_;
  uint64_t num_unmapped_ = 0;                        // on partly_unmapped_pages_
  uint64_t num_hyphens_ = 0, num_soft_hyphens_ = 0;  // within lines
};

// Says in one line, for a note to the user: pages that have no text or garbage, with the way out,
// and which running heads were left out; empty: there is nothing to say. `paged` may have lost its
// text. Any thread.
std::string NoteOf(const PagedText& paged);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_DOCUMENT_TEXT_H_
