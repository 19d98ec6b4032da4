// Finds the GGUF file of a model that Ollama has downloaded, by the name that Ollama gives the
// model. Only files are read: Ollama need not run. The engine uses it for
// EngineOptions::ollama_models.
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

// Whether a text has the form of a name of Ollama's: "llama3.2", "llama3.2:1b",
// "someone/model:tag", "hf.co/someone/model:Q4_K_M". A host with a port is not accepted. Says
// nothing about whether the model is there.
bool IsOllamaName(std::string_view text);

// Returns the path of the weights' file. `models`: Ollama's folder. A name without host and
// namespace means one in Ollama's library; a name without a tag means "latest". kNotFound, param
// "model": no such name or manifest (the message says where it looked), or the manifest's blob is
// missing. kMalformedModel: the manifest cannot be read as one. kUnsupportedModel: the model has an
// adapter, or weights in several layers. Other codes of Env. The blob is not opened, and its bytes
// are not compared with its digest.
Result<std::string> FindOllamaModel(Env& env, const std::string& models, std::string_view name);

// Returns the path of a model that a caller gave: `path`, or, if nothing is there, the model that
// Ollama knows by the name `text`. If `text` is no such name (IsOllamaName), the result is `path`,
// whether anything is there or not. `path`: absolute; if it is empty (none was given), the result
// is empty, too. `text`: as the caller wrote it. `models`: Ollama's folder, or empty. kNotFound,
// param "model": `text` is a name, but nothing is at the path, and there is no folder of Ollama's;
// else codes of FindOllamaModel and Env::Exists.
Result<std::string> FindGivenModel(Env& env, const std::string& path, const std::string& text,
                                   const std::string& models);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_OLLAMA_H_
