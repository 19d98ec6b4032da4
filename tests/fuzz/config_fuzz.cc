// Fuzzes ParseConfig: sizes that it accepts are within the ranges for which the engine has buffers.
#include <cmath>
#include <cstdlib>

#include "engine/model/weights/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  if (const auto ends = lectern::ParseGenerationEnds(json, 100); ends.ok()) {
    for (const int32_t id : *ends) {
      if (id < 0 || id >= 100) std::abort();
    }
  }
  const lectern::Result<lectern::ModelConfig> config = lectern::ParseConfig(json, "config.json");
  if (!config.ok()) return 0;
  const lectern::ModelConfig& c = *config;
  const bool is_sound = c.num_layers >= 1 && c.num_layers <= 1024 && c.num_kv_heads >= 1 &&
                        c.num_heads % c.num_kv_heads == 0 && c.head_dim % 2 == 0 &&
                        c.head_dim >= 2 && c.head_dim <= 1024 && c.vocab_size >= 1 &&
                        c.attention.size() == c.num_layers && c.rms_norm_epsilon > 0 &&
                        c.rope.theta >= 1 && (c.window > 0) == (c.num_full_layers() < c.num_layers);
  if (!is_sound) std::abort();
  for (const lectern::RopeRecipe* recipe : {&c.rope, &c.local_rope}) {
    if (recipe->dims < 2 || recipe->dims > c.head_dim || recipe->dims % 2 != 0) std::abort();
    for (const uint64_t length : {1, 1 << 20}) {
      const lectern::RopeTable table = lectern::MakeRopeTable(*recipe, length);
      if (table.frequencies.size() != recipe->dims / 2) std::abort();
      for (const float frequency : table.frequencies) {
        if (!std::isfinite(frequency)) std::abort();
      }
      if (!std::isfinite(table.attention_factor)) std::abort();
    }
  }
  return 0;
}
