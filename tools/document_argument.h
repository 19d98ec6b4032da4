// Finds the document that a user means by an argument of a command line: its name, its id, or the
// path of the file that it was indexed from. ask-document and lectern-store use it.
#ifndef LECTERN_TOOLS_DOCUMENT_ARGUMENT_H_
#define LECTERN_TOOLS_DOCUMENT_ARGUMENT_H_

#include <string>

#include "engine/lectern.h"

namespace lectern::tools {

// The absolute form of a path, without "." and "..", and without a slash at its end; symbolic links
// stay as they are. The file need not exist. Where the current folder is gone: `path` itself.
std::string AbsolutePath(const std::string& path);
// The same with symbolic links followed, as far as the path exists: how a document's source is
// stored, so that two paths of one file are one document. On Windows also with each name spelled as
// in its folder, where letters of either case and short names ("PROGRA~1") lead to it. Where links
// cannot be followed: AbsolutePath.
std::string RealPath(const std::string& path);

struct DocumentArgument {
  std::string document;  // to be handed to the engine: a name, an id, or the text itself
  std::string note;      // which other documents the text could mean, for the user; or empty
};
// Says which document `text` means. A text that Engine::Find understands (a name, an id, the end of
// a source's path) stays as it is. Else the path of an indexed file, as RealPath has it, becomes
// the name that it was indexed under; of several such names, the last one listed. Anything else
// stays as it is too, and the engine's next call says what is wrong with it; so does an error of
// the store. Empty: the only document of the store, as the engine has it. AMBIGUOUS (param
// "document"), the only error: Engine::Find finds one document by `text`, and the file at that path
// was indexed as another one.
api::Result<DocumentArgument> FindArgument(api::Engine& engine, const std::string& text);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_DOCUMENT_ARGUMENT_H_
