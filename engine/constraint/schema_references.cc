#include "engine/constraint/schema_references.h"

#include <algorithm>
#include <charconv>

namespace lectern {
namespace {

// Keywords whose value is a schema, or a list of schemas.
constexpr std::string_view kSchemaKeywords[] = {"items",
                                                "prefixItems",
                                                "additionalItems",
                                                "unevaluatedItems",
                                                "contains",
                                                "additionalProperties",
                                                "unevaluatedProperties",
                                                "propertyNames",
                                                "allOf",
                                                "anyOf",
                                                "oneOf",
                                                "not",
                                                "if",
                                                "then",
                                                "else",
                                                "contentSchema"};
// Keywords whose members have names of the schema's author.
constexpr std::string_view kNamedSchemas[] = {
    "properties", "$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies"};

// "%41" of a reference as "A", and "~1", "~0" as "/", "~".
std::string Unescaped(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
      bytes += static_cast<char>(code);
      i += 2;
    } else {
      bytes += text[i];
    }
  }
  std::string key;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool is_escape =
        bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1');
    key += is_escape ? (bytes[++i] == '0' ? '~' : '/') : bytes[i];
  }
  return key;
}

// The value at a pointer such as "/$defs/person"; nullptr: there is none.
const OrderedJson* Follow(const OrderedJson& root, std::string_view pointer) {
  const OrderedJson* at = &root;
  while (at && !pointer.empty()) {
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    const std::string key = Unescaped(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    if (at->is_array()) {
      size_t index = at->items.size();
      std::from_chars(key.data(), key.data() + key.size(), index);
      at = index < at->items.size() ? &at->items[index] : nullptr;
    } else {
      at = at->Find(key);
    }
  }
  return at;
}

// The length of "scheme:", 0 where there is none.
size_t SchemeLength(std::string_view address) {
  size_t i = 0;
  const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  while (i < address.size() &&
         (is_letter(address[i]) ||
          (i > 0 && (address[i] == '+' || address[i] == '-' || address[i] == '.' ||
                     (address[i] >= '0' && address[i] <= '9'))))) {
    ++i;
  }
  return i > 0 && i < address.size() && address[i] == ':' ? i + 1 : 0;
}

// The path without its steps "." and "..".
std::string WithoutDots(std::string_view path) {
  std::vector<std::string_view> steps;
  const bool is_rooted = path.starts_with('/');
  bool ends_open = false;
  for (size_t at = is_rooted ? 1 : 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view step = path.substr(at, end - at);
    ends_open = step == "." || step == "..";
    if (step == "..") {
      if (!steps.empty()) steps.pop_back();
    } else if (step != ".") {
      steps.push_back(step);
    }
    at = end + 1;
  }
  std::string made = is_rooted ? "/" : "";
  for (size_t i = 0; i < steps.size(); ++i) made += (i > 0 ? "/" : "") + std::string(steps[i]);
  if (ends_open && !made.ends_with('/')) made += '/';
  return made;
}

// The address that a reference without a fragment has, read at `base` (RFC 3986, section 5.2).
std::string Resolved(const std::string& base, std::string_view reference) {
  if (reference.empty()) return base;
  if (SchemeLength(reference) > 0) return std::string(reference);
  const size_t scheme = SchemeLength(base);
  const std::string_view behind = std::string_view(base).substr(scheme);
  const size_t path_at =
      scheme + (behind.starts_with("//") ? std::min(behind.find('/', 2), behind.size()) : 0);
  if (reference.starts_with("//")) return base.substr(0, scheme) + std::string(reference);
  std::string path = base.substr(path_at, base.find('?', path_at) - path_at);
  if (reference.starts_with('/')) {
    path = reference;
  } else {
    path.resize(path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1);
    if (path.empty() && path_at > scheme) path = "/";
    path += reference;
  }
  return base.substr(0, path_at) + WithoutDots(path);
}

}  // namespace

SchemaReferences::SchemaReferences(const OrderedJson& root) : root_(root) {
  const OrderedJson* const draft = root.Find("$schema");
  const std::string_view name = draft && draft->string() ? *draft->string() : std::string_view();
  const auto is_draft = [&](std::string_view one) { return name.find(one) != name.npos; };
  id_keyword_ = is_draft("draft-04") ? "id" : "$id";
  ignores_id_of_reference_ = is_draft("draft-04") || is_draft("draft-06") || is_draft("draft-07");
  Walk(root, "");
}

void SchemaReferences::Walk(const OrderedJson& schema, const std::string& base) {
  std::string own = base;
  const OrderedJson* const id = schema.Find(id_keyword_);
  const bool has_id = id && id->string() && !(ignores_id_of_reference_ && schema.Find("$ref"));
  if (has_id) {
    const std::string_view text = *id->string();
    const size_t hash = std::min(text.find('#'), text.size());
    own = Resolved(base, text.substr(0, hash));
    if (hash > 0) parts_.try_emplace(own, &schema);
    if (hash + 1 < text.size()) {  // an anchor of the older drafts
      anchors_.try_emplace(own + std::string(text.substr(hash)), &schema);
    }
  }
  if (&schema == &root_) {
    parts_.try_emplace(own, &schema);
    root_base_ = own;
  }
  if (schema.is_object()) bases_.try_emplace(&schema, own);
  for (const std::string_view keyword : {"$anchor", "$dynamicAnchor"}) {
    const OrderedJson* const anchor = schema.Find(keyword);
    if (!anchor || !anchor->string()) continue;
    anchors_.try_emplace(own + "#" + *anchor->string(), &schema);
    if (keyword == "$dynamicAnchor") dynamic_[*anchor->string()].push_back(&schema);
  }
  for (const auto& [keyword, value] : schema.members) {
    const bool is_named =
        std::ranges::find(kNamedSchemas, keyword) != std::end(kNamedSchemas) && value.is_object();
    if (is_named) {
      for (const auto& [name, member] : value.members) Walk(member, own);
    } else if (std::ranges::find(kSchemaKeywords, keyword) != std::end(kSchemaKeywords)) {
      Walk(value, own);
    }
  }
  for (const OrderedJson& item : schema.items) Walk(item, own);
}

const OrderedJson* SchemaReferences::Find(const OrderedJson& from,
                                          std::string_view reference) const {
  const auto base = bases_.find(&from);
  const size_t hash = std::min(reference.find('#'), reference.size());
  const std::string address =
      Resolved(base == bases_.end() ? root_base_ : base->second, reference.substr(0, hash));
  const std::string_view fragment =
      hash < reference.size() ? reference.substr(hash + 1) : std::string_view();
  const auto part = parts_.find(address);
  if (fragment.empty() || fragment.starts_with('/')) {
    if (part == parts_.end()) return nullptr;
    if (const OrderedJson* const found = Follow(*part->second, fragment)) return found;
    // Clients put a schema with an address of its own into another one, and leave its pointers
    // as those of the whole text.
    return hash == 0 ? Follow(root_, fragment) : nullptr;
  }
  const auto anchor = anchors_.find(address + "#" + Unescaped(fragment));
  return anchor == anchors_.end() ? nullptr : anchor->second;
}

const OrderedJson* SchemaReferences::FindDynamic(const OrderedJson& from,
                                                 std::string_view reference) const {
  const OrderedJson* const found = Find(from, reference);
  if (!found) return nullptr;
  if (const OrderedJson* const is_recursive = found->Find("$recursiveAnchor")) {
    const bool is_dynamic = is_recursive->boolean() && *is_recursive->boolean();
    return !is_dynamic || parts_.size() == 1 ? found : nullptr;
  }
  const size_t hash = reference.find('#');
  const auto named = dynamic_.find(hash == reference.npos ? "" : reference.substr(hash + 1));
  const bool is_dynamic =
      named != dynamic_.end() && std::ranges::find(named->second, found) != named->second.end();
  return !is_dynamic || named->second.size() == 1 ? found : nullptr;
}

}  // namespace lectern
