// A model in GGUF files: what its keys say, in the terms of transformers.
//
// What an architecture calls its tensors and keys is in one table (gguf_model.cc). Files of
// architecture "llama" have the rows of the query and key matrices in another order than
// transformers (RopeRecipe::has_neighbours) and scale RoPE by a tensor, "rope_freqs.weight".
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

// The parts of the split set that `path` is of ("m-00002-of-00003.gguf"), in order; else `path`.
std::vector<std::string> GgufParts(const std::string& path);

// The vocabulary of tokenizer.ggml.*, by the name of its kind, as llama.cpp reads it; what the keys
// leave open is in Tokenizer::assumptions. kUnsupportedModel: a kind, or a way to cut words, that
// is not known; kMalformedModel.
Result<std::unique_ptr<Tokenizer>> MakeGgufTokenizer(const GgufTable& table,
                                                     const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_GGUF_MODEL_H_
