// Models by the names that Ollama gives them, found offline in its folder.
//
//   <models>/manifests/<host>/<namespace>/<model>/<tag>   JSON: layers by media type and digest
//   <models>/blobs/sha256-<64 hex digits>                 a layer: the GGUF file
#ifndef LECTERN_ENGINE_MODEL_OLLAMA_H_
#define LECTERN_ENGINE_MODEL_OLLAMA_H_

#include <string>
#include <string_view>

#include "store/env.h"
#include "store/status.h"

namespace lectern {

// Whether a text can be such a name: "llama3.2", "llama3.2:1b", "someone/model:tag",
// "hf.co/someone/model:Q4_K_M".
bool IsOllamaName(std::string_view text);

// The file of the model's weights. Without host and namespace those of Ollama's library, without a
// tag "latest". kNotFound (param "model"; says where it looked), kMalformedModel (a manifest that
// is none), kNotFound (its blob), kUnsupportedModel (an adapter, or weights in several layers).
Result<std::string> FindOllamaModel(Env& env, const std::string& models, std::string_view name);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_OLLAMA_H_
