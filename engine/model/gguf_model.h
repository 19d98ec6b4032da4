// Opens a model in GGUF files and translates what their keys say into the terms of transformers, in
// which the rest of the engine knows models.
//
// One table (gguf_architecture.h) has the names that each architecture gives its tensors and keys.
// Files of architecture "llama" have the rows of the query and key matrices in another order than
// transformers (RopeRecipe::has_neighbours), and scale RoPE by a tensor, "rope_freqs.weight".
#ifndef LECTERN_ENGINE_MODEL_GGUF_MODEL_H_
#define LECTERN_ENGINE_MODEL_GGUF_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/model/formats/gguf.h"
#include "engine/model/model_source.h"
#include "engine/model/tokenizer/bpe_model.h"

namespace lectern {

// `paths`: the parts, in order. kUnsupportedModel: another architecture, or what config.h refuses.
// kMalformedModel: keys or parts that contradict each other. Codes of ParseGguf.
Result<std::unique_ptr<ModelSource>> OpenGgufModel(Env& env, const std::vector<std::string>& paths,
                                                   Io io);

// Returns the parts of the split set that `path` belongs to ("m-00002-of-00003.gguf"), in order; a
// path that is in no such set is returned alone.
std::vector<std::string> GgufParts(const std::string& path);

// Makes the tokenizer that the keys tokenizer.ggml.* describe, as llama.cpp reads them;
// Tokenizer::assumptions says what the keys leave open. kUnsupportedModel: a kind of vocabulary, or
// a way to cut words, that is not known; kMalformedModel.
Result<std::unique_ptr<Tokenizer>> MakeGgufTokenizer(const GgufTable& table,
                                                     const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_GGUF_MODEL_H_
