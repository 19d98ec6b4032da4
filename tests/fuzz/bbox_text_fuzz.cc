// Whatever pdftotext prints: the same text for pieces of any size, valid, with pages that ascend.
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "engine/model/formats/text.h"
#include "tools/ingest/bbox_text.h"

namespace {

using lectern::tools::PagedText;

std::optional<PagedText> Parse(std::string_view output, size_t piece) {
  lectern::tools::BboxText parser;
  while (!output.empty()) {
    if (!parser.Take(output.substr(0, piece))) return std::nullopt;
    output.remove_prefix(std::min(piece, output.size()));
  }
  PagedText paged;
  if (!parser.Finish(paged)) return std::nullopt;
  return paged;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view output(reinterpret_cast<const char*>(data), size);
  const auto paged = Parse(output, 1 << 16), in_pieces = Parse(output, 1 + size % 13);
  if (paged.has_value() != in_pieces.has_value()) std::abort();
  if (!paged) return 0;
  if (paged->text != in_pieces->text || paged->num_pages != in_pieces->num_pages) std::abort();
  if (lectern::CleanUtf8(paged->text).text != paged->text)
    std::abort();  // also: no byte order mark
  uint64_t next_begin = 0, next_page = 1;
  for (const lectern_page& page : paged->pages) {
    if (page.text_begin < next_begin || page.page < next_page) std::abort();
    next_begin = page.text_begin + 1;
    next_page = page.page + 1;
  }
  if (next_begin > paged->text.size() || next_page > paged->num_pages + 1) std::abort();
  return 0;
}
