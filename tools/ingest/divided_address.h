// Recognises web addresses that are broken between two lines of a page, to be joined without a
// space. document_text.h uses it.
#ifndef LECTERN_TOOLS_INGEST_DIVIDED_ADDRESS_H_
#define LECTERN_TOOLS_INGEST_DIVIDED_ADDRESS_H_

#include <string_view>

namespace lectern::tools {

// Whether the web address that ends `text`, such as "https://" or "www.example.org/a/", goes on at
// the start of the next line, `next`. An address may be complete where a line ends: after a sign
// that no address ends with it always goes on, after a slash, a full stop or a question mark where
// the next word looks like the rest of one ("b/c", "page.html"). An address that was broken within
// a word is not recognised. False where `text` ends in no address. Reads at most 2,048 bytes of
// both.
bool AddressGoesOn(std::string_view text, std::string_view next);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_DIVIDED_ADDRESS_H_
