// Finds lists that a web page writes as tables: a column of numbers, bullets or letters beside a
// column of text, as DocBook writes questions with their answers, and Word the parts of a contract.
#ifndef LECTERN_TOOLS_INGEST_HTML_LISTS_H_
#define LECTERN_TOOLS_INGEST_HTML_LISTS_H_

#include <string>
#include <vector>

#include "tools/ingest/html_elements.h"

namespace lectern::tools {

// The text of an item that is short, its runs of white space as one space; "" where it is longer
// than the marker of a list's item can be.
std::string MarkerText(const std::vector<HtmlItem>& items, size_t i);

// Sets `part` of the cells of such tables: each row has one or two cells, none spans others, and
// the first of two is empty or the marker of an item, at least once the latter, with text beside
// it. `items`: measured. Any thread.
void MarkListTables(std::vector<HtmlItem>& items);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_HTML_LISTS_H_
