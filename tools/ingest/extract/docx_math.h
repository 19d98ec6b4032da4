// Writes the formulas of office files (Office Math, ECMA-376 part 1, 22.1) as text.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_DOCX_MATH_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_DOCX_MATH_H_

#include <string>

#include "tools/ingest/extract/xml_tree.h"

namespace lectern::tools {

// The text of a formula (m:oMath) in a line: "x² + (a + b)/c", "∑_(i=1)^n i". Any thread.
std::string OfficeMathText(XmlNode formula);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_DOCX_MATH_H_
