// Finds the document that a command line means: a name, an id, or the path of a file that was
// indexed.
#ifndef LECTERN_TOOLS_DOCUMENT_ARGUMENT_H_
#define LECTERN_TOOLS_DOCUMENT_ARGUMENT_H_

#include <string>

#include "engine/lectern.h"

namespace lectern::tools {

// Absolute, without "." and "..", links as they are; and the file itself, where links lead.
std::string AbsolutePath(const std::string& path);
std::string RealPath(const std::string& path);

struct DocumentArgument {
  std::string document;  // for the engine
  std::string note;      // which other documents the text could mean; or empty
};
// `text` as it stands where it is a name, an id, or nothing that is known; the name of the document
// from a file where it is that file's path. AMBIGUOUS: it is the name of one document, and the file
// here is another one.
api::Result<DocumentArgument> FindArgument(api::Engine& engine, const std::string& text);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_DOCUMENT_ARGUMENT_H_
