// Takes the paths of this machine out of messages of errors, and out of what the engine says of
// documents, before a client of the server gets them: they tell who runs the server, and mean
// nothing to the client. Header only; any thread.
#ifndef LECTERN_TOOLS_SERVER_MESSAGES_H_
#define LECTERN_TOOLS_SERVER_MESSAGES_H_

#include <algorithm>
#include <string>
#include <string_view>

#include "engine/lectern.h"
#include "engine/model/formats/json.h"

namespace lectern::server {

// Characters that stand around paths in messages.
inline constexpr std::string_view kPathEnds = " \t\n\"'`,;:=()[]{}<>|";

// Shortens each absolute path in a text to its last part: "/srv/models/tiny.gguf" becomes
// "tiny.gguf", and "/srv/models/" "models/". For paths that are not known beforehand: a document's
// own model may lie anywhere. Paths that the server serves ("/v1/…") are no paths of the machine
// and stay. So do paths of one part ("/tmp"). A space, a quote or other punctuation ends a path.
inline std::string WithLastParts(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(kPathEnds, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const size_t last = word.find_last_not_of('/');
    const size_t slash = last == word.npos ? 0 : word.rfind('/', last);
    const bool is_path =
        word.starts_with('/') && !word.starts_with("/v1/") && slash > 0 && slash != word.npos;
    out += is_path ? word.substr(slash + 1) : word;
    if (end < text.size()) out += text[end];
    at = end + 1;
  }
  return out;
}

// The error with the paths `store`, `model` and `file` (an upload) in its message replaced by words
// ("the store"), and other absolute paths shortened. A path is replaced where it stands alone or
// begins a longer one: a store may be named "s". Empty ones replace nothing. cli_message and param
// stay as they are.
inline api::Error WithoutPaths(api::Error error, std::string_view store, std::string_view model,
                               std::string_view file = {}) {
  std::string& text = error.message;
  const auto is_apart = [&](size_t begin, size_t end) {
    const auto ends = [](char c) { return kPathEnds.find(c) != kPathEnds.npos; };
    return (begin == 0 || ends(text[begin - 1])) &&
           (end == text.size() || text[end] == '/' || ends(text[end]));
  };
  const auto replace = [&](std::string_view what, std::string_view with) {
    if (what.empty()) return;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at)) {
      const bool is_path = is_apart(at, at + what.size());
      if (is_path) text.replace(at, what.size(), with);
      at += is_path ? with.size() : 1;
    }
  };
  replace(file, "the upload");
  replace(store, "the store");
  replace(model, "the model");
  error.message = WithLastParts(error.message);
  return error;
}

// A copy of JSON about documents in which the paths of their models, adapters and sources are only
// their last parts. A folder named "model" or "reader" keeps its parent's name, because its own
// says nothing. Sources that are no absolute paths stay.
inline Json WithoutPaths(const Json& json) {
  if (json.array()) {
    Json::Array items;
    for (const Json& item : *json.array()) items.push_back(WithoutPaths(item));
    return items;
  }
  if (!json.object()) return json;
  Json::Object object;
  for (const auto& [key, value] : *json.object()) {
    const bool is_path = (key == "model" || key == "adapter" || key == "source") &&
                         value.string() && value.string()->starts_with('/');
    if (!is_path) {
      object.emplace(key, WithoutPaths(value));
      continue;
    }
    std::string_view path = *value.string();
    path = path.substr(0, path.find_last_not_of('/') + 1);
    size_t slash = path.rfind('/');
    if (path.ends_with("/model") || path.ends_with("/reader")) slash = path.rfind('/', slash - 1);
    object.emplace(key, std::string(slash == path.npos ? path : path.substr(slash + 1)));
  }
  return object;
}

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_MESSAGES_H_
