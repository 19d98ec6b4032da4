#include "engine/asking/evidence_passages.h"

#include <optional>

namespace lectern {
namespace {

constexpr size_t kMaxPlaces = 100;

}  // namespace

void SetPages(const PassagesOfText& document, Evidence& evidence) {
  const auto label_at = [&](uint64_t byte) {
    return PageLabelAt(document.pages, document.page_labels, byte);
  };
  evidence.page = PageAt(document.pages, evidence.begin);
  evidence.page_label = label_at(evidence.begin);
  const std::optional<uint32_t> page_end = PageAt(document.pages, evidence.end - 1);
  const bool is_other = page_end != evidence.page;
  evidence.page_end = is_other ? page_end : std::nullopt;
  evidence.page_end_label = is_other ? label_at(evidence.end - 1) : "";
}

Evidence MakeEvidence(const PassagesOfText& document, const EqualPassages& equals, size_t first,
                      size_t last) {
  Evidence evidence;
  evidence.begin = document.passages[first].begin;
  evidence.end = document.passages[last - 1].end;
  evidence.text = document.text.substr(evidence.begin, evidence.end - evidence.begin);
  SetPages(document, evidence);
  evidence.heading = HeadingPath(document.text, document.passages, first);
  if (last == first + 1) evidence.places = equals.Others(document.passages, first, kMaxPlaces);
  return evidence;
}

Status AddHighlights(const WordIndex& index, std::string_view claim, std::string_view question,
                     std::span<Evidence> evidence) {
  LECTERN_ASSIGN(auto words, index.ContentWords(claim));
  LECTERN_ASSIGN(auto asked, index.ContentWords(question));
  words.merge(asked);
  for (Evidence& one : evidence) {
    LECTERN_ASSIGN(one.highlights, index.FindWords(one.text, words));
    for (ByteRange& range : one.highlights) range.begin += one.begin, range.end += one.begin;
  }
  return {};
}

}  // namespace lectern
