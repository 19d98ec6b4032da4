#include "tools/ingest/extract/docx_math.h"

#include <string_view>

#include "tools/ingest/linear_math.h"

namespace lectern::tools {
namespace {

// A property's character, such as the sign of a sum: `otherwise` where it is not told.
std::string MathSign(XmlNode properties, std::string_view name, std::string_view otherwise) {
  const XmlNode sign = properties.Child(name);
  return std::string(sign ? sign.Attribute("val") : otherwise);
}

// The texts of the child elements of a name, parted by `between`.
std::string JoinedMath(XmlNode parent, std::string_view name, std::string_view between) {
  std::string text;
  bool is_first = true;
  for (const XmlNode child : parent) {
    if (child.name() != name) continue;
    if (!is_first) text += between;
    is_first = false;
    text += name == "mr" ? JoinedMath(child, "e", ", ") : OfficeMathText(child);
  }
  return text;
}

std::string MathPart(XmlNode node, std::string_view name) {
  return OfficeMathText(node.Child(name));
}

std::string NaryText(XmlNode node) {
  const XmlNode properties = node.Child("naryPr");
  const std::string sign =
      MathScripts(MathSign(properties, "chr", "∫"), MathPart(node, "sub"), MathPart(node, "sup"));
  return sign + " " + MathPart(node, "e");
}

// An element that is more than the texts inside of it, one behind the other; empty: another one.
std::string MathStructure(XmlNode node) {
  const std::string_view name = node.name();
  if (name == "f") return MathFraction(MathPart(node, "num"), MathPart(node, "den"));
  if (name == "sSup" || name == "sSub" || name == "sSubSup" || name == "sPre")
    return MathScripts(MathPart(node, "e"), MathPart(node, "sub"), MathPart(node, "sup"));
  if (name == "limLow") return MathScripts(MathPart(node, "e"), MathPart(node, "lim"), "");
  if (name == "limUpp") return MathScripts(MathPart(node, "e"), "", MathPart(node, "lim"));
  if (name == "rad") return MathRoot(MathPart(node, "e"), MathPart(node, "deg"));
  if (name == "nary") return NaryText(node);
  if (name == "func") return MathPart(node, "fName") + " " + MathPart(node, "e");
  if (name == "m") return JoinedMath(node, "mr", "; ");
  if (name == "eqArr") return JoinedMath(node, "e", "; ");
  if (name != "d") return "";
  const XmlNode properties = node.Child("dPr");
  return MathSign(properties, "begChr", "(") +
         JoinedMath(node, "e", MathSign(properties, "sepChr", "|")) +
         MathSign(properties, "endChr", ")");
}

}  // namespace

// Recursion is bounded by the depth that XmlTree allows.
std::string OfficeMathText(XmlNode formula) {
  std::string text;
  for (const XmlNode node : formula) {
    const std::string_view name = node.name();
    if (name.ends_with("Pr") || name == "del" || name == "moveFrom") continue;
    if (name == "t") {
      AppendAllText(node, text);
    } else {
      const std::string structure = MathStructure(node);
      text += structure.empty() ? OfficeMathText(node) : structure;
    }
  }
  return text;
}

}  // namespace lectern::tools
