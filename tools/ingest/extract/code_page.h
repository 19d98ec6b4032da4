// Characters of Microsoft's files of before 2007, which are in UTF-16 or in a numbered code page.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_CODE_PAGE_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_CODE_PAGE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lectern::tools {

// UTF-8 of a text in UTF-16, the lower byte first. An odd byte at the end is left out, and half of
// a character becomes U+FFFD.
std::string Utf16Text(std::string_view bytes);

// UTF-8 of a text in the lower bytes of UTF-16 alone (Latin-1).
std::string Latin1Text(std::string_view bytes);

// UTF-8 of a text in a code page, such as 1252 or 932; in 1252 where the page is not known.
std::string CodePageText(std::string_view bytes, uint32_t code_page);

// iconv's name for a code page; that of 1252 where the page is not known.
std::string CodePageEncoding(uint32_t code_page);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_CODE_PAGE_H_
