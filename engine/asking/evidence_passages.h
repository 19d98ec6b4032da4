// Makes Evidence, as users see it, of a document's passages: with page, headings, the places of
// equal passages, and the words to highlight.
#ifndef LECTERN_ENGINE_ASKING_EVIDENCE_PASSAGES_H_
#define LECTERN_ENGINE_ASKING_EVIDENCE_PASSAGES_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "engine/document/document_text.h"
#include "engine/document/equal_passages.h"
#include "engine/document/page_map.h"
#include "engine/document/passages.h"
#include "engine/document/word_index.h"
#include "engine/requests/requests.h"
#include "store/status.h"

namespace lectern {

// A document's text and its passages. Views: what they show must outlive this.
struct PassagesOfText {
  std::string_view text;
  std::span<const Passage> passages;
  std::span<const PageMapEntry> pages = {};
  std::string_view page_labels = {};
};
inline PassagesOfText PassagesOf(const DocumentText& document) {
  return {document.text(), document.passages(), document.pages(), document.page_labels()};
}

// Sets the pages on which a piece of evidence begins and ends, and their labels, by its bytes.
void SetPages(const PassagesOfText& document, Evidence& evidence);

// The passages [first, last), which are neighbours, as one piece of evidence; `equals` is of the
// same passages. Mass and score are 0, and there are no highlights. May throw std::bad_alloc.
Evidence MakeEvidence(const PassagesOfText& document, const EqualPassages& equals, size_t first,
                      size_t last);

// Sets the highlights of each piece: its words that `claim` or `question` has, too, but no stop
// words. kLimitExceeded, kOutOfMemory.
Status AddHighlights(const WordIndex& index, std::string_view claim, std::string_view question,
                     std::span<Evidence> evidence);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_EVIDENCE_PASSAGES_H_
