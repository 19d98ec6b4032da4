// Decides which line breaks of a text are wraps: places where a paragraph goes on in the next line.
#ifndef LECTERN_ENGINE_DOCUMENT_WRAPPED_LINES_H_
#define LECTERN_ENGINE_DOCUMENT_WRAPPED_LINES_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/document/text_lines.h"

namespace lectern {

// How the lines of a region are wrapped. A region is a run of lines without blank lines or page
// breaks between them, all quoted alike.
struct Wrapping {
  uint32_t width = 0;     // columns at which they are wrapped; 0: not known
  bool is_verse = false;  // nearly all lines begin with a capital: the breaks are meant
  bool has_keys = false;  // at least half of the lines are "key: value"
};

// Learns from all regions of prose at which width a document is wrapped. `region`: the lines of one
// region of `text`; nothing is kept of either. One thread.
class WrapWidths {
 public:
  // Counts a region. A single line, verse and "key: value" lines tell nothing and are passed over.
  void Add(std::string_view text, std::span<const TextLine> region);
  // Call once, after all regions were added and before Of.
  void Decide();
  // How a region is wrapped: at its own width, if enough of its breaks show one, else at the
  // document's; at none if a line of it is more than 6 columns wider than that.
  Wrapping Of(std::string_view text, std::span<const TextLine> region) const;

 private:
  static constexpr uint32_t kMostColumns = 200;
  using Votes = std::array<uint64_t, kMostColumns + 1>;
  // Returns the width, in columns, that has most votes together with those of the widths up to 8
  // narrower, as paragraphs have whose longest line is not full; the narrowest one of equals. 0:
  // none has `least` (1 or more) votes.
  static uint32_t Winner(const Votes& votes, uint64_t least);
  Votes votes_{};        // lines, by the width of their region
  Votes short_votes_{};  // the same of regions of two or three lines
  uint32_t width_ = 0;
};

// Whether the first word of `next` would have had no room in `line` at this width. Programs that
// balance lines leave some room, so that up to 4 columns (1 below 60) may have been free.
bool IsFull(const TextLine& line, const TextLine& next, uint32_t width);
// Whether `next` continues the paragraph of `line`, both of one region.
bool RunsOn(std::string_view text, const TextLine& line, const TextLine& next,
            const Wrapping& wrapping);
// Whether a sentence clearly runs from `line`, a page's last, to `next`, another page's first.
bool RunsOverPage(std::string_view text, const TextLine& line, const TextLine& next,
                  const Wrapping& wrapping);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_WRAPPED_LINES_H_
