// Manual pages with the macros mdoc (mdoc(7), groff_mdoc(7)), as the BSDs write them.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_MDOC_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_MDOC_H_

#include <string>
#include <vector>

#include "tools/ingest/extract/roff_text.h"
#include "tools/ingest/extract/text_builder.h"

namespace lectern::tools {

// `lines`, `strings`: those of RoffLines.
Extracted ReadMdoc(const std::vector<std::string>& lines, const RoffStrings& strings);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_MDOC_H_
