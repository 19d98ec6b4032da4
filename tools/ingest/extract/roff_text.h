// Reads the lines of roff, the language of manual pages: escape sequences, requests, arguments
// (groff(7), groff_char(7)).
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_ROFF_TEXT_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_ROFF_TEXT_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lectern::tools {

// Strings that a page defines (".ds"), by name.
using RoffStrings = std::map<std::string, std::string, std::less<>>;

// The text that a line prints: characters for escape sequences, no fonts, sizes and comments.
// Sequences that it does not know print nothing.
std::string RoffText(std::string_view line, const RoffStrings& strings);

// The arguments of a request: words, or texts in quotes, with their escape sequences.
std::vector<std::string> RoffArguments(std::string_view line);

// Cuts a page into logical lines: macro definitions and conditions that do not hold for a terminal
// are left out, those that hold are unwrapped; strings are put into `strings`.
std::vector<std::string> RoffLines(std::string_view page, RoffStrings& strings);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_ROFF_TEXT_H_
