// lectern_pdf_structure.cc for builds without GLib (Windows): the same output, by poppler's own
// classes, whose names and files may change with each version of poppler.
#include <Catalog.h>
#include <GlobalParams.h>
#include <Link.h>
#include <Outline.h>
#include <PDFDoc.h>
#include <PDFDocEncoding.h>
#include <Stream.h>
#include <UTF.h>
#include <UnicodeMapFuncs.h>
#include <goo/gmem.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/ingest/extract/standard_input.h"
#include "tools/ingest/pdf_structure.h"
#include "tools/system_start.h"

namespace {

using lectern::tools::kMaxOutlineItems;
using lectern::tools::kMaxOutlineLevel;
using lectern::tools::PdfStructure;

std::string Utf8Of(const Unicode* characters, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    char buffer[8];
    text.append(buffer, static_cast<size_t>(mapUTF8(characters[i], buffer, sizeof buffer)));
  }
  return text;
}

// The page that an item's action goes to, from 1; 0: to none of this document.
uint64_t PageOf(PDFDoc& document, const LinkAction* action, uint64_t num_pages) {
  if (action == nullptr || !action->isOk() || action->getKind() != actionGoTo) return 0;
  const auto* go = static_cast<const LinkGoTo*>(action);
  std::unique_ptr<LinkDest> found;
  const LinkDest* dest = go->getDest();
  if (dest == nullptr && go->getNamedDest() != nullptr) {
    found = document.findDest(go->getNamedDest());
    dest = found.get();
  }
  if (dest == nullptr || !dest->isOk()) return 0;
  const int page = dest->isPageRef() ? document.findPage(dest->getPageRef()) : dest->getPageNum();
  return page >= 1 && static_cast<uint64_t>(page) <= num_pages ? static_cast<uint64_t>(page) : 0;
}

// Appends the items with those inside of them. Items may lie in themselves in a hostile PDF, so
// that both depth and number are limited.
void AppendItems(PDFDoc& document, const std::vector<OutlineItem*>& items, uint32_t level,
                 PdfStructure& structure) {
  if (level > kMaxOutlineLevel) return;
  for (OutlineItem* item : items) {
    if (structure.outline.size() >= kMaxOutlineItems) return;
    structure.outline.push_back({level, PageOf(document, item->getAction(), structure.num_pages),
                                 Utf8Of(item->getTitle(), item->getTitleLength())});
    item->open();
    if (item->hasKids() && item->getKids() != nullptr) {
      AppendItems(document, *item->getKids(), level + 1, structure);
    }
  }
}

void AppendLabels(PDFDoc& document, PdfStructure& structure) {
  for (uint64_t number = 1; number <= structure.num_pages; ++number) {
    GooString label;
    if (!document.getCatalog()->indexToLabel(static_cast<int>(number - 1), &label)) continue;
    Unicode* characters = nullptr;
    const int count = TextStringToUCS4(label.toStr(), &characters);
    const std::string text = Utf8Of(characters, count);
    gfree(characters);
    if (!text.empty() && text != std::to_string(number)) structure.labels.push_back({number, text});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const lectern::tools::SystemStart start(argc, argv);
  std::string bytes;
  if (!lectern::tools::ReadStandardInput(bytes)) return 1;
  globalParams = std::make_unique<GlobalParams>();
  PDFDoc document(
      new MemStream(bytes.data(), 0, static_cast<Goffset>(bytes.size()), Object(objNull)));
  if (!document.isOk()) {
    std::fprintf(stderr, "lectern-pdf-structure < FILE: error %d\n", document.getErrorCode());
    return 1;
  }
  PdfStructure structure;
  structure.num_pages = static_cast<uint64_t>(document.getNumPages());
  AppendLabels(document, structure);
  Outline* const outline = document.getOutline();
  if (outline != nullptr && outline->getItems() != nullptr) {
    AppendItems(document, *outline->getItems(), 1, structure);
  }
  const std::string output = WritePdfStructure(structure);
  const bool is_written = std::fwrite(output.data(), 1, output.size(), stdout) == output.size();
  return is_written && std::fflush(stdout) == 0 ? 0 : 1;
}
