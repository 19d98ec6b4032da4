// Reads one file for the program lectern-extract: the entrance to the readers of all formats.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_EXTRACT_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_EXTRACT_H_

#include <string_view>

#include "engine/lectern.h"
#include "tools/ingest/extracted.h"

namespace lectern::tools {

// Reads a file of a format that is a name of ParseFormat. Any bytes give a text that is not empty,
// or an error whose message begins with a verb ("is damaged: …"); it takes any time and memory
// that the process may have. INVALID_ARGUMENT: also for another format.
api::Result<Extracted> Extract(std::string_view format, std::string_view bytes);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_EXTRACT_H_
