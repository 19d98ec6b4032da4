// Opens a model in GGUF files as a ModelSource: translates settings and tensor names into the terms
// of transformers, in which the rest of the engine knows models. model_source.cc uses it.
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

// Opens the parts of one model and checks all that can be checked without reading weights: only
// headers, keys and RoPE's small tensors are read. The files stay open until the tensors are moved
// out. `paths`: the parts of a split set in order, or one file; not empty.
// kUnsupportedModel: an architecture, key or tensor that would be computed wrongly, an adapter, a
// projector of images, or a setting that config.h refuses. kMalformedModel: a key that is missing,
// and keys or parts that contradict each other. Also the codes of Env and of ParseGguf.
Result<std::unique_ptr<ModelSource>> OpenGgufModel(Env& env, const std::vector<std::string>& paths,
                                                   Io io);

// Returns the paths of all parts of the split set that `path` belongs to ("m-00002-of-00003.gguf"),
// in order. A path that names no part of a set of at most 1,000 is returned alone. Looks at the
// name only: the files need not exist.
std::vector<std::string> GgufParts(const std::string& path);

// Makes the tokenizer that the keys tokenizer.ggml.* describe, as llama.cpp reads them.
// Tokenizer::assumptions says where the file is silent and a default was taken.
// `table`: keys of the first part; `path` names it in messages. kUnsupportedModel: a kind of
// vocabulary, or a way to cut words, that is not known. kMalformedModel: a key that is missing, of
// another type or too short. Also the codes of Tokenizer::Make and BpeModel::Make.
Result<std::unique_ptr<Tokenizer>> MakeGgufTokenizer(const GgufTable& table,
                                                     const std::string& path);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_GGUF_MODEL_H_
