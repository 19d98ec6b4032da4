#include "tools/batch/manifest.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "tools/batch/document_options.h"

namespace lectern::batch {
namespace {

constexpr size_t kMostNameBytes = 1024;

// One line as it stands: `options` are those of the line alone.
struct Line {
  std::string file, name;
  Json::Object options;
};

// Parses one line. Returns what is wrong; empty: nothing.
std::string ParseLine(std::string_view text, Line& line) {
  if (!IsValidUtf8(text) || text.find('\0') != std::string_view::npos) return "is no UTF-8 text";
  if (!text.starts_with('{')) {
    line.file = line.name = text;
    return "";
  }
  auto json = ParseJson(text);
  if (!json.ok()) return "is no JSON object: " + std::string(json.status().message());
  for (const auto& [key, value] : *json->object()) {
    if (key == "options" && value.object()) {
      line.options = *value.object();
    } else if ((key == "file" || key == "name") && value.string()) {
      (key == "file" ? line.file : line.name) = *value.string();
    } else {
      return "the member \"" + key + "\" is unknown or of a wrong type";
    }
  }
  if (line.file.empty()) return "the member \"file\" is missing";
  if (!json->Find("name")) line.name = line.file;
  return "";
}

// Parses all lines; `defaults` are options of every document.
class ManifestReader {
 public:
  ManifestReader(Json::Object defaults,
                 const std::function<std::string(const std::string&)>& absolute)
      : defaults_(std::move(defaults)), absolute_(absolute) {}

  // Adds one line. Returns what is wrong; empty: nothing.
  std::string Add(std::string_view text) {
    Line line;
    if (std::string wrong = ParseLine(text, line); !wrong.empty()) return wrong;
    if (line.name.empty() || line.name.size() > kMostNameBytes ||
        line.name.find('\0') != std::string::npos || line.file.find('\0') != std::string::npos) {
      return "a name or path is empty, longer than " + std::to_string(kMostNameBytes) +
             " bytes, or has a NUL";
    }
    line.options.insert(defaults_.begin(), defaults_.end());
    if (const auto options = ReadDocumentOptions(line.options); !options.ok()) {
      return options.error().message;
    }
    ManifestEntry entry = {line.name, absolute_(line.file), Json(line.options).Dump()};
    if (!IsValidUtf8(entry.file)) return "the path of the current folder is no UTF-8 text";
    const auto [place, is_new] = places_.emplace(entry.name, entries_.size());
    if (is_new) {
      entries_.push_back(std::move(entry));
      return "";
    }
    const ManifestEntry& before = entries_[place->second];
    if (before.file == entry.file && before.options == entry.options) return "";
    return "the name \"" + entry.name + "\" is taken by another line";
  }
  std::vector<ManifestEntry> Take() { return std::move(entries_); }

 private:
  Json::Object defaults_;
  const std::function<std::string(const std::string&)>& absolute_;
  std::vector<ManifestEntry> entries_;
  std::unordered_map<std::string, size_t> places_;  // of names in entries_
};

}  // namespace

api::Result<std::vector<ManifestEntry>> ParseManifest(
    std::string_view text, std::string_view options,
    const std::function<std::string(const std::string& path)>& absolute) {
  if (auto checked = ReadDocumentOptions(options); !checked.ok()) return checked.error();
  ManifestReader reader(*ParseJson(options)->object(), absolute);
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (const std::string wrong = reader.Add(line); !wrong.empty()) {
      return api::Error{LECTERN_INVALID_ARGUMENT,
                        "line " + std::to_string(number) + " of the manifest: " + wrong,
                        "manifest"};
    }
  }
  return reader.Take();
}

}  // namespace lectern::batch
