// What clients are told of errors: no path of this machine.
#ifndef LECTERN_TOOLS_SERVER_MESSAGES_H_
#define LECTERN_TOOLS_SERVER_MESSAGES_H_

#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::server {

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
  return error;
}

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_MESSAGES_H_
