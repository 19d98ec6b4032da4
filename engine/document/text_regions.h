// Finds the regions of a text, runs of lines without blank lines between them, and which of their
// lines are tables or code.
#ifndef LECTERN_ENGINE_DOCUMENT_TEXT_REGIONS_H_
#define LECTERN_ENGINE_DOCUMENT_TEXT_REGIONS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/document/text_lines.h"
#include "engine/document/wrapped_lines.h"

namespace lectern {

enum class LineForm : uint8_t {
  kText,
  kRow,     // of a table
  kFence,   // "```" before or behind code
  kFenced,  // between fences
};

struct TextRegion {
  size_t first, last;    // lines [first, last)
  bool is_code = false;  // by its look; fenced code has LineForm::kFenced
  bool is_grid = false;  // a table with rules between all rows, which may have several lines each
  Wrapping wrapping;
};

// The lines of a text with their forms and regions. Borrows the text and lines.
struct TextLayout {
  std::string_view text;
  std::span<const TextLine> lines;
  std::vector<LineForm> forms;  // [lines]
  std::vector<TextRegion> regions;
  std::vector<uint32_t> region_of;  // [lines]
  uint32_t base = 0;                // columns before most lines of prose
  bool has_hash_comments = false;   // "# " marks comments or a root prompt, and no headings

  std::string_view Line(size_t i) const { return lines[i].In(text); }
  const TextRegion& RegionOf(size_t i) const { return regions[region_of[i]]; }
  // Whether line i and a neighbour in its region begin with "#" and are no headings of Markdown of
  // two levels: comments of a program or settings file.
  bool IsInComment(size_t i) const;
};

// Finds the layout of `text`; `lines`: ScanLines of it. Both must outlive the layout. Linear time.
TextLayout FindLayout(std::string_view text, std::span<const TextLine> lines);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_TEXT_REGIONS_H_
