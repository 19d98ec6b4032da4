// A model in GGUF files: what its keys say, in the terms of transformers.
//
// What an architecture calls its tensors and keys is in one table (gguf_model.cc). Files of
// architecture "llama" have the rows of the query and key matrices in another order than
// transformers (RopeRecipe::has_neighbours) and scale RoPE by a tensor, "rope_freqs.weight".
#ifndef LECTERN_ENGINE_GGUF_MODEL_H_
#define LECTERN_ENGINE_GGUF_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/bpe_model.h"
#include "engine/gguf.h"
#include "engine/model_source.h"

namespace lectern {

// `paths`: the parts, in order. kUnsupportedModel: another architecture, or what config.h refuses.
// kMalformedModel: keys or parts that contradict each other. Codes of ParseGguf.
Result<std::unique_ptr<ModelSource>> OpenGgufModel(Env& env, const std::vector<std::string>& paths,
                                                   Io io);

// The parts of the split set that `path` is of ("m-00002-of-00003.gguf"), in order; else `path`.
std::vector<std::string> GgufParts(const std::string& path);

// tokenizer.ggml.*: by the name of the tokenizer's model, not by what is there. kUnsupportedModel
// for names that are not known; kMalformedModel.
Result<TokenizerModel> ReadGgufTokenizer(const GgufTable& table, const std::string& path);

// Whether it is one of byte-level BPE, "gpt2".
bool IsGgufBytePairs(const GgufTable& table);
// Its arrays, with the pattern that tokenizer.ggml.pre names. kUnsupportedModel: a pattern that is
// not known; kMalformedModel.
Result<BpeArrays> ReadGgufBytePairs(const GgufTable& table, const std::string& path);
// All that changes how text is encoded.
std::string IdentityOf(const BpeArrays& arrays);

}  // namespace lectern

#endif  // LECTERN_ENGINE_GGUF_MODEL_H_
