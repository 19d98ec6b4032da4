// Finds the GGUF file of a model that Ollama has downloaded, by the name that Ollama gives it and
// without asking Ollama.
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

// Returns the path of the weights' file. A name without host and namespace means those of Ollama's
// library; one without a tag means "latest". kNotFound (param "model"; says where it looked),
// kMalformedModel (the manifest is not one), kNotFound (its blob), kUnsupportedModel (an adapter,
// or weights in several layers).
Result<std::string> FindOllamaModel(Env& env, const std::string& models, std::string_view name);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_OLLAMA_H_
