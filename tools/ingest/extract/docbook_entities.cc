#include "tools/ingest/extract/docbook_entities.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "tools/ingest/characters.h"
#include "tools/ingest/html.h"

namespace lectern::tools {
namespace {

constexpr std::string_view kSpaceSigns = " \t\r\n";

bool IsEntityNameChar(char c) {
  return IsAsciiLetter(c) || IsAsciiDigit(c) || c == '.' || c == '-' || c == '_' || c == ':' ||
         static_cast<uint8_t>(c) >= 0x80;
}

// Takes the word at the front of `text`, behind white space; a text in quotes without them.
std::string_view TakeDeclaredWord(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpaceSigns), text.size()));
  if (text.empty()) return {};
  if (text[0] == '"' || text[0] == '\'') {
    const size_t end = std::min(text.find(text[0], 1), text.size());
    const std::string_view quoted = text.substr(1, end - 1);
    text.remove_prefix(std::min(end + 1, text.size()));
    return quoted;
  }
  const size_t end = std::min(text.find_first_of(" \t\r\n\"'>"), text.size());
  const std::string_view word = text.substr(0, std::max(end, size_t{1}));
  text.remove_prefix(word.size());
  return word;
}

struct Entity {
  std::string_view text;
  bool is_outside = false;  // another file
};

class EntityExpander {
 public:
  ExpandedXml Run(std::string_view xml) {
    size_t at = 0;
    // The document type stands behind comments and instructions only.
    for (at = xml.find('<'); at < xml.size(); at = xml.find('<', at)) {
      const size_t end = EndOfAside(xml, at);
      if (end == at) break;
      at = end;
    }
    if (at < xml.size() && xml.substr(at).starts_with("<!DOCTYPE")) {
      out_.xml = xml.substr(0, at);
      xml.remove_prefix(at);
      DocumentType(xml);
    }
    Expand(xml, 0);
    return std::move(out_);
  }

 private:
  // The place behind the comment, instruction or CDATA section that begins at `at`, or `at` itself.
  static size_t EndOfAside(std::string_view xml, size_t at) {
    constexpr std::pair<std::string_view, std::string_view> kAsides[] = {
        {"<!--", "-->"}, {"<?", "?>"}, {"<![CDATA[", "]]>"}};
    for (const auto& [begin, end] : kAsides) {
      if (!xml.substr(at).starts_with(begin)) continue;
      const size_t found = xml.find(end, at + begin.size());
      return found == xml.npos ? xml.size() : found + end.size();
    }
    return at;
  }

  // Takes the document type off the front of `xml`, and notes the entities that it declares.
  void DocumentType(std::string_view& xml) {
    bool is_inside = false;  // of the brackets
    xml.remove_prefix(1);
    while (!xml.empty()) {
      const size_t next = std::min(xml.find_first_of("\"'<[]>"), xml.size());
      xml.remove_prefix(next);
      if (xml.empty()) return;
      const char sign = xml[0];
      if (sign == '>' && !is_inside) return xml.remove_prefix(1);
      if (sign == '[') is_inside = true;
      if (sign == ']') is_inside = false;
      if (const size_t end = EndOfAside(xml, 0); end > 0) {
        xml.remove_prefix(end);
      } else if (xml.starts_with("<!ENTITY") && is_inside) {
        xml.remove_prefix(std::string_view("<!ENTITY").size());
        Declaration(xml);
      } else if (sign == '"' || sign == '\'') {
        TakeDeclaredWord(xml);
      } else {
        xml.remove_prefix(1);
      }
    }
  }

  // Reads `name "text"` or `name SYSTEM "file"`. Of two declarations of a name the first one holds.
  void Declaration(std::string_view& xml) {
    const std::string_view name = TakeDeclaredWord(xml);
    if (name == "%") return;  // an entity of the document type itself
    xml.remove_prefix(std::min(xml.find_first_not_of(kSpaceSigns), xml.size()));
    const bool has_text = xml.starts_with('"') || xml.starts_with('\'');
    const std::string_view word = TakeDeclaredWord(xml);
    entities_.emplace(name, has_text ? Entity{word, false} : Entity{"", true});
  }

  void Expand(std::string_view xml, int depth) {
    constexpr int kMostDepth = 20;
    while (!xml.empty() && !out_.is_too_large) {
      const size_t next = std::min(xml.find_first_of("<&"), xml.size());
      Append(xml.substr(0, next), depth);
      xml.remove_prefix(next);
      if (xml.empty()) return;
      size_t end = EndOfAside(xml, 0);
      if (xml[0] == '&') {
        end = 1;
        while (end < xml.size() && IsEntityNameChar(xml[end])) ++end;
        const bool is_named = end > 1 && end < xml.size() && xml[end] == ';';
        if (is_named) {
          if (depth < kMostDepth) {
            Replace(xml.substr(1, end - 1), depth);
          } else {
            out_.is_too_large = true;
          }
          xml.remove_prefix(end + 1);
          continue;
        }
      }
      end = std::max(end, size_t{1});
      Append(xml.substr(0, end), depth);
      xml.remove_prefix(end);
    }
  }

  void Replace(std::string_view name, int depth) {
    constexpr std::string_view kOfXml[] = {"lt", "gt", "amp", "quot", "apos"};
    const bool is_of_xml =
        std::find(std::begin(kOfXml), std::end(kOfXml), name) != std::end(kOfXml);
    const auto found = entities_.find(name);
    if (is_of_xml) {
      Append("&" + std::string(name) + ";", depth);
    } else if (found != entities_.end()) {
      out_.num_outside += found->second.is_outside;
      Expand(found->second.text, depth + 1);
    } else if (const std::string* const character = HtmlCharacter(name)) {
      Append(*character, depth);
    } else {
      Append(name, depth);
    }
  }

  // The character that HTML has under a name, found once for each; nullptr: none.
  const std::string* HtmlCharacter(std::string_view name) {
    constexpr size_t kMostNames = 1000;  // that are looked up; HTML has 2,231
    auto found = characters_.find(name);
    if (found == characters_.end()) {
      if (characters_.size() >= kMostNames) return nullptr;
      found = characters_.emplace(name, LookUp(name)).first;
    }
    return found->second ? &*found->second : nullptr;
  }
  static std::optional<std::string> LookUp(std::string_view name) {
    // Letters around it, as white space at the ends of a paragraph is left out.
    auto text = ReadHtml("<p>x&" + std::string(name) + ";x</p>", {.keeps_all = true});
    if (!text.ok() || text->size() < 3) return std::nullopt;
    const std::string character = text->substr(1, text->size() - 3);
    // "&copyright;" is a sign and "right;" in HTML.
    if (character.find_first_of("&<;") != std::string::npos) return std::nullopt;
    return character;
  }

  // Text that entities add is counted, so that a small file does not fill the memory.
  void Append(std::string_view text, int depth) {
    constexpr size_t kMostAdded = size_t{16} << 20;
    if (depth > 0) added_bytes_ += text.size() + 1;
    out_.is_too_large |= added_bytes_ > kMostAdded;
    if (!out_.is_too_large) out_.xml += text;
  }

  ExpandedXml out_;
  std::map<std::string_view, Entity> entities_;
  std::map<std::string_view, std::optional<std::string>> characters_;  // of HTML, by name
  size_t added_bytes_ = 0;
};

}  // namespace

ExpandedXml ExpandEntities(std::string_view xml) { return EntityExpander().Run(xml); }

}  // namespace lectern::tools
