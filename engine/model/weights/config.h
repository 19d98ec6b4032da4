// Reads config.json, or what stands for it in a GGUF file, into a ModelConfig: every field is
// checked, and a model that Lectern would compute wrongly is refused by name.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/formats/json.h"
#include "engine/model/weights/rope.h"
#include "kernels/glu.h"
#include "store/status.h"

namespace lectern {

inline constexpr uint32_t kWidestHead = 1024;  // head_dim at most

// Which keys a layer attends to: all of them, or only the last `window`.
enum class AttentionKind : uint8_t { kFull = 0, kSlidingWindow = 1 };

// The experts of a layer's MLP. A router scores them for each token (router matrix times the MLP's
// input, in float32); the token goes through the `used` ones with the highest scores, the earlier
// one of two with equal scores. Their outputs are added up, times the softmax of the scores.
struct ExpertsConfig {
  uint32_t count = 0;         // of a layer; 0: the model is dense, and all else is 0
  uint32_t used = 0;          // of a token; 1..count
  uint32_t width = 0;         // intermediate size of an expert
  uint32_t shared_width = 0;  // of one more expert, which takes every token; 0: there is none
  bool biases = false;        // the router and the experts' matrices have biases
  bool interleaved = false;   // in the files (engine/model/weights/interleaved_experts.h)
  bool normalised = false;    // softmax over the used experts' scores; else over all scores
  // [num_layers]: layers that have a dense MLP in place of experts. Empty: none has.
  std::vector<bool> dense_layers;
};

// Everything that a forward pass needs to know about a model beside its weights. Checked: sizes are
// in range and fit together.
struct ModelConfig {
  std::string architecture;  // "model_type" of config.json
  uint32_t vocab_size = 0;
  uint32_t hidden_size = 0;
  uint32_t intermediate_size = 0;
  uint32_t num_layers = 0;
  uint32_t num_heads = 0;     // query heads
  uint32_t num_kv_heads = 0;  // divides num_heads
  uint32_t head_dim = 0;      // even; explicit or hidden_size / num_heads
  uint32_t max_positions = 0;  // that may be used; dynamic and YaRN recipes raise it
  float rms_norm_epsilon = 1e-6f;  // of all norms
  bool tie_word_embeddings = false;
  // Which tensors a layer has (engine/model/weights/architecture.h).
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool head_norms = false, whole_norms = false, post_norms = false, norms_from_one = false;
  bool pre_norms = true;  // before attention and MLP; else these read the residual stream itself
  bool centred_norms = false;  // norms subtract the mean first (LayerNorm without a bias)
  bool parallel = false;  // attention and MLP read one norm, and both are added to what it read
  bool fused_qkv = false, fused_gate_up = false;
  bool partial_rotary = false;  // RopeRecipe::dims may be below head_dim
  ExpertsConfig experts;
  RopeRecipe rope;
  RopeRecipe local_rope;                 // of windowed layers
  std::vector<AttentionKind> attention;  // [num_layers]
  // In windowed layers a token sees itself and the window - 1 before it. 0: no layer is windowed.
  // May be as large as all positions, where windowed layers differ by their RoPE alone.
  uint32_t window = 0;
  // [num_layers]: layers whose queries and keys are not turned by RoPE. Empty: all are turned.
  std::vector<bool> unturned;
  Activation activation = Activation::kSilu;
  float glu_limit = 7, glu_alpha = 1.702f;  // GluArgs
  // Each query head has a learned logit (a sink) beside those of the keys: attention's softmax goes
  // over it, too, and it adds nothing to the output.
  bool sinks = false;
  float embedding_scale = 1;  // what embeddings are multiplied with
  float residual_scale = 1;   // what attention and MLP give is multiplied with before it is added
  float logit_scale = 1;      // what logits are multiplied with; Weights puts it in the last norm
  // Queries are multiplied with this, so that the logit of every architecture is q . k /
  // sqrt(head_dim) for the kernels.
  float query_scale = 1;
  float attention_softcap = 0, logit_softcap = 0;  // kernels/softcap.h; 0: none
  // Tokens that end an answer by the files of the model (config.json, generation_config.json, or
  // keys of a GGUF file); may be empty.
  std::vector<int32_t> eos_ids;
  // Layers that the files have behind the others to predict more than one token; never run.
  uint32_t num_extra_layers = 0;
  // Clauses for the user, without a full stop: what was taken for granted because a file does not
  // say it, or says it otherwise.
  std::vector<std::string> assumptions;

  uint32_t query_group() const { return num_heads / num_kv_heads; }
  bool has_experts(size_t layer) const {
    return experts.count > 0 && (experts.dense_layers.empty() || !experts.dense_layers[layer]);
  }
  uint32_t num_expert_layers() const {
    if (experts.count == 0) return 0;
    return num_layers - static_cast<uint32_t>(std::ranges::count(experts.dense_layers, true));
  }
  // Intermediate values of a token that a layer computes one by one: of its one MLP, or of the
  // shared expert; 0: it has neither.
  uint32_t dense_width(size_t layer) const {
    return has_experts(layer) ? experts.shared_width : intermediate_size;
  }
  // The largest number of intermediate values that a token has at once in any layer.
  uint64_t widest_mlp() const {
    uint64_t widest = num_expert_layers() < num_layers ? intermediate_size : 0;
    if (num_expert_layers() == 0) return widest;
    return std::max(
        {widest, uint64_t{experts.shared_width}, uint64_t{experts.used} * experts.width});
  }
  // Intermediate values of a token that are computed, on average over the layers: what time
  // depends on.
  double active_mlp() const {
    const double with = num_expert_layers(), all = num_layers;
    return (with * (experts.shared_width + 1.0 * experts.width * experts.used) +
            (all - with) * intermediate_size) /
           all;
  }
  bool is_windowed(size_t layer) const { return attention[layer] == AttentionKind::kSlidingWindow; }
  uint32_t num_full_layers() const {
    return static_cast<uint32_t>(std::ranges::count(attention, AttentionKind::kFull));
  }
  bool is_turned(size_t layer) const { return unturned.empty() || !unturned[layer]; }
  const RopeRecipe& rope_of(size_t layer) const { return is_windowed(layer) ? local_rope : rope; }
};

// Parses `json`, the bytes of a config.json; `path` only names it in messages. Fields that cannot
// change the result are ignored if they are unknown, and so are images and sound: of a model that
// wraps a language model of ours ("text_config") that one is taken, and its absent fields have the
// defaults of its class. kUnsupportedModel refuses by name what Lectern does not run: architectures
// that are not in the table of architecture.h, heads that are no language model's, biases,
// windows and activations that the architecture does not have, RoPE recipes that rope.h does not
// know, quantization_config, experts where the architecture has none, pretraining_tp > 1.
// kMalformedModel: not JSON, nesting > 16, duplicate keys, missing or out-of-range fields, counts
// that contradict each other. kLimitExceeded: more than 1 MiB.
Result<ModelConfig> ParseConfig(std::string_view json, const std::string& path);

// Where a configuration is from, for messages.
struct ConfigFile {
  std::string path;
  // The file's own names of fields that have another name in config.json.
  std::map<std::string, std::string, std::less<>> own_names;
};

// `json` are the bytes of generation_config.json: its eos_token_id, a number or a list. Values that
// are no token of the model are left out; empty: it names none. Codes of ParseJson;
// kMalformedModel: not an object, or an eos_token_id that is neither.
Result<std::vector<int32_t>> ParseGenerationEnds(std::string_view json, uint32_t vocab_size);

// Does the same as ParseConfig for fields that somebody else parsed, under config.json's names.
// Errors have the field as their param, by the file's own name for it.
Result<ModelConfig> ReadConfig(const Json& root, const ConfigFile& file);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_CONFIG_H_
