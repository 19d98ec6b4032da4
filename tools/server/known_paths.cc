#include "tools/server/known_paths.h"

namespace lectern::server {
namespace {

constexpr std::string_view kChatPath = "/chat/completions";

// Takes `prefix` off where a whole part of the path ends with it.
bool TakePrefix(std::string_view& path, std::string_view prefix) {
  const bool has_it = path.starts_with(prefix) && path.substr(prefix.size()).starts_with('/');
  if (has_it) path.remove_prefix(prefix.size());
  return has_it;
}

// The model in "/deployments/NAME/chat/completions" and "/engines/NAME/chat/completions"; empty:
// the path is neither. A name may have slashes.
std::string_view ModelIn(std::string_view path) {
  if (!TakePrefix(path, "/deployments") && !TakePrefix(path, "/engines")) return {};
  if (path.size() <= kChatPath.size() + 1 || !path.ends_with(kChatPath)) return {};
  path.remove_suffix(kChatPath.size());
  return path.substr(1);
}

}  // namespace

void ReplaceAlias(RequestHead& head) {
  std::string_view path = head.path;
  while (TakePrefix(path, "/v1") || TakePrefix(path, "/openai")) {
  }
  if (const std::string_view model = ModelIn(path); !model.empty()) {
    head.path_model = model;
    path = kChatPath;
  }
  const bool is_model =
      path.starts_with("/models/") && path.size() > std::string_view("/models/").size();
  if (path.ends_with('/') && !is_model) path.remove_suffix(1);
  if (path == kChatPath || path == "/responses" || path == "/models" || is_model) {
    head.path = "/v1" + std::string(path);
  }
}

std::string_view MissingPathMessage(std::string_view path) {
  struct Missing {
    std::string_view part, message;
  };
  // The first one counts whose part the path has.
  static constexpr Missing kMissing[] = {
      {"/api/",
       "Ollama's API is not served here: use a client of OpenAI's API, with the address of this "
       "server and /v1 behind it"},
      {"/messages",
       "Anthropic's API is not served here: use a client of OpenAI's API, with the address of this "
       "server and /v1 behind it"},
      {"/input_tokens", "tokens are counted by POST /tokenize"},
      {"/responses/",
       "nothing is kept here: POST /v1/responses answers, and earlier turns come in "
       "its input"},
      {"/completion", "texts are not completed here: ask with POST /v1/chat/completions"},
      {"/infill", "texts are not completed here: ask with POST /v1/chat/completions"},
      {"/embed",
       "embeddings are not made here: POST /v1/chat/completions answers from a "
       "document, POST /v1/cite finds the passages that support a text"},
      {"/rerank",
       "passages are not ranked here: POST /v1/chat/completions answers from a "
       "document, POST /v1/cite finds the passages that support a text"}};
  for (const Missing& missing : kMissing) {
    if (path.find(missing.part) != path.npos) return missing.message;
  }
  return "there is no such path: clients of OpenAI's API need the address of this server with /v1 "
         "behind it; /openapi.json lists all paths";
}

}  // namespace lectern::server
