#include "tools/ingest/extract/ooxml_package.h"

namespace lectern::tools {

api::Result<OoxmlPackage> OoxmlPackage::Open(std::string_view bytes) {
  auto parts = ZipParts::Unpack(bytes);
  if (!parts.ok()) return parts.error();
  OoxmlPackage package(std::move(*parts));
  for (const Relationship& relationship : package.RelationshipsOf("")) {
    if (relationship.type != "officeDocument") continue;
    package.main_part_ = relationship.target;
    if (package.parts_.Find(package.main_part_)) break;
  }
  if (!package.parts_.Find(package.main_part_))
    return api::Error{LECTERN_INVALID_ARGUMENT, "is damaged: it has no main part", "file"};
  return package;
}

std::vector<OoxmlPackage::Relationship> OoxmlPackage::RelationshipsOf(std::string_view part) const {
  const size_t slash = part.rfind('/') == std::string_view::npos ? 0 : part.rfind('/') + 1;
  const std::string name =
      std::string(part.substr(0, slash)) + "_rels/" + std::string(part.substr(slash)) + ".rels";
  std::vector<Relationship> relationships;
  const std::string* const xml = parts_.Find(name);
  if (!xml) return relationships;
  auto tree = XmlTree::Parse(*xml, name);
  if (!tree.ok()) return relationships;
  for (const XmlNode node : tree->root()) {
    if (node.name() != "Relationship" || node.Attribute("TargetMode") == "External") continue;
    const std::string_view type = node.Attribute("Type");
    relationships.push_back({std::string(node.Attribute("Id")),
                             std::string(type.substr(type.rfind('/') + 1)),
                             ResolvePart(part, node.Attribute("Target"))});
  }
  return relationships;
}

api::Result<XmlTree> OoxmlPackage::Parse(const std::string& part) const {
  const std::string* const xml = parts_.Find(part);
  if (!xml)
    return api::Error{LECTERN_INVALID_ARGUMENT, "is damaged: it has no part " + part, "file"};
  return XmlTree::Parse(*xml, part);
}

std::optional<XmlTree> OoxmlPackage::ParseRelated(std::string_view type) const {
  for (const Relationship& relationship : RelationshipsOf(main_part_)) {
    if (relationship.type != type) continue;
    if (auto tree = Parse(relationship.target); tree.ok()) return std::move(*tree);
  }
  return std::nullopt;
}

bool IsOn(XmlNode property) {
  if (!property) return false;
  const std::string_view value = property.Attribute("val");
  return value != "0" && value != "false" && value != "off" && value != "none";
}

}  // namespace lectern::tools
