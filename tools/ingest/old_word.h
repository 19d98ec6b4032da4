// Extracts the text of old Word documents (.doc, Word 2 to 2003) with the program antiword in a
// process of its own (limited_child.h). It prints DocBook, which lectern-extract reads.
#ifndef LECTERN_TOOLS_INGEST_OLD_WORD_H_
#define LECTERN_TOOLS_INGEST_OLD_WORD_H_

#include <functional>
#include <string>
#include <string_view>

#include "engine/lectern.h"
#include "tools/ingest/extracted.h"

namespace lectern::tools {

struct OldWordOptions {
  std::string name = "the file";            // how messages call it
  std::function<bool()> is_cancelled = {};  // asked about every 50 ms; may be empty
  std::string antiword = "antiword";        // the program, by name (PATH) or path
  std::string extract = {};                 // ExtractOptions::program
};

// Returns the text as that of DocBook: headings by style, lists, tables by row, notes behind their
// paragraph. The title among the document's properties is left out: Word made it of the first line.
// Any thread. Errors, with the param "file" but for the first: NOT_FOUND: there is no antiword
// (param "antiword"). INVALID_ARGUMENT: antiword cannot read it; LIMIT_EXCEEDED: it takes too long
// or prints too much; IO_ERROR: it cannot be started; CANCELLED. Those of ReadExtracted for
// antiword's output.
api::Result<Extracted> ReadOldWord(std::string_view bytes, const OldWordOptions& options);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_OLD_WORD_H_
