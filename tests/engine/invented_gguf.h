// GGUF files for tests whose weights are invented: the same models as those of invented_model.h,
// with the names, the order of rows and the norms that llama.cpp's converter gives them. Functions
// throw std::runtime_error where they cannot read a file or write a type. `architecture`: a case of
// tests/golden/architectures.json.
#ifndef LECTERN_TESTS_ENGINE_INVENTED_GGUF_H_
#define LECTERN_TESTS_ENGINE_INVENTED_GGUF_H_

#include <map>
#include <string>
#include <vector>

#include "engine/model/formats/json.h"
#include "tests/engine/gguf_writer.h"

namespace lectern::testing {

// A case of tests/golden/architectures.json with other fields of config.json, and tensors of those
// sizes.
Json WithFields(const Json& architecture, const Json::Object& fields);

// The architecture's keys; not the vocabulary.
void AddInventedKeys(const Json& architecture, GgufWriter& file);
// The arrays of tests/golden/tiny.
void AddTinyVocabulary(GgufWriter& file);
// Those of a tokenizer.json with byte pairs; `pre`: tokenizer.ggml.pre.
void AddBytePairs(const Json& tokenizer, const std::string& pre, GgufWriter& file);

// All tensors, matrices in `type`: of plain ones those of invented_model.h, of blocks random bits.
// `is_split`: each expert's matrices are tensors of their own, as in files of early 2024.
// Returns what the matrices are worth, under transformers' names and in its order of rows.
std::map<std::string, std::vector<double>> AddInventedTensors(const Json& architecture,
                                                              TensorType type, GgufWriter& file,
                                                              bool is_split = false);

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_ENGINE_INVENTED_GGUF_H_
