// Writes the text of a part of a web page, for html.cc.
#ifndef LECTERN_TOOLS_INGEST_HTML_TEXT_H_
#define LECTERN_TOOLS_INGEST_HTML_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tools/ingest/html_elements.h"

namespace lectern::tools {

// The text of the item `root` and of what is inside of it, but for boilerplate, in the form that
// html.h describes. It may hold any bytes of the page. `marks_headings`: HtmlOptions. Any thread.
std::string HtmlText(const std::vector<HtmlItem>& items, size_t root, bool marks_headings);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_HTML_TEXT_H_
