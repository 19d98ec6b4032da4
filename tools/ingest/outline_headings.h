// Finds the lines of a PDF that its outline (bookmarks) names as headings. document_text.h uses it.
#ifndef LECTERN_TOOLS_INGEST_OUTLINE_HEADINGS_H_
#define LECTERN_TOOLS_INGEST_OUTLINE_HEADINGS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tools/ingest/pdf_structure.h"

namespace lectern::tools {

// A line of a PDF's text; lines are in reading order, so that their pages ascend.
struct OutlineLine {
  std::string_view text;
  uint64_t page = 0;
  float height = 0;         // of its letters, in points
  bool may_begin = false;   // a heading may begin with it: it goes on with no other line
  bool may_belong = false;  // it may be part of a heading: it is in no table, footnote or margin
};

struct OutlineHeading {
  size_t begin = 0, end = 0;  // its lines [begin, end), of one page
  uint32_t level = 1;         // of the outline's item
};

// Returns the headings, by their lines, which do not overlap. An item's heading is up to four lines
// of the page that it points to, whose letters and digits are those of its title in any case, with
// or without the section's number ("2.1", "Chapter 3.") on either side; of several such places the
// one in the largest letters, then the first that no item has yet. An item that points to no page
// is looked for on the page of the item after it. Items without such lines have no heading. Any
// thread.
std::vector<OutlineHeading> FindOutlineHeadings(std::span<const OutlineItem> outline,
                                                std::span<const OutlineLine> lines);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_OUTLINE_HEADINGS_H_
