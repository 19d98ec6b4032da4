// Takes the paths of this machine out of the messages of errors before a client of the server gets
// them: they tell who runs the server, and mean nothing to the client. Header only; any thread.
#ifndef LECTERN_TOOLS_SERVER_MESSAGES_H_
#define LECTERN_TOOLS_SERVER_MESSAGES_H_

#include <algorithm>
#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::server {

// Shortens each absolute path in a text to its last part: "/srv/models/tiny.gguf" becomes
// "tiny.gguf". For paths that are not known beforehand: a document's own model may lie anywhere.
// Paths that the server serves ("/v1/…") are no paths of the machine and stay. So do paths of one
// part ("/tmp") and those that end with a slash. A space, a quote or other punctuation ends a path.
inline std::string WithLastParts(std::string_view text) {
  // Characters that stand around paths in messages.
  constexpr std::string_view kEnds = " \t\n\"'`,;:()[]{}<>|";
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(kEnds, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const size_t slash = word.rfind('/');
    const bool is_path =
        word.starts_with('/') && !word.starts_with("/v1/") && slash > 0 && slash + 1 < word.size();
    out += is_path ? word.substr(slash + 1) : word;
    if (end < text.size()) out += text[end];
    at = end + 1;
  }
  return out;
}

// The error with the paths `store`, `model` and `file` (an upload) in its message replaced by words
// ("the store"), and other absolute paths shortened. Empty ones replace nothing. cli_message and
// param stay as they are.
inline api::Error WithoutPaths(api::Error error, std::string_view store, std::string_view model,
                               std::string_view file = {}) {
  const auto replace = [&](std::string_view what, std::string_view with) {
    if (what.empty()) return;
    std::string& text = error.message;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + with.size())) {
      text.replace(at, what.size(), with);
    }
  };
  replace(file, "the upload");
  replace(store, "the store");
  replace(model, "the model");
  error.message = WithLastParts(error.message);
  return error;
}

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_MESSAGES_H_
