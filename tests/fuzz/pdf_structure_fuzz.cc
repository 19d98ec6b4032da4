// Whatever the bytes are: nothing, or a structure or ligatures that are written and read as the
// same ones; a structure's outline finds headings in any lines.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ingest/outline_headings.h"
#include "tools/ingest/pdf_ligatures.h"
#include "tools/ingest/pdf_structure.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lectern::tools;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto ligatures = ParsePdfLigatures(bytes)) {
    const auto again = ParsePdfLigatures(WritePdfLigatures(*ligatures));
    if (!again || again->size() != ligatures->size()) std::abort();
    std::string word(bytes);
    if (MayHaveLigature(word)) TurnLigatures(*ligatures, 1, 1, word);
    return 0;
  }
  const auto structure = ParsePdfStructure(bytes);
  if (!structure) return 0;
  const auto again = ParsePdfStructure(WritePdfStructure(*structure));
  if (!again || again->labels.size() != structure->labels.size() ||
      again->outline.size() != structure->outline.size()) {
    std::abort();
  }
  // The lines are those of the input, two a page.
  std::vector<OutlineLine> lines;
  for (size_t begin = 0; begin < size;) {
    const size_t end = std::min(bytes.find('\n', begin), size);
    lines.push_back({bytes.substr(begin, end - begin), 1 + lines.size() / 2,
                     static_cast<float>(end % 3), end % 5 != 0, true});
    begin = end + 1;
  }
  size_t last = 0;
  for (const OutlineHeading& heading : FindOutlineHeadings(structure->outline, lines)) {
    if (heading.begin < last || heading.end <= heading.begin || heading.end > lines.size()) {
      std::abort();
    }
    last = heading.end;
  }
  return 0;
}
