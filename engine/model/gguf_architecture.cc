// The names follow gguf-py/gguf/constants.py and tensor_mapping.py of llama.cpp, which write the
// files.
#include "engine/model/gguf_architecture.h"

namespace lectern {
namespace {

// Settings that all architectures share.
constexpr Renamed kKeys[] = {
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"block_count", "num_hidden_layers"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"context_length", "max_position_embeddings"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"rope.freq_base", "rope_theta"},
    {"rope.scaling.type", "rope_scaling.rope_type"},
    {"rope.scaling.factor", "rope_scaling.factor"},
    {"rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings"},
    {"rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast"},
    {"rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow"},
    {"expert_count", "num_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {"expert_weights_norm", "norm_topk_prob"},
    {"nextn_predict_layers", "num_nextn_predict_layers"},
};
// Settings that some architectures have beside these. A key that is listed for an architecture is
// read; the same key in a file of another one is refused if it would change the result
// (kRestrictedKeys).
constexpr Renamed kWindowKeys[] = {{"attention.sliding_window", "sliding_window"}};
constexpr Renamed kGemma2Keys[] = {{"attention.sliding_window", "sliding_window"},
                                   {"attn_logit_softcapping", "attn_logit_softcapping"},
                                   {"final_logit_softcapping", "final_logit_softcapping"}};
constexpr Renamed kGemma3Keys[] = {{"attention.sliding_window", "sliding_window"},
                                   {"final_logit_softcapping", "final_logit_softcapping"},
                                   {"rope.freq_base_swa", "rope_local_base_freq"}};
constexpr Renamed kPhi3Keys[] = {{"attention.sliding_window", "sliding_window"},
                                 {"rope.scaling.attn_factor", "rope_scaling.attention_factor"}};
constexpr Renamed kGraniteKeys[] = {{"attention.scale", "attention_multiplier"},
                                    {"embedding_scale", "embedding_multiplier"},
                                    {"residual_scale", "residual_multiplier"},
                                    {"logit_scale", "logits_scaling"}};
constexpr Renamed kCohereKeys[] = {{"attention.layer_norm_epsilon", "rms_norm_eps"},
                                   {"logit_scale", "logit_scale"}};
constexpr Renamed kCohere2Keys[] = {{"attention.layer_norm_epsilon", "rms_norm_eps"},
                                    {"attention.sliding_window", "sliding_window"},
                                    {"logit_scale", "logit_scale"}};
// Which of the two is there depends on the converter's age; both are the RMSNorm's.
constexpr Renamed kExaoneKeys[] = {{"attention.layer_norm_epsilon", "rms_norm_eps"}};

// Tensors outside layers.
constexpr Renamed kTensors[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
// Tensors of a layer of Llama, Mistral and Qwen.
constexpr Renamed kLlamaTensors[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
};
// Gemma has four norms in a layer where Llama has two, and the same GGUF name means another of
// them: "ffn_norm" is the norm before the MLP in both, and transformers calls that norm
// "post_attention_layernorm" in Llama and "pre_feedforward_layernorm" in Gemma.
constexpr Renamed kGemmaTensors[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};
// Phi-3 and GLM have gate and up in one matrix, which their GGUF files call "ffn_up".
constexpr Renamed kFusedGateTensors[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_up", "mlp.gate_up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
// The newer GLM-4 has norms behind attention and MLP, under Gemma's names.
constexpr Renamed kGlm4Tensors[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"ffn_up", "mlp.gate_up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};
constexpr Renamed kGptOssNames[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_sinks", "self_attn.sinks"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
};
constexpr GgufArchitecture kGgufArchitectures[] = {
    {.name = "llama",  // also Mistral's models, with experts or without
     .model_type = "llama",
     .keys = kWindowKeys,
     .layer_tensors = kLlamaTensors,
     .has_neighbours = true,
     .type_with_experts = "mixtral"},
    {.name = "mistral3",
     .model_type = "llama",
     .keys = {},
     .layer_tensors = kLlamaTensors,
     .has_neighbours = true},
    {.name = "qwen2", .model_type = "qwen2", .keys = {}, .layer_tensors = kLlamaTensors},
    {.name = "qwen3", .model_type = "qwen3", .keys = {}, .layer_tensors = kLlamaTensors},
    {.name = "gemma2",
     .model_type = "gemma2",
     .keys = kGemma2Keys,
     .layer_tensors = kGemmaTensors,
     .layers_with_wide_scalar = 46,  // Gemma 2 27B
     .has_pattern = true},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .keys = kGemma3Keys,
     .layer_tensors = kGemmaTensors,
     .layers_with_wide_scalar = 62,  // Gemma 3 27B
     .has_pattern = true,
     .needs_window = true},
    {.name = "granite",  // also Granite 4, where all layers are attention
     .model_type = "granite",
     .keys = kGraniteKeys,
     .layer_tensors = kLlamaTensors,
     .has_neighbours = true,
     .finetuned_means_rope = true},
    {.name = "olmo2",  // also OLMo 3
     .model_type = "olmo2",
     .keys = kWindowKeys,
     .layer_tensors = kGemmaTensors,
     .has_pattern = true,
     .needs_window = true},
    {.name = "smollm3",
     .model_type = "smollm3",
     .keys = {},
     .layer_tensors = kLlamaTensors,
     .has_neighbours = true},
    {.name = "chatglm",
     .model_type = "glm",
     .keys = {},
     .layer_tensors = kFusedGateTensors,
     .has_neighbours = true},
    {.name = "glm4",
     .model_type = "glm4",
     .keys = {},
     .layer_tensors = kGlm4Tensors,
     .has_neighbours = true},
    {.name = "exaone", .model_type = "exaone", .keys = kExaoneKeys, .layer_tensors = kLlamaTensors},
    {.name = "exaone4",
     .model_type = "exaone4",
     .keys = kWindowKeys,
     .layer_tensors = kGemmaTensors,
     .has_pattern = true,
     .needs_window = true},
    {.name = "command-r",
     .model_type = "cohere",
     .keys = kCohereKeys,
     .layer_tensors = kLlamaTensors,
     .has_neighbours = true},
    {.name = "cohere2",
     .model_type = "cohere2",
     .keys = kCohere2Keys,
     .layer_tensors = kLlamaTensors,
     .has_neighbours = true,
     .has_pattern = true},
    {.name = "qwen2moe", .model_type = "qwen2_moe", .keys = {}, .layer_tensors = kLlamaTensors},
    {.name = "qwen3moe",
     .model_type = "qwen3_moe",
     .keys = {},
     .layer_tensors = kLlamaTensors,
     .normalises_experts = true},
    {.name = "olmoe", .model_type = "olmoe", .keys = {}, .layer_tensors = kLlamaTensors},
    {.name = "granitemoe",
     .model_type = "granitemoe",
     .keys = kGraniteKeys,
     .layer_tensors = kLlamaTensors,
     .has_neighbours = true},
    {.name = "gpt-oss",
     .model_type = "gpt_oss",
     .keys = kWindowKeys,
     .layer_tensors = kGptOssNames,
     .has_pattern = true,
     .truncates_yarn = false},
    {.name = "phi3", .model_type = "phi3", .keys = kPhi3Keys, .layer_tensors = kFusedGateTensors},
};

constexpr std::string_view kLayerPrefix = "blk.", kOurLayerPrefix = "model.layers.";

}  // namespace

std::span<const GgufArchitecture> GgufArchitectures() { return kGgufArchitectures; }

std::span<const Renamed> CommonGgufKeys() { return kKeys; }

// A name in a layer has three parts: prefix with the layer's number, the word that is translated,
// and an ending that stays. Any other name is a word and an ending.
std::string RenameTensor(std::string_view name, const GgufArchitecture& architecture,
                         bool from_gguf) {
  const auto translate = [&](std::span<const Renamed> words, std::string_view text) {
    for (const auto& [gguf, ours] : words) {
      const std::string_view from = from_gguf ? gguf : ours;
      // The dot must follow, so that "attn_q" is not found in "attn_q_norm.weight".
      if (text.size() > from.size() && text.starts_with(from) && text[from.size()] == '.') {
        return std::string(from_gguf ? ours : gguf) + std::string(text.substr(from.size()));
      }
    }
    return std::string();
  };
  const std::string_view prefix = from_gguf ? kLayerPrefix : kOurLayerPrefix;
  if (!name.starts_with(prefix)) return translate(kTensors, name);
  const size_t dot = name.find('.', prefix.size());
  if (dot == std::string_view::npos) return "";
  const std::string rest = translate(architecture.layer_tensors, name.substr(dot + 1));
  if (rest.empty()) return "";
  return std::string(from_gguf ? kOurLayerPrefix : kLayerPrefix) +
         std::string(name.substr(prefix.size(), dot - prefix.size() + 1)) + rest;
}

}  // namespace lectern
