// Tells which lines of a text are headings, by their marks, their form and what stands around them.
#ifndef LECTERN_ENGINE_DOCUMENT_HEADINGS_H_
#define LECTERN_ENGINE_DOCUMENT_HEADINGS_H_

#include <cstddef>
#include <cstdint>

#include "engine/document/line_forms.h"
#include "engine/document/text_regions.h"

namespace lectern {

// In every call `i` is a line of `layout`. Level 1 is the outermost.
//
// A heading of Markdown ("## Rent") in line i; level 0: none. A sentence between other lines is
// none: it is a program's comment. Neither is a line that is indented by 4 columns more than prose.
MarkedHeading MarkedHeadingAt(const TextLayout& layout, size_t i);
// The level of a heading that the next line underlines ("====="); 0: line i is none.
uint8_t UnderlinedLevel(const TextLayout& layout, size_t i);
// The level of a heading that only its form and place tell: "Chapter 2", "2.1 Rent", capitals, a
// short title or a question over a paragraph. 0: line i is none.
uint8_t HeadingLevel(const TextLayout& layout, size_t i);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_HEADINGS_H_
