// The table of model architectures that GGUF files may hold, with the names that these files give
// to settings and tensors. gguf_model.cc reads files by it; engine/model/weights/architecture.h
// says what each architecture computes.
#ifndef LECTERN_ENGINE_MODEL_GGUF_ARCHITECTURE_H_
#define LECTERN_ENGINE_MODEL_GGUF_ARCHITECTURE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/model/weights/architecture.h"

namespace lectern {

// One architecture: a row of the table.
struct GgufArchitecture {
  std::string_view name;        // the value of the file's key "general.architecture"
  std::string_view model_type;  // the same architecture in config.json
  // Beside CommonGgufKeys(): "<name>.<gguf>" is field `ours` of config.json.
  std::span<const Renamed> keys;
  // "blk.0.<gguf>.weight" is "model.layers.0.<ours>.weight", and so are biases.
  std::span<const Renamed> layer_tensors;
  bool has_neighbours = false;  // becomes RopeRecipe::has_neighbours
  // The number of layers by which the 27B model of Gemma 2 or 3 is recognised, or 0. That model
  // alone divides its logits by the root of hidden_size / heads in place of head_dim, and no key of
  // the file says so; llama.cpp recognises it in the same way.
  uint32_t layers_with_wide_scalar = 0;
  // `has_pattern`: some layers have a sliding window, as the key "attention.sliding_window_pattern"
  // says, or else by the architecture's rule. `needs_window`: and only if the file has the key
  // "attention.sliding_window" at all.
  bool has_pattern = false, needs_window = false;
  // The architecture in config.json of a file that has experts; empty: `model_type`.
  std::string_view type_with_experts = "";
  // Weights of a token's experts add up to 1, as llama.cpp computes them, where no key says it.
  bool normalises_experts = false;
  bool truncates_yarn = true;  // RopeRecipe::truncate, which no key says
  // The key "rope.scaling.finetuned" says whether RoPE is used at all; without the key it is.
  bool finetuned_means_rope = false;
};

// All architectures that can be read, in the order in which error messages list them.
std::span<const GgufArchitecture> GgufArchitectures();
// The settings that every architecture has: key "<architecture>.<gguf>" is field `ours` of
// config.json. A name such as "rope_scaling.factor" is field "factor" of the object "rope_scaling".
std::span<const Renamed> CommonGgufKeys();

// Translates a tensor's name: from GGUF's to transformers' (`from_gguf`), or the other way round.
// The layer's number and the ending, such as ".weight", stay as they are, unchecked. Names outside
// layers are translated for every architecture. Returns "" for a name without an ending, or whose
// word is in no table of this architecture. Architectures share tables, so a translated name may be
// that of a tensor that this architecture lacks.
std::string RenameTensor(std::string_view name, const GgufArchitecture& architecture,
                         bool from_gguf);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_GGUF_ARCHITECTURE_H_
