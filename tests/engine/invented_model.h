// Model folders for tests whose weights are invented: tests/golden/make_architecture_golden.py has
// the same formula.
#ifndef LECTERN_TESTS_ENGINE_INVENTED_MODEL_H_
#define LECTERN_TESTS_ENGINE_INVENTED_MODEL_H_

#include <string>
#include <vector>

#include "engine/model/formats/json.h"

namespace lectern::testing {

// The weight of element `index` of a tensor of this name and shape, drawn from a hash of both.
// `norm_base`: the value about which the weights of norms lie (1, or 0 where the model adds 1).
float InventedWeight(const std::string& name, const std::vector<uint64_t>& shape, float norm_base,
                     uint64_t index);

// The same of `architecture`, a case of tests/golden/architectures.json, whose "gain", where it has
// one, multiplies queries: attention of invented weights looks everywhere without.
float WeightOf(const Json& architecture, const std::string& name,
               const std::vector<uint64_t>& shape, uint64_t index);

// One case of tests/golden/architectures.json as a model folder: config.json, model.safetensors
// (f32) and the tokenizer of the tiny model. `folder` must be there; files in it are overwritten.
// Throws std::runtime_error where a file cannot be read or written.
void WriteInventedModel(const Json& architecture, const std::string& folder);

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_ENGINE_INVENTED_MODEL_H_
