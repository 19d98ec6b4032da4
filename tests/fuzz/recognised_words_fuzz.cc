// Whatever Tesseract prints: nothing, or a page whose words lie in its lines, and these in its
// blocks, which the layout takes.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/ingest/document_text.h"
#include "tools/ingest/recognised_words.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lectern::tools;
  auto page = ParseRecognisedWords({reinterpret_cast<const char*>(data), size}, 0.24);
  if (!page) return 0;
  size_t num_words = 0, last_block = 0;
  for (const PdfLine& line : page->lines) {
    if (line.words.empty() || line.block < last_block || line.block >= page->blocks.size() ||
        !std::isfinite(line.box.Height())) {
      std::abort();
    }
    last_block = line.block;
    num_words += line.words.size();
    for (const PdfWord& word : line.words) {
      if (word.text.empty() || !lectern::IsValidUtf8(word.text)) std::abort();
    }
  }
  if (num_words != page->num_words) std::abort();
  page->number = 1;
  DocumentText document;
  document.Add(std::move(*page));
  if (!lectern::IsValidUtf8(document.Finish(1).text)) std::abort();
  return 0;
}
