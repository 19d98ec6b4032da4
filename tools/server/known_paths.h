// Paths by which clients of other servers find this one: OpenAI's API without "/v1" (llama.cpp's
// server has it so), behind "/openai" (Azure's), or with "/v1" twice, where both the client and the
// address that it was given add one. For paths that have no counterpart here: the way out. Any
// thread.
#ifndef LECTERN_TOOLS_SERVER_KNOWN_PATHS_H_
#define LECTERN_TOOLS_SERVER_KNOWN_PATHS_H_

#include <string_view>

#include "tools/server/http.h"

namespace lectern::server {

// Replaces a path of chat completions, responses or models that clients use in place of this
// server's by this server's; a slash at its end goes. "/openai/deployments/NAME/chat/completions"
// (Azure's) and "/v1/engines/NAME/chat/completions" (OpenAI's until 2022) name the model: it is put
// into head.path_model. Other paths stay as they are.
void ReplaceAlias(RequestHead& head);

// The error's message for a path that does not exist. For paths of OpenAI's, Anthropic's, Ollama's
// and llama.cpp's servers it says how to ask here instead.
std::string_view MissingPathMessage(std::string_view path);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_KNOWN_PATHS_H_
