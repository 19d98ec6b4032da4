// The table of the model architectures of the Llama family that Lectern runs: one row for each,
// with everything that tells it from the others.
//
// Config, weights and forward pass read these rows, or what ReadConfig makes of them: there is no
// other place that knows a model by its name. The values follow each family's configuration_*.py
// and modeling_*.py in transformers.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_ARCHITECTURE_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_ARCHITECTURE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/glu.h"

namespace lectern {

// One name in two vocabularies: that of a file, and the one that the rest of the engine uses.
struct Renamed {
  std::string_view theirs, ours;  // `ours`: as Llama's class in transformers has it, or Gemma's
};

// Which layers have a sliding window, where config.json has no `layer_types`.
enum class WindowRule : uint8_t {
  kNone,         // none: "sliding_window" must be absent, null, or switched off
  kSwitchedOff,  // none: "use_sliding_window", without which there is none, must not be true
  kAll,          // every layer, unless "sliding_window" is null
  kLastOnes,     // from max_window_layers on, where use_sliding_window is true
  kAllButNth,    // all but layers n - 1, 2n - 1, …; n: sliding_window_pattern, or else the period
};

// Which layers turn queries and keys by RoPE.
enum class RopeRule : uint8_t {
  kAll,
  kPositionType,   // all where "position_embedding_type" is "rope", else none
  kUnlessNope,     // none where "position_embedding_type" is "nope", else all
  kByLayer,        // as "no_rope_layers" says, else all but every no_rope_layer_interval-th
  kWindowed,       // the windowed ones alone
  kWindowedIfAny,  // the windowed ones; all, where no layer is windowed
};

// Experts of an architecture. The fields are num_experts, num_experts_per_tok and, where the row
// says so, others. Numbers are the defaults of a class of transformers, as in DefaultSizes.
struct ExpertRule {
  uint32_t count = 0;  // 0: the architecture is dense
  uint32_t used = 0;
  // The default of "moe_intermediate_size"; 0: experts are as wide as "intermediate_size" says.
  uint32_t width = 0;
  // The default of "shared_expert_intermediate_size"; 0: no expert takes every token.
  uint32_t shared_width = 0;
  // The weights of a token's experts add up to 1; else "norm_topk_prob" says whether they do.
  bool normalised = false;
  // "decoder_sparse_step" and "mlp_only_layers" name layers without experts, and with no experts at
  // all the model is dense.
  bool may_have_dense_layers = false;
  bool biases = false;  // the router and the matrices of experts have biases
  // Folders join experts as gpt-oss does (engine/model/weights/interleaved_experts.h).
  bool interleaved = false;
};

// The default sizes of a class of transformers, for a wrapped configuration ("text_config") that
// leaves them out. A plain config.json must state them, except kv_heads (then as many as heads) and
// positions (then 2,048).
struct DefaultSizes {
  uint32_t vocab = 0, hidden = 0, intermediate = 0, layers = 0, heads = 0, kv_heads = 0;
  uint32_t positions = 2048;
};

// A row of the table. "Where config.json does not say" means that a field of it overrides the
// value.
struct Architecture {
  std::string_view model_type;  // of config.json
  std::string_view class_name;  // in its "architectures"
  Activation activation = Activation::kSilu;
  uint32_t head_dim = 0;  // where config.json names none; 0: hidden_size / heads
  bool qkv_bias = false;  // q, k and v have biases
  bool sinks = false;     // each query head has a learned logit beside those of the keys
  // The field "attention_bias" is read: if it is true, q, k, v and o have biases. Else it must not
  // be true.
  bool may_have_attention_bias = false;
  bool attention_bias = false;         // where config.json does not say
  bool attention_bias_is_of_o = true;  // else o has no bias even then
  // The field "mlp_bias" is read: if it is true, gate, up and down have biases. Else it must not be
  // true.
  bool may_have_mlp_bias = false;
  bool head_norms = false;        // of each head's query and key, before RoPE
  bool whole_norms = false;       // of the query and the key of all heads together, before RoPE
  bool pre_norms = true;          // before attention and MLP
  bool post_norms = false;        // behind attention and MLP, before the residual sum
  bool norms_from_one = false;    // norms multiply with 1 + weight
  bool centred_norms = false;     // LayerNorm without a bias
  bool parallel = false;          // attention and MLP read the same norm
  double epsilon = 1e-6;          // of norms, where config.json does not say
  bool scales_embedding = false;  // by sqrt(hidden_size)
  // The fields embedding_multiplier, attention_multiplier, residual_multiplier and logits_scaling
  // are read; each is 1 where config.json does not say.
  bool has_multipliers = false;
  double logit_scale = 0;  // where config.json has no "logit_scale"; 0: the field is not read
  bool tied = false;              // where config.json does not say
  bool fused_qkv = false, fused_gate_up = false;  // one matrix for q, k, v; one for gate, up
  bool has_neighbours = false;    // becomes RopeRecipe::has_neighbours, for a folder
  bool partial_rotary = false;    // partial_rotary_factor may be below 1
  double rotary_factor = 1;       // where config.json does not say
  bool query_scalar = false;      // logits are divided by sqrt(query_pre_attn_scalar)
  float attention_softcap = 0, logit_softcap = 0;  // where config.json does not say; 0: it has none
  WindowRule window = WindowRule::kNone;
  uint32_t default_window = 0;  // where config.json does not say; 0: none
  uint32_t period = 0;          // kAllButNth, where config.json does not say
  double theta = 10000;         // where config.json does not say
  double local_theta = 0;       // of windowed layers, where they have their own; 0: they have not
  bool plain_local_rope = false;  // windowed layers have the same base and no recipe
  RopeRule rope = RopeRule::kAll;
  ExpertRule experts = {};
  // Fields of config.json that other classes call by other names, and parts of tensors' names: what
  // stands between dots. They are replaced in this order; names that are not listed are the same.
  std::span<const Renamed> fields = {}, tensors = {};
  DefaultSizes sizes = {};
};

// All rows. Static; nothing is freed.
std::span<const Architecture> Architectures();
const Architecture* FindArchitecture(std::string_view model_type);  // nullptr: not known
// The name that the engine has for a tensor of a folder of this architecture; `name`: as
// transformers saves it.
std::string TensorNameOf(std::string_view name, const Architecture& architecture);
// Why a known architecture is not run, and what to take instead; `name`: a model_type, or GGUF's
// "general.architecture". Empty: it is run, or not known.
std::string_view WhyNotRun(std::string_view name);
std::string ArchitectureNames();  // all model_types: "\"llama\", \"mistral\", …", for messages

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_ARCHITECTURE_H_
