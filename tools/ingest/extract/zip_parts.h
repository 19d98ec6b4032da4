// Unpacks the parts of a zip file that hold text (XML, HTML), within limits: office files and EPUB
// books are zip files. Only the program lectern-extract uses it.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_ZIP_PARTS_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_ZIP_PARTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::tools {

struct ZipLimits {
  uint64_t most_bytes = uint64_t{1} << 30;  // unpacked, of all parts together
  uint64_t most_entries = 200'000;
};

class ZipParts {
 public:
  // Unpacks every entry whose name has no ending or ends as XML or HTML does; pictures, fonts and
  // programs (macros) stay packed. INVALID_ARGUMENT: no zip file, a damaged one, or one that asks
  // for a password. A file that is cut off behind two parts or more is read as far as it goes:
  // IsCutOff tells. LIMIT_EXCEEDED: it unpacks to more than a limit. Messages begin with a verb:
  // the caller puts the file's name before them.
  static api::Result<ZipParts> Unpack(std::string_view zip, const ZipLimits& limits = {});
  // Whether a zip file lacks the record at its end, so that parts may be missing.
  static bool IsCutOff(std::string_view zip);

  // One part without a zip file around it.
  static ZipParts Single(std::string name, std::string_view bytes);

  // The part of this name; nullptr: there is none. Names have no "/" at the start; ASCII letters'
  // case is no difference.
  const std::string* Find(std::string_view name) const;
  // Frees a part that is not needed any more.
  void Drop(std::string_view name);

 private:
  std::map<std::string, std::string, std::less<>> parts_;  // by name, in small letters
};

// Resolves a reference ("../slides/slide1.xml", "/word/styles.xml") that stands in the part `base`;
// "%20" and the like are decoded, and "#…" is cut off. Never leaves the root.
std::string ResolvePart(std::string_view base, std::string_view reference);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_ZIP_PARTS_H_
