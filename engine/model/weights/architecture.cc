// Values that a row leaves out have the defaults of struct Architecture: those of Llama.
#include "engine/model/weights/architecture.h"

#include <algorithm>

namespace lectern {
namespace {

constexpr Renamed kGraniteHybridFields[] = {{"shared_intermediate_size", "intermediate_size"}};
constexpr Renamed kGraniteHybridTensors[] = {{"shared_mlp.input_linear", "mlp.gate_up_proj"},
                                             {"shared_mlp.output_linear", "mlp.down_proj"}};
// Gemma's names for four norms; GLM-4 has these for others of them.
constexpr Renamed kGlm4Norms[] = {{"post_attention_layernorm", "pre_feedforward_layernorm"},
                                  {"post_self_attn_layernorm", "post_attention_layernorm"},
                                  {"post_mlp_layernorm", "post_feedforward_layernorm"}};
constexpr Renamed kExaoneFields[] = {{"num_layers", "num_hidden_layers"},
                                     {"layer_norm_epsilon", "rms_norm_eps"},
                                     {"activation_function", "hidden_act"}};
constexpr Renamed kExaoneTensors[] = {{"transformer.wte", "model.embed_tokens"},
                                      {"transformer.ln_f", "model.norm"},
                                      {"transformer.h", "model.layers"},
                                      {"ln_1", "input_layernorm"},
                                      {"ln_2", "post_attention_layernorm"},
                                      {"attn.attention.out_proj", "self_attn.o_proj"},
                                      {"attn.attention", "self_attn"},
                                      {"mlp.c_fc_0", "mlp.gate_proj"},
                                      {"mlp.c_fc_1", "mlp.up_proj"},
                                      {"mlp.c_proj", "mlp.down_proj"}};
constexpr Renamed kCohereFields[] = {{"layer_norm_eps", "rms_norm_eps"}};

constexpr Renamed kMixtralTensors[] = {
    {"block_sparse_moe", "mlp"}, {"w1", "gate_proj"}, {"w3", "up_proj"}, {"w2", "down_proj"}};
constexpr Renamed kGraniteMoeTensors[] = {
    {"block_sparse_moe.router.layer", "mlp.gate"},
    {"block_sparse_moe.input_linear", "mlp.experts.gate_up_proj"},
    {"block_sparse_moe.output_linear", "mlp.experts.down_proj"}};

constexpr Renamed kGptOssTensors[] = {{"mlp.router", "mlp.gate"}};

constexpr Architecture kArchitectures[] = {
    // Llama 1, 2, 3.x, TinyLlama, SmolLM2 and all that are saved as Llama.
    {.model_type = "llama",
     .class_name = "LlamaForCausalLM",
     .may_have_attention_bias = true,
     .may_have_mlp_bias = true,
     .sizes = {32000, 4096, 11008, 32, 32, 32, 2048}},
    {.model_type = "mistral",
     .class_name = "MistralForCausalLM",
     .window = WindowRule::kAll,
     .default_window = 4096,
     .sizes = {32000, 4096, 14336, 32, 32, 8, 131072}},
    // Qwen2 and Qwen2.5.
    {.model_type = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .qkv_bias = true,
     .window = WindowRule::kLastOnes,
     .default_window = 4096,
     .sizes = {151936, 4096, 22016, 32, 32, 32, 32768}},
    {.model_type = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .head_dim = 128,
     .may_have_attention_bias = true,
     .head_norms = true,
     .window = WindowRule::kLastOnes,
     .default_window = 4096,
     .sizes = {151936, 4096, 22016, 32, 32, 32, 32768}},
    {.model_type = "gemma2",
     .class_name = "Gemma2ForCausalLM",
     .activation = Activation::kGeluTanh,
     .head_dim = 256,
     .may_have_attention_bias = true,
     .post_norms = true,
     .norms_from_one = true,
     .scales_embedding = true,
     .tied = true,
     .query_scalar = true,
     .attention_softcap = 50,
     .logit_softcap = 30,
     .window = WindowRule::kAllButNth,
     .default_window = 4096,
     .period = 2,
     .sizes = {256000, 2304, 9216, 26, 8, 4, 8192}},
    {.model_type = "gemma3_text",
     .class_name = "Gemma3ForCausalLM",
     .activation = Activation::kGeluTanh,
     .head_dim = 256,
     .may_have_attention_bias = true,
     .head_norms = true,
     .post_norms = true,
     .norms_from_one = true,
     .scales_embedding = true,
     .tied = true,
     .query_scalar = true,
     .window = WindowRule::kAllButNth,
     .default_window = 4096,
     .period = 6,
     .theta = 1e6,
     .local_theta = 10000,
     .sizes = {262208, 2304, 9216, 26, 8, 4, 131072}},
    {.model_type = "phi3",
     .class_name = "Phi3ForCausalLM",
     .fused_qkv = true,
     .fused_gate_up = true,
     .partial_rotary = true,
     .window = WindowRule::kAll,
     .sizes = {32064, 3072, 8192, 32, 32, 32, 4096}},
    // Granite 3.
    {.model_type = "granite",
     .class_name = "GraniteForCausalLM",
     .may_have_attention_bias = true,
     .may_have_mlp_bias = true,
     .has_multipliers = true,
     .rope = RopeRule::kUnlessNope,  // Granite 4 in a GGUF file
     .sizes = {32000, 4096, 11008, 32, 32, 32, 2048}},
    // Granite 4, those whose layers are all attention and whose one MLP is the shared one.
    {.model_type = "granitemoehybrid",
     .class_name = "GraniteMoeHybridForCausalLM",
     .may_have_attention_bias = true,
     .has_multipliers = true,
     .fused_gate_up = true,
     .rope = RopeRule::kPositionType,
     .fields = kGraniteHybridFields,
     .tensors = kGraniteHybridTensors,
     .sizes = {32000, 4096, 1024, 32, 32, 32, 2048}},
    // In GGUF files OLMo 3 is OLMo 2 with windows.
    {.model_type = "olmo2",
     .class_name = "Olmo2ForCausalLM",
     .may_have_attention_bias = true,
     .whole_norms = true,
     .pre_norms = false,
     .post_norms = true,
     .epsilon = 1e-5,
     .window = WindowRule::kAllButNth,
     .period = 4,
     .plain_local_rope = true,
     .sizes = {50304, 4096, 11008, 32, 32, 32, 2048}},
    {.model_type = "olmo3",
     .class_name = "Olmo3ForCausalLM",
     .may_have_attention_bias = true,
     .whole_norms = true,
     .pre_norms = false,
     .post_norms = true,
     .epsilon = 1e-5,
     .window = WindowRule::kAllButNth,
     .default_window = 4096,
     .period = 4,
     .theta = 5e5,
     .plain_local_rope = true,
     .sizes = {50304, 4096, 11008, 32, 32, 32, 2048}},
    {.model_type = "smollm3",
     .class_name = "SmolLM3ForCausalLM",
     .may_have_attention_bias = true,
     .may_have_mlp_bias = true,
     .tied = true,
     .theta = 2e6,
     .rope = RopeRule::kByLayer,
     .sizes = {128256, 2048, 11008, 36, 16, 4, 32768}},
    // GLM-4-9B of 2024.
    {.model_type = "glm",
     .class_name = "GlmForCausalLM",
     .head_dim = 128,
     .may_have_attention_bias = true,
     .attention_bias = true,
     .attention_bias_is_of_o = false,
     .epsilon = 0.00000015625,
     .fused_gate_up = true,
     .has_neighbours = true,
     .partial_rotary = true,
     .rotary_factor = 0.5,
     .sizes = {151552, 4096, 13696, 40, 32, 2, 131072}},
    // GLM-4-0414.
    {.model_type = "glm4",
     .class_name = "Glm4ForCausalLM",
     .head_dim = 128,
     .may_have_attention_bias = true,
     .attention_bias = true,
     .attention_bias_is_of_o = false,
     .post_norms = true,
     .epsilon = 0.00000015625,
     .fused_gate_up = true,
     .has_neighbours = true,
     .partial_rotary = true,
     .rotary_factor = 0.5,
     .tensors = kGlm4Norms,
     .sizes = {151552, 4096, 13696, 40, 32, 2, 131072}},
    // EXAONE 3 and 3.5.
    {.model_type = "exaone",
     .class_name = "ExaoneForCausalLM",
     .may_have_attention_bias = true,
     .epsilon = 1e-5,
     .theta = 5e5,
     .fields = kExaoneFields,
     .tensors = kExaoneTensors,
     .sizes = {102400, 4096, 14336, 32, 32, 8, 4096}},
    {.model_type = "exaone4",
     .class_name = "Exaone4ForCausalLM",
     .head_norms = true,
     .pre_norms = false,
     .post_norms = true,
     .epsilon = 1e-5,
     .window = WindowRule::kAllButNth,
     .default_window = 4096,
     .period = 4,
     .rope = RopeRule::kWindowedIfAny,
     .sizes = {102400, 4096, 16384, 32, 32, 32, 2048}},
    // Command R, Aya 23.
    {.model_type = "cohere",
     .class_name = "CohereForCausalLM",
     .may_have_attention_bias = true,
     .centred_norms = true,
     .parallel = true,
     .epsilon = 1e-5,
     .logit_scale = 0.0625,
     .tied = true,
     .has_neighbours = true,
     .theta = 5e5,
     .fields = kCohereFields,
     .sizes = {256000, 8192, 22528, 40, 64, 64, 8192}},
    // Command R7B, Command A, Aya Expanse.
    {.model_type = "cohere2",
     .class_name = "Cohere2ForCausalLM",
     .may_have_attention_bias = true,
     .centred_norms = true,
     .parallel = true,
     .epsilon = 1e-5,
     .logit_scale = 0.0625,
     .tied = true,
     .has_neighbours = true,
     .window = WindowRule::kAllButNth,
     .default_window = 4096,
     .period = 4,
     .rope = RopeRule::kWindowed,
     .fields = kCohereFields,
     .sizes = {256000, 8192, 22528, 40, 64, 64, 8192}},
    {.model_type = "mixtral",
     .class_name = "MixtralForCausalLM",
     .epsilon = 1e-5,
     .window = WindowRule::kAll,
     .theta = 1e6,
     .experts = {.count = 8, .used = 2, .normalised = true},
     .tensors = kMixtralTensors,
     .sizes = {32000, 4096, 14336, 32, 32, 8, 131072}},
    // Qwen1.5-MoE and Qwen2-57B-A14B.
    {.model_type = "qwen2_moe",
     .class_name = "Qwen2MoeForCausalLM",
     .qkv_bias = true,
     .window = WindowRule::kSwitchedOff,
     .experts = {.count = 60,
                 .used = 4,
                 .width = 1408,
                 .shared_width = 5632,
                 .may_have_dense_layers = true},
     .sizes = {151936, 2048, 5632, 24, 16, 16, 32768}},
    // Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder.
    {.model_type = "qwen3_moe",
     .class_name = "Qwen3MoeForCausalLM",
     .may_have_attention_bias = true,
     .head_norms = true,
     .window = WindowRule::kSwitchedOff,
     .experts = {.count = 128, .used = 8, .width = 768, .may_have_dense_layers = true},
     .sizes = {151936, 2048, 6144, 24, 32, 4, 32768}},
    {.model_type = "olmoe",
     .class_name = "OlmoeForCausalLM",
     .may_have_attention_bias = true,
     .whole_norms = true,
     .epsilon = 1e-5,
     .experts = {.count = 64, .used = 8},
     .sizes = {50304, 2048, 2048, 16, 16, 16, 4096}},
    {.model_type = "gpt_oss",
     .class_name = "GptOssForCausalLM",
     .activation = Activation::kClampedSilu,
     .head_dim = 64,
     .sinks = true,
     .may_have_attention_bias = true,
     .attention_bias = true,
     .epsilon = 1e-5,
     .window = WindowRule::kAllButNth,
     .default_window = 128,
     .period = 2,
     .theta = 150000,
     .experts = {.count = 128, .used = 4, .normalised = true, .biases = true, .interleaved = true},
     .tensors = kGptOssTensors,
     .sizes = {201088, 2880, 2880, 36, 64, 8, 131072}},
    // Granite 3 with experts.
    {.model_type = "granitemoe",
     .class_name = "GraniteMoeForCausalLM",
     .may_have_attention_bias = true,
     .has_multipliers = true,
     .experts = {.count = 8, .used = 2, .normalised = true},
     .tensors = kGraniteMoeTensors,
     .sizes = {32000, 4096, 11008, 32, 32, 32, 2048}},
};

// Architectures that are known and not run: names in config.json and in GGUF files, and the end of
// a sentence "is "…", which …".
struct NotRun {
  std::string_view why;
  std::span<const std::string_view> names;
};
constexpr std::string_view kExperts[] = {"granitemoeshared", "flex_olmo",
                                         "phimoe",           "dbrx",
                                         "deepseek_v2",      "deepseek_v3",
                                         "deepseek",         "deepseek2",
                                         "glm4_moe",         "glm4moe",
                                         "glm4_moe_lite",    "ernie4_5_moe",
                                         "ernie4_5-moe",     "hunyuan_v1_moe",
                                         "hunyuan-moe",      "exaone_moe",
                                         "exaone-moe",       "cohere2_moe",
                                         "cohere2moe",       "minimax",
                                         "minimax_m2",       "minimax-m2",
                                         "kimi_k2",          "arctic",
                                         "jetmoe",           "grok"};
constexpr std::string_view kLlama4[] = {"llama4", "llama4_text"};
constexpr std::string_view kStates[] = {
    "qwen3_5",        "qwen3_5_text", "qwen3_5_moe",     "qwen35",        "qwen35moe",
    "qwen3_next",     "qwen3next",    "mamba",           "mamba2",        "falcon_mamba",
    "jamba",          "bamba",        "zamba",           "zamba2",        "nemotron_h",
    "nemotron_h_moe", "falcon_h1",    "falcon-h1",       "granitehybrid", "lfm2",
    "lfm2_moe",       "lfm2moe",      "recurrent_gemma", "rwkv",          "rwkv6",
    "rwkv7",          "plamo2",       "olmo_hybrid",     "kimi_linear",   "kimi-linear"};
constexpr std::string_view kGemmaShared[] = {"gemma3n", "gemma3n_text", "gemma4", "gemma4_text"};
constexpr NotRun kNotRun[] = {
    {"mixes experts in a way that this build does not compute; take a dense model of the family, "
     "or Qwen 3 MoE, gpt-oss, Mixtral, OLMoE or Granite 3 MoE",
     kExperts},
    {"mixes experts and cuts attention into chunks, and this build does neither; take Llama 3",
     kLlama4},
    {"has layers that keep a state in place of keys, in which no document can be looked up; take a "
     "model whose layers are all attention, such as Qwen 3, Granite 3 or the dense Granite 4",
     kStates},
    {"shares keys and values between layers and adds an embedding to each layer, which this build "
     "does not do; take Gemma 3",
     kGemmaShared},
};

}  // namespace

std::string_view WhyNotRun(std::string_view name) {
  for (const NotRun& row : kNotRun) {
    if (std::ranges::find(row.names, name) != row.names.end()) return row.why;
  }
  return "";
}

std::span<const Architecture> Architectures() { return kArchitectures; }

const Architecture* FindArchitecture(std::string_view model_type) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type == model_type) return &architecture;
  }
  return nullptr;
}

std::string TensorNameOf(std::string_view name, const Architecture& architecture) {
  std::string ours(name);
  for (const auto& [from, to] : architecture.tensors) {
    const size_t at = ours.find(from), end = at + from.size();
    if (at == ours.npos || (at > 0 && ours[at - 1] != '.')) continue;
    if (end < ours.size() && ours[end] == '.') ours.replace(at, from.size(), to);
  }
  return ours;
}

std::string ArchitectureNames() {
  std::string names;
  for (const Architecture& architecture : kArchitectures) {
    names += (names.empty() ? "\"" : ", \"") + std::string(architecture.model_type) + "\"";
  }
  return names;
}

}  // namespace lectern
