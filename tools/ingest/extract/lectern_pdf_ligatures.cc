// lectern-pdf-ligatures: reads a PDF from stdin and writes where its Arabic ligatures are to
// stdout, in the form of pdf_ligatures.h. The tools start it with limits (limited_child.h), one PDF
// a process; it opens no other file.
#include <poppler-document.h>
#include <poppler-page.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/ingest/extract/standard_input.h"
#include "tools/ingest/pdf_ligatures.h"

namespace {

using namespace lectern::tools;

// The words are those of pdftotext, because it finds them by the same classes. A font counts by its
// name: subsets of one font have the same widths.
void AddWords(const poppler::page& page, uint64_t number, LigatureFinder& finder) {
  std::vector<LigatureFinder::Letter> letters;
  for (const poppler::text_box& box : page.text_list(poppler::page::text_list_include_font)) {
    const poppler::ustring text = box.text();
    if (box.rotation() != 0 || !box.has_font_info()) continue;
    letters.clear();
    for (size_t i = 0; i < text.size(); ++i) letters.push_back({text[i], box.char_bbox(i).width()});
    const poppler::rectf place = box.bbox();
    finder.AddWord(number, place.left(), place.top(), box.get_font_name(), box.get_font_size(),
                   letters);
  }
}

}  // namespace

int main() {
  std::string bytes;
  if (!ReadStandardInput(bytes)) return 1;
  const std::unique_ptr<poppler::document> document(
      poppler::document::load_from_raw_data(bytes.data(), static_cast<int>(bytes.size())));
  if (document == nullptr || document->is_locked()) {
    std::fputs("lectern-pdf-ligatures < FILE: not a PDF that can be read\n", stderr);
    return 1;
  }
  LigatureFinder finder;
  for (int i = 0; i < document->pages(); ++i) {
    const std::unique_ptr<poppler::page> page(document->create_page(i));
    if (page != nullptr) AddWords(*page, static_cast<uint64_t>(i) + 1, finder);
  }
  const std::string output = WritePdfLigatures(finder.Finish());
  const bool is_written = std::fwrite(output.data(), 1, output.size(), stdout) == output.size();
  return is_written && std::fflush(stdout) == 0 ? 0 : 1;
}
