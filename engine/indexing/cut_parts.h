// Decides where a text that is longer than its model's room is cut into parts.
#ifndef LECTERN_ENGINE_INDEXING_CUT_PARTS_H_
#define LECTERN_ENGINE_INDEXING_CUT_PARTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/document/passages.h"
#include "engine/model/model.h"
#include "store/status.h"

namespace lectern {

// A part of a text: bytes [begin, end), and the headings above its first passage ("Chapter 2 >
// Rent"; empty: none), which the part's own document has before them.
struct TextPart {
  uint64_t begin = 0, end = 0;
  std::string headings;
};

// The place where each token of a text begins, in bytes, ascending. A text of any length: it is
// encoded in pieces of about 1 MiB, cut at line breaks, so that a few tokens may differ from those
// of the whole. kInvalidArgument: not UTF-8; other codes of Tokenizer::Encode.
Result<std::vector<uint64_t>> TokenBegins(const Tokenizer& tokenizer, std::string_view text);

// The most tokens of a part that this model is given, whatever its room: all its positions if its
// adapter asks for focused reading, else 4,096 or, if that is more, an eighth of its positions.
uint64_t MostPartTokens(const Model& model);

// Cuts the text into as few parts of about equal length as have at most `limit` tokens each, which
// must be 64 or more. `token_begins` and `passages` are the text's. A cut is made at the heading of
// the highest rank that is near where an equal part would end, else before a paragraph, a passage,
// or, where there is none, a token. A part that does not begin at a heading begins up to 128 tokens
// earlier, and at most an eighth of `limit`, at a passage, so that a fact which lies across the cut
// is whole in one part. Parts ascend, the first begins at 0, the last ends with the text, and no
// byte is left out. Linear in the text. May throw std::bad_alloc.
std::vector<TextPart> CutParts(std::string_view text, std::span<const Passage> passages,
                               std::span<const uint64_t> token_begins, uint64_t limit);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_CUT_PARTS_H_
