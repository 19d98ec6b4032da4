// Characters of the fonts Symbol and Wingdings, which have no code points of their own there.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_DOCX_SYMBOLS_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_DOCX_SYMBOLS_H_

#include <string_view>

namespace lectern::tools {

// The character that a font shows for a code, which stands in hexadecimal digits ("F0FC" or "FC"),
// as UTF-8; empty: the font or the code is not known.
std::string_view SymbolText(std::string_view font, std::string_view code);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_DOCX_SYMBOLS_H_
