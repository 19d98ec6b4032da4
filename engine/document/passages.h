// Splits a document's text into passages: the sentences, headings, list items, table rows and
// pieces of code that are shown as evidence.
#ifndef LECTERN_ENGINE_DOCUMENT_PASSAGES_H_
#define LECTERN_ENGINE_DOCUMENT_PASSAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/shard_format.h"

namespace lectern {

// Longest passage in columns (CharColumns). A limit in bytes would cut the sentences of scripts with
// three bytes a letter at a third of the length. Chosen without measurement.
inline constexpr size_t kMaxPassageColumns = 400;
// A passage has no more bytes than this, indentation of its wrapped lines included.
inline constexpr size_t kMaxPassageBytes = 4 * kMaxPassageColumns;

// Bytes [begin, end) of the text as it was indexed, without white space, bullets and marks of
// headings at its ends, never inside a character. A passage of wrapped lines spans their breaks.
using Passage = PassageEntry;

// Splits the whole text, in linear time (400 KB of prose in about 12 ms).
// Passages ascend and do not overlap; text between them has no words, or is a list's bullet or the
// like. A sentence that runs over a page break is one passage. Passages that are longer than
// kMaxPassageColumns are cut behind a clause, else a space, else a character. `pages`: as IsPageMap
// has them. Any bytes will do. May throw std::bad_alloc.
std::vector<Passage> SplitPassages(std::string_view text, std::span<const PageMapEntry> pages);

// Whether these can be a text's passages: inside of it, ascending, apart, between characters, under
// headings that stand before them, with known kinds, and levels at headings alone. The calls below
// take such passages and check nothing.
bool ArePassagesOf(std::span<const Passage> passages, std::string_view text);

// The headings above a passage, outermost first: "Chapter 2 > Rent". Empty: none. White space is
// one space.
std::string HeadingPath(std::string_view text, std::span<const Passage> passages, size_t index);

// A passage's text with white space, line breaks and the quote marks behind them as one space; a
// line break between characters of scripts without spaces is nothing.
std::string PlainText(std::string_view text, const Passage& passage);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_PASSAGES_H_
