// Replaces the entities of an XML file whose document type declares some, or that uses the names of
// HTML's ("&mdash;"), so that it can be parsed without its document type. DocBook needs this.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_DOCBOOK_ENTITIES_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_DOCBOOK_ENTITIES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lectern::tools {

struct ExpandedXml {
  std::string xml;            // without a document type
  uint64_t num_outside = 0;   // references to other files, which are left out
  bool is_too_large = false;  // the entities hold each other, or expand to more than 16 MiB
};

// Entities that the file declares with their text are replaced by it, and others that it does not
// declare by their name: they often are the name of a program. No file is ever opened. Any bytes;
// linear time.
ExpandedXml ExpandEntities(std::string_view xml);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_DOCBOOK_ENTITIES_H_
