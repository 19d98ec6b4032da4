// A file of Office Open XML (ECMA-376): a zip file whose parts name each other by relationships.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_OOXML_PACKAGE_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_OOXML_PACKAGE_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/ingest/extract/xml_tree.h"
#include "tools/ingest/extract/zip_parts.h"

namespace lectern::tools {

class OoxmlPackage {
 public:
  struct Relationship {
    std::string id, type;  // type: the last part of its URI, such as "styles"
    std::string target;    // the name of a part of the package
  };

  // Unpacks a package and finds its main part: the first one that "_rels/.rels" names as
  // "officeDocument" and that is there. Errors: those of ZipParts::Unpack; INVALID_ARGUMENT where
  // these relationships are missing or damaged, name no main part, or none that is there.
  static api::Result<OoxmlPackage> Open(std::string_view bytes);

  const std::string& main_part() const { return main_part_; }
  // The relationships of a part to other parts of the package; external ones are left out.
  std::vector<Relationship> RelationshipsOf(std::string_view part) const;
  // Reads a part. INVALID_ARGUMENT: it is missing or damaged.
  api::Result<XmlTree> Parse(const std::string& part) const;
  // Reads the part that the main part names by a relationship of a type; nothing where it names
  // none, or one that is missing or damaged.
  std::optional<XmlTree> ParseRelated(std::string_view type) const;
  ZipParts& parts() { return parts_; }
  const ZipParts& parts() const { return parts_; }

 private:
  explicit OoxmlPackage(ZipParts parts) : parts_(std::move(parts)) {}
  ZipParts parts_;
  std::string main_part_;
};

// Whether an element of a property that is on or off ("w:b", "w:vanish") says on.
bool IsOn(XmlNode property);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_OOXML_PACKAGE_H_
