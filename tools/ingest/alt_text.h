// Decides which descriptions of images ("alt texts") are a part of a document's text, for the
// readers of web pages, books and office files.
#ifndef LECTERN_TOOLS_INGEST_ALT_TEXT_H_
#define LECTERN_TOOLS_INGEST_ALT_TEXT_H_

#include <string>
#include <string_view>

namespace lectern::tools {

// Begins what ImageText returns, unless that is a formula or a mark in a listing.
inline constexpr std::string_view kImageBegin = "[Image: ";

// Returns the text that stands for an image with this title and description, either of which may be
// empty: "[Image: A pump on a red base]", or the formula itself where the image shows one
// ("$x^2$"), or the
// number of a mark in a listing, "(1)". Returns "" where they tell a reader nothing: no letters or
// digits, the name of a file, or a word that any image could have ("Picture 3", "logo"). The
// sentence in which Office says that it wrote the description itself is cut off. White space runs
// become one space. UTF-8 in, UTF-8 out; any thread.
std::string ImageText(std::string_view title, std::string_view description);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_ALT_TEXT_H_
