// Values that a row leaves out have the defaults of struct Architecture: those of Llama.
#include "engine/model/weights/architecture.h"

namespace lectern {
namespace {

constexpr Architecture kArchitectures[] = {
    // Llama 1, 2, 3.x, TinyLlama, SmolLM2 and all that are saved as Llama.
    {.model_type = "llama",
     .class_name = "LlamaForCausalLM",
     .may_have_attention_bias = true,
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
     .fused = true,
     .partial_rotary = true,
     .window = WindowRule::kAll,
     .sizes = {32064, 3072, 8192, 32, 32, 32, 4096}},
};

}  // namespace

std::span<const Architecture> Architectures() { return kArchitectures; }

const Architecture* FindArchitecture(std::string_view model_type) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.model_type == model_type) return &architecture;
  }
  return nullptr;
}

std::string ArchitectureNames() {
  std::string names;
  for (const Architecture& architecture : kArchitectures) {
    names += (names.empty() ? "\"" : ", \"") + std::string(architecture.model_type) + "\"";
  }
  return names;
}

}  // namespace lectern
