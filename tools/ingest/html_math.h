// Writes the formulas of web pages and books (MathML) as text.
#ifndef LECTERN_TOOLS_INGEST_HTML_MATH_H_
#define LECTERN_TOOLS_INGEST_HTML_MATH_H_

#include <gumbo.h>

#include <string>

namespace lectern::tools {

// The text of a math element: its source in TeX or in words where the page gives that, else its
// parts in a line ("x² + (a + b)/c"). Elements more than 60 deep are left out. Any bytes of the
// page may be in it.
std::string MathText(const GumboNode* math);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_HTML_MATH_H_
