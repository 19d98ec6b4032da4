// Turns the output of `pdftotext -bbox-layout` into text, and finds where its pages begin.
#ifndef LECTERN_TOOLS_INGEST_BBOX_TEXT_H_
#define LECTERN_TOOLS_INGEST_BBOX_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"

namespace lectern::tools {

// Valid UTF-8. Words of a line are joined by a space, and so are lines of a block where the next
// word would not have fitted behind the first line; where it would, the line was ended on purpose
// (a list, a row, an address) and a newline follows. A hyphen between small letters that ends a
// line goes, as in pdftotext's own text. Blocks and pages are parted by an empty line; a newline at
// the end.
//
// Passages are sentences within a line: with all lines kept as lines, the bundled reader answered
// 55 of 120 questions to four documents of 3K tokens on 65 columns, and the first passage held the
// answer of 55 of 91; so joined 71 and 75; of the texts before they were typeset 73 and 77.
struct PagedText {
  std::string text;
  std::vector<lectern_page> pages;  // those that have text, as lectern_index_options wants them
  uint64_t num_pages = 0;           // with those that have none
};

// Reads it as it comes, in pieces of any size, and takes nothing else: inside of <doc> there are
// page, flow, block, line and word in each other, with any attributes, and words hold characters
// and the five named or numbered entities. Holds no more than a tag or a word beside the text. The
// bytes may be anything. One thread at a time.
class BboxText {
 public:
  // False: that is no such output; nothing changes that any more.
  bool Take(std::string_view bytes);
  // Moves the text out, of which `num_pages` is 0 where there was no page. False: the output was
  // not complete.
  bool Finish(PagedText& out);

 private:
  enum Level { kBefore, kDocument, kPage, kFlow, kBlock, kLine, kWord, kAfter };
  enum class Gap { kSpace, kLine, kBlock };
  struct Span {
    double begin = 0, end = 0;  // xMin, xMax
  };

  bool TakeHead();
  bool TakeTag(std::string_view tag);
  bool TakeCharacters(std::string_view characters);
  void EndWord();
  void JoinLines(std::string_view word);

  PagedText paged_;
  std::string pending_;  // what is not a whole tag or run of characters yet
  std::string word_;
  Level level_ = kBefore;
  Gap gap_ = Gap::kSpace;       // before the next word
  Span block_, line_, span_;    // of the word
  double line_end_ = 0;         // of the last line that had words
  bool is_page_begun_ = false;  // the page has a word
  uint64_t head_bytes_ = 0;
  bool has_failed_ = false;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_BBOX_TEXT_H_
