// What a Llama-family model is, from config.json or what stands for it, checked field by field.
#ifndef LECTERN_ENGINE_CONFIG_H_
#define LECTERN_ENGINE_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/json.h"
#include "store/status.h"

namespace lectern {

// How the angles of rotary embedding come from positions. `rope_scaling` (transformers 4) and
// `rope_parameters` (transformers 5, holds rope_theta too), `type` or `rope_type`.
struct RopeRecipe {
  enum class Kind { kDefault, kLlama3 };
  Kind kind = Kind::kDefault;
  double theta = 10000.0;
  // llama3 only:
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_max_positions = 8192.0;
  // Where the model's file has them ready ("rope_freqs" of a GGUF): what the frequency of each pair
  // is divided by. [head_dim / 2] or empty.
  std::vector<float> divisors = {};
  // Rows of the query and key matrices are in the order in which pairs of a head are neighbours,
  // (0, 1), (2, 3), …; else a pair is (i, i + head_dim / 2), as in transformers.
  bool has_neighbours = false;
};

// Which keys a layer attends to.
enum class AttentionKind : uint8_t { kFull = 0, kSlidingWindow = 1 };

struct ModelConfig {
  uint32_t vocab_size = 0;
  uint32_t hidden_size = 0;
  uint32_t intermediate_size = 0;
  uint32_t num_layers = 0;
  uint32_t num_heads = 0;     // query heads
  uint32_t num_kv_heads = 0;  // divides num_heads
  uint32_t head_dim = 0;      // even; explicit or hidden_size / num_heads
  uint32_t max_positions = 0;
  float rms_norm_epsilon = 1e-6f;
  bool tie_word_embeddings = false;
  RopeRecipe rope;
  std::vector<AttentionKind> attention;  // [num_layers]
  std::vector<int32_t> eos_ids;          // config.json's; may be empty

  uint32_t query_group() const { return num_heads / num_kv_heads; }
};

// `json` are the bytes of config.json, `path` only names them in messages.
// Unknown fields that cannot change the result are ignored; what we do not run is refused by name
// with kUnsupportedModel: architectures other than LlamaForCausalLM, attention_bias, mlp_bias,
// sliding windows, hidden_act other than silu, other RoPE recipes, quantization_config, experts,
// partial_rotary_factor != 1, pretraining_tp > 1. kMalformedModel: not JSON, nesting > 16,
// duplicate keys, missing or out-of-range fields, counts that contradict each other.
Result<ModelConfig> ParseConfig(std::string_view json, const std::string& path);

// Where a configuration is from, for messages.
struct ConfigFile {
  std::string path;
  // What it calls fields that have another name in config.json.
  std::map<std::string, std::string, std::less<>> own_names;
};
// The same of fields that somebody else parsed, under config.json's names.
Result<ModelConfig> ReadConfig(const Json& root, const ConfigFile& file);

// [head_dim / 2]: radians per position of each pair, as transformers computes them in float32.
std::vector<float> InverseFrequencies(const RopeRecipe& recipe, uint32_t head_dim);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONFIG_H_
