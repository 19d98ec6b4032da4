// The model that reads a document for which nobody named one: a released model with our adapter once
// it has been fetched, until then the small one that comes with the tools.
#ifndef LECTERN_TOOLS_DEFAULT_READER_H_
#define LECTERN_TOOLS_DEFAULT_READER_H_

#include <string>

#include "engine/lectern.h"

namespace lectern::tools {

// The bundled model's name and how good it is, for --help and notes.
inline constexpr char kBundledModel[] =
    "the bundled model, which is small (3.9 million parameters), knows invented English alone, and is "
    "good only for trying things out";
// The released model, for --help, questions and notes. Its file, archive and hash: tools/fetch.sh.
inline constexpr char kReleasedModel[] = "SmolLM2-135M-Instruct with Lectern's adapter";

// The default of --model of tools that index, for --help.
inline constexpr char kDefaultReader[] =
    "SmolLM2-135M-Instruct with Lectern's adapter where it has been fetched, which index-document does, "
    "and the small bundled model where not";

struct Reader {
  std::string model, adapter;  // paths; adapter: empty for the bundled model, which needs none
  bool is_bundled() const { return adapter.empty(); }
};

// The released model if it has been fetched, else the bundled one. Reads no file's content and uses no
// network. NOT_FOUND (param "model"): neither is there.
api::Result<Reader> DefaultReader();

// The bundled model's folder: ../share/lectern/reader, seen from the executable (in a build folder a
// link to the source tree), else where the install prefix puts it. NOT_FOUND (param "model") names
// both where neither is a folder. The folder's files are not looked at.
api::Result<std::string> BundledReader();

// Where the released model is kept: the folder "lectern" of $XDG_CACHE_HOME, else of ~/.cache. Empty
// where neither variable is an absolute path.
std::string ReaderCache();

// Fetches the released model, 90 MB, into ReaderCache() by the script tools/fetch.sh, which needs
// bash, Python and pip, and checks the file's hash. A model that is there is not fetched again. Blocks
// until the script ends. NOT_FOUND (param "model"): there is no network, no pip or no room, or the hash
// is wrong, with the script's last line; or the script or the adapter is not installed. IO_ERROR: no
// child process can be started.
api::Result<Reader> FetchReader();

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_DEFAULT_READER_H_
