// Turns the XML that `pdftotext -bbox-layout` prints (every word of a PDF with its place on the
// page) into plain text, and finds where the pages begin in it. pdf.h uses it.
#ifndef LECTERN_TOOLS_INGEST_BBOX_TEXT_H_
#define LECTERN_TOOLS_INGEST_BBOX_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"

namespace lectern::tools {

// The text of a PDF. Valid UTF-8. Blocks and pages are parted by an empty line; a newline ends the
// text, unless it is empty. Control characters, a byte order mark at the start and words of white
// space alone are left out. Words of a line are joined by a space. Lines of a block are joined by a
// space where the next word would not have fitted behind the line before (the layout broke the
// line), and by a newline where it would have (the author did: a list, a row, an address). A hyphen
// that ends a line goes if it stands between small letters, as in pdftotext's own text.
//
// Why lines are joined: passages are sentences within a line. The bundled reader was asked 120
// questions about four documents of 3K tokens, typeset on 65 columns:
//
//   text                        answers right   first passage holds the answer
//   every line of its own            55               55 of 91
//   lines joined as above            71               75
//   before it was typeset            73               77
struct PagedText {
  std::string text;
  // Where each page begins in `text`; pages count from 1; only pages that have text, ascending.
  std::vector<lectern_page> pages;
  uint64_t num_pages = 0;  // all pages, also those that have no text
};

// A parser that takes the XML as it comes, in pieces of any size, so that the output of a large PDF
// is never held as a whole: beside the text it holds one tag or one word.
//
// It is strict, because another program's output may not become a document: inside of <doc>,
// elements page, flow, block, line and word in each other, with any attributes; characters in words
// alone; the five named entities and numbered ones. Before and behind <doc> anything is skipped.
// The bytes may be anything: it does not trust them. One thread at a time.
class BboxText {
 public:
  // Takes the next piece; pieces behind </doc> are ignored. False: this is not the output of
  // pdftotext, or a limit of the .cc is exceeded (1 MiB for a tag, for a word and for the bytes
  // before <doc>; 2^24 pages), or Finish was called; the parser then stays failed.
  bool Take(std::string_view bytes);
  // Moves the text out, which may be empty, as may be its pages. False, with `out` unchanged: a
  // Take failed, </doc> has not come, or Finish succeeded before.
  bool Finish(PagedText& out);

 private:
  // The innermost element that is open, in the order in which they lie in each other.
  enum Level { kBefore, kDocument, kPage, kFlow, kBlock, kLine, kWord, kAfter };
  // The boundary before the next word: the largest that was passed since the last one.
  enum class Gap { kSpace, kLine, kBlock };
  struct Span {
    double begin = 0, end = 0;  // xMin and xMax of an element, in points from the left
  };

  // Steps of Take; false: the output is not pdftotext's, or too long. The .cc says more.
  bool TakeHead();                                   // skips everything up to <doc>
  bool TakeTag(std::string_view tag);                // without its brackets; changes level_
  bool TakeCharacters(std::string_view characters);  // between two tags; into word_ where in a word
  void EndWord();                                    // appends word_ to the text, and clears it
  void JoinLines(std::string_view word);             // appends the gap of a line before `word`

  PagedText paged_;
  std::string pending_;  // what is not a whole tag or run of characters yet
  std::string word_;
  Level level_ = kBefore;
  Gap gap_ = Gap::kSpace;       // before the next word
  Span block_, line_, span_;    // of the word
  double line_end_ = 0;         // of the last line that had words
  bool is_page_begun_ = false;  // the page has a word
  uint64_t head_bytes_ = 0;     // skipped before <doc>
  bool has_failed_ = false;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_BBOX_TEXT_H_
