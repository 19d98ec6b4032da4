// Recognises web addresses that are broken between two lines of a page, to be joined without a
// space. document_text.h uses it.
#ifndef LECTERN_TOOLS_INGEST_DIVIDED_ADDRESS_H_
#define LECTERN_TOOLS_INGEST_DIVIDED_ADDRESS_H_

#include <string_view>

namespace lectern::tools {

// Whether the web address that ends `text` goes on at the start of the next line, `next`:
//
//   `text` ends with          the address goes on if
//   a scheme ("https:")       `next` begins with "//" and a name
//   & = # _ ~ - +             `next` begins with a character of addresses
//   "https://", / or ?        the next word looks like a part of one ("example.org", "b/c")
//   a full stop               the same, or it is an ending such as "html"
//   any character             `next` begins with / ? & or = and more
//
// An address may be complete at a slash or a stop, hence the condition. False where `text` ends in
// no address, where `next` begins another one, and where a line divides a word of the address,
// which nothing shows. Valid for any bytes; reads at most 2,048 of either. Linear time. Any thread.
// Measured: tools/ingest/RESULTS.md, "Addresses that lines divide".
bool AddressGoesOn(std::string_view text, std::string_view next);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_DIVIDED_ADDRESS_H_
