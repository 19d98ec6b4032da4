// Finds the blocks of a document from its lines: paragraphs of wrapped lines, headings, list items,
// table rows and code.
#ifndef LECTERN_ENGINE_DOCUMENT_TEXT_BLOCKS_H_
#define LECTERN_ENGINE_DOCUMENT_TEXT_BLOCKS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/document/text_lines.h"
#include "store/shard_format.h"

namespace lectern {

struct TextBlock {
  PassageKind kind = PassageKind::kSentence;  // of its passages
  uint8_t level = 0;                          // of a heading
  size_t first = 0, last = 0;                 // lines [first, last)
  // Where it begins and ends inside of its first and last line: behind bullets and marks of
  // headings; an item's number ("1.") stays.
  uint64_t begin = 0, end = 0;
};

// The blocks in the order of the text. Rules, underlines and fences outside code are no part of
// any, but may lie inside a block's lines. A block may have no words ("?!"); the caller drops it. A
// line with is_page_edge strictly inside a block is to be skipped; elsewhere it is a kSentence
// block of its own.
//
// Lines are one paragraph where the line before is full: the next word had no room within the width
// at which the text is wrapped, which the paragraph's own lines or the document's others show; or
// where a sentence clearly runs on (a comma or "the" before, a small letter behind), or the line is
// nearly full and has no stop at its end. Verse,
// addresses and "key: value" lines therefore stay apart. A list item also goes on in lines that are
// indented by 2 columns or more behind it. Linear time. `lines`: ScanLines of `text`.
std::vector<TextBlock> FindBlocks(std::string_view text, std::span<const TextLine> lines);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_TEXT_BLOCKS_H_
