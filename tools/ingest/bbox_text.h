// Turns the XML that `pdftotext -bbox-layout` prints (every word of a PDF with its place on the
// page) into pages, and these into text (document_text.h). pdf.h uses it.
#ifndef LECTERN_TOOLS_INGEST_BBOX_TEXT_H_
#define LECTERN_TOOLS_INGEST_BBOX_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/ingest/document_text.h"
#include "tools/ingest/pdf_ligatures.h"
#include "tools/ingest/pdf_page.h"

namespace lectern::tools {

// A parser that takes the XML as it comes, in pieces of any size, so that the output of a large PDF
// is never held as a whole: beside the text it holds the words of one page, at most 2^17 of them (a
// page with more is laid out in parts), and one tag or word.
//
// It is strict, because another program's output may not become a document: inside of <doc>,
// elements page, flow, block, line and word in each other, with any attributes; characters in words
// alone; the five named entities and numbered ones. Before and behind <doc> anything is skipped.
// The bytes may be anything: it does not trust them. One thread at a time.
class BboxText {
 public:
  // `replacements`: pages that stand for those of the same number, ascending. `ligatures`: where
  // the words have some, ascending by page and x.
  explicit BboxText(std::vector<PdfPage> replacements = {}, std::vector<PdfLigature> ligatures = {})
      : replacements_(std::move(replacements)), ligatures_(std::move(ligatures)) {}
  // Takes the next piece; pieces behind </doc> are ignored. False: this is not the output of
  // pdftotext, or a limit of the .cc is exceeded (1 MiB for a tag, for a word and for the bytes
  // before <doc>; 2^24 pages), or Finish was called; the parser then stays failed.
  bool Take(std::string_view bytes);
  // Moves the text out, which may be empty, as may be its pages, with the headings and the labels
  // of `structure`. False, with `out` unchanged: a Take failed, </doc> has not come, or Finish
  // succeeded before.
  bool Finish(PagedText& out, const PdfStructure& structure = {});
  // Whether a word that came may have a ligature (pdf_ligatures.h).
  bool may_have_ligatures() const { return may_have_ligatures_; }
  // The pages whose words have all come.
  uint64_t num_pages() const { return num_pages_ - (level_ > kDocument && level_ < kAfter); }

 private:
  // The innermost element that is open, in the order in which they lie in each other.
  enum Level { kBefore, kDocument, kPage, kFlow, kBlock, kLine, kWord, kAfter };
  // Steps of Take; false: the output is not pdftotext's, or too long. The .cc says more.
  bool TakeHead();                                   // skips everything up to <doc>
  bool TakeTag(std::string_view tag);                // without its brackets; changes level_
  bool TakeCharacters(std::string_view characters);  // between two tags; into word_ where in a word
  void BeginElement(std::string_view tag);           // notes the place of a page, block, line, word
  void EndWord();                                    // appends word_ to the line, and clears it
  void EndLine();                                    // appends the line to the page, and clears it
  void EndPage();                                    // gives the page's words to the document

  DocumentText document_;
  std::vector<PdfPage> replacements_;  // those that were used have no words any more
  std::vector<PdfLigature> ligatures_;
  std::span<const PdfLigature> page_ligatures_;  // those of page_
  bool may_have_ligatures_ = false;              // a word looks so
  uint64_t num_pages_ = 0;
  PdfPage page_;
  PdfLine line_;
  PdfBox word_box_;
  std::string pending_;  // what is not a whole tag or run of characters yet
  std::string word_;
  Level level_ = kBefore;
  uint64_t head_bytes_ = 0;  // skipped before <doc>
  bool has_failed_ = false;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_BBOX_TEXT_H_
