// The architectures whose GGUF files are read, and the names that these files have for keys and
// tensors. engine/model/weights/architecture.h says what each architecture computes.
#ifndef LECTERN_ENGINE_MODEL_GGUF_ARCHITECTURE_H_
#define LECTERN_ENGINE_MODEL_GGUF_ARCHITECTURE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lectern {

struct Renamed {
  std::string_view gguf, ours;  // ours: as in transformers
};

struct GgufArchitecture {
  std::string_view name;        // general.architecture
  std::string_view model_type;  // config.json's
  // Beside CommonGgufKeys(): "<name>.<gguf>" is field `ours` of config.json.
  std::span<const Renamed> keys;
  // "blk.0.<gguf>.weight" is "model.layers.0.<ours>.weight", and so are biases.
  std::span<const Renamed> layer_tensors;
  bool has_neighbours = false;  // RopeRecipe
  // Gemma has a model, of so many layers, whose logits are divided by the root of hidden_size /
  // heads and not of head_dim. No key says so. 0: there is none.
  uint32_t layers_with_wide_scalar = 0;
  // Some layers are windowed, by a rule or by "attention.sliding_window_pattern"; `needs_window`:
  // only where "attention.sliding_window" is there.
  bool has_pattern = false, needs_window = false;
};

// The rows are in the order in which messages name them.
std::span<const GgufArchitecture> GgufArchitectures();
// Keys that all of them have: "<architecture>.<gguf>" is field `ours` of config.json.
std::span<const Renamed> CommonGgufKeys();

// The name of a tensor in transformers' words for its name in a GGUF file (`from_gguf`), or the
// other way round; "": it has none.
std::string RenameTensor(std::string_view name, const GgufArchitecture& architecture,
                         bool from_gguf);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_GGUF_ARCHITECTURE_H_
