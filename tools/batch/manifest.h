// Reads a manifest: the documents of a corpus, one a line.
#ifndef LECTERN_TOOLS_BATCH_MANIFEST_H_
#define LECTERN_TOOLS_BATCH_MANIFEST_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lectern.h"

namespace lectern::batch {

struct ManifestEntry {
  std::string name;     // of the document, unique in a corpus
  std::string file;     // absolute path, by which every worker must find it
  std::string options;  // a JSON object with sorted keys: equal options have equal texts
};

// Parses the text of a manifest. A line that begins with "{" is an object: "file", and perhaps
// "name" (default: the path as it stands there) and "options" (document_options.h), which are added
// to `options`, a JSON object of options for all, and win over them. Any other line is a path;
// blank lines are skipped. `absolute` makes paths absolute. A line that repeats one before it is
// left out. INVALID_ARGUMENT (param "manifest", the message has the line): no UTF-8, no JSON, an
// unknown member, a wrong option, a name that is empty, longer than 1,024 bytes or taken by another
// file or other options of the manifest.
api::Result<std::vector<ManifestEntry>> ParseManifest(
    std::string_view text, std::string_view options,
    const std::function<std::string(const std::string& path)>& absolute);

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_MANIFEST_H_
