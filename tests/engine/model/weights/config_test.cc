#include "engine/model/weights/config.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "engine/model/weights/architecture.h"
#include "tests/engine/memory_env.h"

namespace lectern {
namespace {

using Members = std::map<std::string, std::string>;  // field -> JSON text; empty text removes it

std::string ObjectJson(const Members& members) {
  std::string json;
  for (const auto& [name, value] : members) {
    if (!value.empty()) json += (json.empty() ? "\"" : ",\"") + name + "\":" + value;
  }
  return "{" + json + "}";
}

std::string ConfigJson(const Members& changes = {}) {
  Members members = {{"model_type", "\"llama\""}, {"architectures", "[\"LlamaForCausalLM\"]"},
                     {"vocab_size", "100"},       {"hidden_size", "64"},
                     {"intermediate_size", "96"}, {"num_hidden_layers", "3"},
                     {"num_attention_heads", "4"}};
  for (const auto& [name, value] : changes) members[name] = value;
  return ObjectJson(members);
}

TEST(ParseConfigTest, AbsentFieldsHaveTheDefaultsOfTransformers) {
  const Result<ModelConfig> config = ParseConfig(ConfigJson(), "config.json");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->num_kv_heads, 4u);
  EXPECT_EQ(config->head_dim, 16u);
  EXPECT_EQ(config->max_positions, 2048u);
  EXPECT_EQ(config->rms_norm_epsilon, 1e-6f);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_EQ(config->rope.kind, RopeRecipe::Kind::kDefault);
  EXPECT_EQ(config->rope.theta, 10000.0);
  EXPECT_EQ(config->attention, std::vector(3, AttentionKind::kFull));
  EXPECT_TRUE(config->eos_ids.empty());
}

TEST(ParseConfigTest, ReadsTheBundledModel) {
  const std::string path = LECTERN_SOURCE_DIR "/tools/reader/model/config.json";
  const Result<ModelConfig> config = ParseConfig(ReadWholeFile(path), path);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->vocab_size, 2048u);
  EXPECT_EQ(config->num_layers, 8u);
  EXPECT_EQ(config->query_group(), 2u);
  EXPECT_EQ(config->head_dim, 64u);
  EXPECT_EQ(config->rope.theta, 1e10);
  EXPECT_EQ(config->max_positions, 131072u);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_EQ(config->eos_ids, std::vector<int32_t>{2});
}

TEST(ParseConfigTest, NullMeansAbsent) {
  const Result<ModelConfig> config = ParseConfig(ConfigJson({{"rope_scaling", "null"},
                                                             {"head_dim", "null"},
                                                             {"sliding_window", "null"},
                                                             {"num_key_value_heads", "null"},
                                                             {"quantization_config", "null"},
                                                             {"eos_token_id", "null"},
                                                             {"pretraining_tp", "null"}}),
                                                 "c");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->head_dim, 16u);
}

TEST(ParseConfigTest, ReadsTheRopeRecipesOfTransformers4And5) {
  const std::string body = R"("factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
                           R"("original_max_position_embeddings":8192)";
  const Members spellings[] = {
      {{"rope_theta", "5e5"}, {"rope_scaling", "{\"rope_type\":\"llama3\"," + body + "}"}},
      {{"rope_theta", "5e5"}, {"rope_scaling", "{\"type\":\"llama3\"," + body + "}"}},
      {{"rope_parameters", "{\"rope_theta\":500000,\"rope_type\":\"llama3\"," + body + "}"}}};
  for (const Members& spelling : spellings) {
    const Result<ModelConfig> config = ParseConfig(ConfigJson(spelling), "c");
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->rope.kind, RopeRecipe::Kind::kLlama3);
    EXPECT_EQ(config->rope.theta, 5e5);
    EXPECT_EQ(config->rope.factor, 8.0);
    EXPECT_EQ(config->rope.low_freq_factor, 1.0);
    EXPECT_EQ(config->rope.high_freq_factor, 4.0);
    EXPECT_EQ(config->rope.original_max_positions, 8192.0);
  }
  const Result<ModelConfig> plain = ParseConfig(
      ConfigJson({{"rope_parameters", R"({"rope_type":"default","rope_theta":1e6})"}}), "c");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_EQ(plain->rope.kind, RopeRecipe::Kind::kDefault);
  EXPECT_EQ(plain->rope.theta, 1e6);
}

TEST(ParseConfigTest, ALongValueIsCutBetweenCharacters) {
  for (const std::string before : {"", "x"}) {
    std::string type = before;
    for (int i = 0; i < 60; ++i) type += "é";
    const Status status =
        ParseConfig(ConfigJson({{"model_type", Json(type).Dump()}}), "c").status();
    EXPECT_EQ(status.code(), Code::kUnsupportedModel);
    EXPECT_TRUE(IsValidUtf8(status.message())) << before;
  }
}

TEST(ParseConfigTest, EosIdsMayBeOneOrMany) {
  EXPECT_EQ(ParseConfig(ConfigJson({{"eos_token_id", "7"}}), "c")->eos_ids,
            (std::vector<int32_t>{7}));
  EXPECT_EQ(ParseConfig(ConfigJson({{"eos_token_id", "[7,99]"}}), "c")->eos_ids,
            (std::vector<int32_t>{7, 99}));
}

TEST(ParseConfigTest, EndsThatAreNoTokensAreLeftOutAndSaid) {
  for (const char* ids : {"[7,100]", "[-1,7]", "[7,4294967296]", "[7,7]"}) {
    const auto config = ParseConfig(ConfigJson({{"eos_token_id", ids}}), "c");
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->eos_ids, std::vector<int32_t>{7});
    EXPECT_EQ(config->assumptions.size(), std::string_view(ids) == "[7,7]" ? 0u : 1u);
  }
}

// transformers goes by model_type.
TEST(ParseConfigTest, OtherClassesOfLanguageModelsAreSaid) {
  for (const char* names :
       {"[]", "[\"llamaforcausallm\"]", "[\"LlamaForCausalLM\",\"LlamaForCausalLM\"]"}) {
    const auto config = ParseConfig(ConfigJson({{"architectures", names}}), "c");
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_TRUE(config->assumptions.empty());
  }
  for (const char* names : {"[\"LlamaModel\"]", "[\"MyLlamaForCausalLM\"]"}) {
    const auto config = ParseConfig(ConfigJson({{"architectures", names}}), "c");
    ASSERT_TRUE(config.ok()) << config.status().message();
    ASSERT_EQ(config->assumptions.size(), 1u);
    EXPECT_NE(config->assumptions[0].find("run as LlamaForCausalLM"), std::string::npos);
  }
}

// Fields that the class has as defaults are left out where a configuration is inside of another.
TEST(ParseConfigTest, AWrappedConfigurationHasTheDefaultsOfItsClass) {
  const auto config = ParseConfig(
      R"({"model_type":"gemma3","eos_token_id":[1,106],"vision_config":{"hidden_size":7},
          "text_config":{"model_type":"gemma3_text","hidden_size":2560,"intermediate_size":10240,
                         "num_hidden_layers":34,"sliding_window":1024,
                         "rope_scaling":{"factor":8.0,"rope_type":"linear"}}})",
      "c");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->architecture, "gemma3_text");
  EXPECT_EQ(config->vocab_size, 262208u);
  EXPECT_EQ(config->num_heads, 8u);
  EXPECT_EQ(config->num_kv_heads, 4u);
  EXPECT_EQ(config->head_dim, 256u);
  EXPECT_EQ(config->max_positions, 131072u);
  EXPECT_EQ(config->window, 1024u);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_EQ(config->eos_ids, (std::vector<int32_t>{1, 106}));
  // Alone it would be incomplete.
  EXPECT_FALSE(ParseConfig(R"({"model_type":"gemma3_text","hidden_size":2560})", "c").ok());
}

TEST(ParseConfigTest, HarmlessFieldsAreIgnored) {
  EXPECT_TRUE(ParseConfig(ConfigJson({{"torch_dtype", "\"bfloat16\""},
                                      {"attention_dropout", "0.1"},
                                      {"use_cache", "true"},
                                      {"sliding_window", "4096"},
                                      {"use_sliding_window", "false"},
                                      {"head_dim", "32"},
                                      {"hidden_act", "\"silu\""},
                                      {"made_up", "[1]"},
                                      {"layer_types",
                                       R"(["full_attention","full_attention","full_attention"])"}}),
                          "c")
                  .ok());
}

struct BadField {
  std::string field, value;
  Code code;
  std::string word;  // in the message, besides the field
};

// A rope_scaling of the kind llama3 with one field changed, or without it.
std::string Llama3(const std::string& field, const std::string& value) {
  Members members = {{"type", "\"llama3\""},
                     {"factor", "8"},
                     {"low_freq_factor", "1"},
                     {"high_freq_factor", "4"},
                     {"original_max_position_embeddings", "8192"}};
  members[field] = value;
  return ObjectJson(members);
}

TEST(ParseConfigTest, RefusesEachBadFieldByName) {
  constexpr Code kMalformed = Code::kMalformedModel, kUnsupported = Code::kUnsupportedModel;
  const BadField cases[] = {
      {"model_type", "", kMalformed, "missing"},
      {"model_type", "3", kMalformed, "string"},
      {"model_type", "\"glm4_moe\"", kUnsupported, "llama"},
      {"architectures", "[\"LlamaForSequenceClassification\"]", kUnsupported, "LlamaForCausalLM"},
      {"architectures", "\"LlamaForCausalLM\"", kMalformed, "list"},
      {"architectures", "[7]", kUnsupported, "[7]"},
      {"hidden_act", "\"gelu\"", kUnsupported, "silu"},
      {"hidden_act", "7", kUnsupported, "silu"},
      {"attention_bias", "1", kMalformed, "true or false"},
      {"mlp_bias", "1", kMalformed, "true or false"},
      {"quantization_config", R"({"quant_method":"gptq"})", kUnsupported, "gptq"},
      {"compression_config", R"({"format":"int"})", kUnsupported, "int"},
      {"num_experts", "2", kUnsupported, "dense"},
      {"n_routed_experts", "1.5", kUnsupported, "dense"},
      {"num_local_experts", "8", kUnsupported, "dense"},
      {"partial_rotary_factor", "0.5", kUnsupported, "0.5"},
      {"pretraining_tp", "2", kUnsupported, "2"},
      {"sliding_window", "4096", kUnsupported, "4096"},
      {"layer_types", R"(["full_attention","full_attention","sliding_attention"])", kUnsupported,
       "sliding_attention"},
      {"layer_types", R"(["full_attention"])", kMalformed, "3 layers"},
      {"layer_types", "\"full_attention\"", kMalformed, "list"},
      {"layer_types", R"(["full_attention","full_attention",3])", kUnsupported, "3"},
      {"vocab_size", "", kMalformed, "missing"},
      {"vocab_size", "0", kMalformed, "1..4194304"},
      {"vocab_size", "4194305", kMalformed, "1..4194304"},
      {"vocab_size", "-1", kMalformed, "-1"},
      {"vocab_size", "1.5", kMalformed, "1.5"},
      {"vocab_size", "\"100\"", kMalformed, "whole number"},
      {"vocab_size", "18446744073709551616", kMalformed, "whole number"},
      {"hidden_size", "131073", kMalformed, "131072"},
      {"hidden_size", "", kMalformed, "missing"},
      {"hidden_size", "0", kMalformed, "1..131072"},
      {"hidden_size", "66", kMalformed, "multiple"},
      {"hidden_size", "68", kMalformed, "even"},  // head_dim 17
      {"intermediate_size", "1048577", kMalformed, "1048576"},
      {"intermediate_size", "", kMalformed, "missing"},
      {"intermediate_size", "0", kMalformed, "1..1048576"},
      {"num_hidden_layers", "", kMalformed, "missing"},
      {"num_hidden_layers", "0", kMalformed, "1..1024"},
      {"num_hidden_layers", "1025", kMalformed, "1024"},
      {"num_attention_heads", "0", kMalformed, "1..1024"},
      {"num_attention_heads", "", kMalformed, "missing"},
      {"num_attention_heads", "1025", kMalformed, "1..1024"},
      {"num_key_value_heads", "0", kMalformed, "1..1024"},
      {"num_key_value_heads", "1025", kMalformed, "1..1024"},
      {"num_key_value_heads", "3", kMalformed, "divide"},
      {"num_key_value_heads", "8", kMalformed, "divide"},
      {"head_dim", "15", kMalformed, "even"},
      {"head_dim", "0", kMalformed, "2..1024"},
      {"head_dim", "1025", kMalformed, "2..1024"},
      {"head_dim", "2048", kMalformed, "1024"},
      {"max_position_embeddings", "134217729", kMalformed, "134217728"},
      {"max_position_embeddings", "0", kMalformed, "1..134217728"},
      {"rms_norm_eps", "0", kMalformed, "above 0"},
      {"rms_norm_eps", "1", kMalformed, "below 1"},
      {"rms_norm_eps", "1e-60", kMalformed, "above 0"},
      {"rms_norm_eps", "-1e-6", kMalformed, "0"},
      {"rms_norm_eps", "1.5", kMalformed, "1.5"},
      {"rms_norm_eps", "\"1e-6\"", kMalformed, "number"},
      {"rope_theta", "0.5", kMalformed, "0.5"},
      {"rope_theta", "1e13", kMalformed, "1"},
      {"rope_theta", "true", kMalformed, "number"},
      {"rope_scaling", R"({"type":"linear"})", kMalformed, "rope_scaling.factor"},
      {"rope_scaling", R"({"type":"dynamic","factor":0.5})", kMalformed, "rope_scaling.factor"},
      {"rope_scaling", R"({"rope_type":"mrope","factor":2.0})", kUnsupported, "mrope"},
      {"rope_scaling", R"({"rope_type":"yarn","factor":2.0,"beta_fast":0})", kMalformed,
       "rope_scaling.beta_fast"},
      {"rope_scaling", R"({"rope_type":"yarn","factor":2.0,"truncate":1})", kMalformed,
       "rope_scaling.truncate"},
      {"rope_scaling", R"({"rope_type":"longrope","short_factor":[1,2]})", kMalformed,
       "rope_scaling.short_factor"},
      {"rope_scaling", R"({"rope_type":"longrope"})", kMalformed, "missing"},
      {"rope_scaling", R"({"factor":2.0})", kMalformed, "missing"},
      {"rope_scaling", R"({"type":"llama3","rope_type":"default"})", kMalformed, "llama3"},
      {"rope_scaling", R"({"type":"llama3","factor":8,"low_freq_factor":1})", kMalformed,
       "high_freq_factor"},
      {"rope_scaling", R"({"type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4})",
       kMalformed, "above"},
      {"rope_scaling", "[1]", kMalformed, "object"},
      {"rope_scaling", R"({"rope_type":7})", kMalformed, "rope_scaling.rope_type"},
      {"rope_scaling", R"({"type":[]})", kMalformed, "rope_scaling.type"},
      {"rope_scaling", Llama3("factor", "0.5"), kMalformed, "rope_scaling.factor"},
      {"rope_scaling", Llama3("factor", "1000001"), kMalformed, "rope_scaling.factor"},
      {"rope_scaling", Llama3("factor", "\"8\""), kMalformed, "rope_scaling.factor"},
      {"rope_scaling", Llama3("factor", ""), kMalformed, "rope_scaling.factor"},
      {"rope_scaling", Llama3("low_freq_factor", "0"), kMalformed, "rope_scaling.low_freq_factor"},
      {"rope_scaling", Llama3("low_freq_factor", ""), kMalformed, "rope_scaling.low_freq_factor"},
      {"rope_scaling", Llama3("high_freq_factor", "1000001"), kMalformed,
       "rope_scaling.high_freq_factor"},
      {"rope_scaling", Llama3("original_max_position_embeddings", "0"), kMalformed,
       "rope_scaling.original_max_position_embeddings"},
      {"rope_scaling", Llama3("original_max_position_embeddings", "134217729"), kMalformed,
       "rope_scaling.original_max_position_embeddings"},
      {"rope_parameters", R"({"rope_theta":0})", kMalformed, "rope_parameters.rope_theta"},
      {"rope_parameters", R"({"factor":2})", kMalformed, "rope_parameters.rope_type"},
      {"rope_parameters", "\"default\"", kMalformed, "object"},
      {"rope_parameters", R"({"rope_theta":1e4,"partial_rotary_factor":0.25})", kUnsupported,
       "0.25"},
      {"tie_word_embeddings", "1", kMalformed, "true or false"},
      {"eos_token_id", "\"</s>\"", kMalformed, "token id"},
  };
  for (const BadField& bad : cases) {
    const Result<ModelConfig> config =
        ParseConfig(ConfigJson({{bad.field, bad.value}}), "dir/config.json");
    ASSERT_FALSE(config.ok()) << bad.field << " " << bad.value;
    const std::string& message = config.status().message();
    EXPECT_EQ(config.status().code(), bad.code) << message;
    EXPECT_NE(message.find("dir/config.json: "), std::string::npos) << message;
    EXPECT_NE(message.find(bad.word), std::string::npos) << message << " lacks " << bad.word;
    const bool is_named = message.find("\"" + bad.field) != std::string::npos ||
                          bad.word == "even";  // head_dim is named, which hidden_size made odd
    EXPECT_TRUE(is_named) << message;
    EXPECT_FALSE(config.status().param().empty()) << message;
  }
}

// Each row of the table, by its names alone and with one that is not its own.
TEST(ParseConfigTest, KnowsEveryArchitecture) {
  for (const Architecture& architecture : Architectures()) {
    Members members = {{"model_type", "\"" + std::string(architecture.model_type) + "\""},
                       {"architectures", "[\"" + std::string(architecture.class_name) + "\"]"},
                       {"hidden_act", ""},
                       {"num_hidden_layers", "12"}};
    if (architecture.experts.count > 0) {
      members["num_experts"] = members["num_local_experts"] = "8";
      members["num_experts_per_tok"] = "2";
      members["moe_intermediate_size"] = members["shared_expert_intermediate_size"] = "32";
    }
    const auto config = ParseConfig(ConfigJson(members), "c");
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->activation, architecture.activation);
    members["architectures"] = "[\"LlamaForTokenClassification\"]";
    const Status refused = ParseConfig(ConfigJson(members), "c").status();
    EXPECT_EQ(refused.code(), Code::kUnsupportedModel);
    EXPECT_NE(refused.message().find(architecture.class_name), std::string::npos);
  }
}

// Versions of transformers name the number of experts in two ways, whatever the class.
TEST(ParseConfigTest, TheNumberOfExpertsHasTwoNames) {
  for (const Architecture& architecture : Architectures()) {
    if (architecture.experts.count == 0) continue;
    for (const char* name : {"num_experts", "num_local_experts"}) {
      const auto config = ParseConfig(
          ConfigJson({{"model_type", "\"" + std::string(architecture.model_type) + "\""},
                      {"architectures", "[\"" + std::string(architecture.class_name) + "\"]"},
                      {"hidden_act", ""},
                      {name, "8"},
                      {"num_experts_per_tok", "2"},
                      {"moe_intermediate_size", "32"},
                      {"shared_expert_intermediate_size", "32"}}),
          "c");
      ASSERT_TRUE(config.ok()) << config.status().message();
      EXPECT_EQ(config->experts.count, 8u) << architecture.model_type << " " << name;
    }
  }
}

// 44 * (30.0 / 44) is a little below 30; transformers takes the whole part of a product.
TEST(ParseConfigTest, APartOfAHeadIsAWholeNumberOfDimensions) {
  const auto dims = [](uint32_t head_dim, const std::string& part) -> uint32_t {
    const auto config = ParseConfig(ConfigJson({{"model_type", "\"phi3\""},
                                                {"architectures", "[\"Phi3ForCausalLM\"]"},
                                                {"head_dim", std::to_string(head_dim)},
                                                {"partial_rotary_factor", part}}),
                                    "c");
    EXPECT_TRUE(config.ok()) << config.status().message();
    return config.ok() ? config->rope.dims : 0;
  };
  EXPECT_EQ(dims(44, Json(30.0 / 44).Dump()), 30u);
  EXPECT_EQ(dims(98, Json(2.0 / 98).Dump()), 2u);
  EXPECT_EQ(dims(128, "0.75"), 96u);
  EXPECT_EQ(dims(128, "0.3"), 38u);  // 38.4
}

TEST(ParseConfigTest, FindsWhichLayersHaveWindows) {
  const auto windows = [](const Members& changes) {
    Members members = {{"num_hidden_layers", "6"}, {"max_position_embeddings", "1000"}};
    for (const auto& [name, value] : changes) members[name] = value;
    const auto config = ParseConfig(ConfigJson(members), "c");
    EXPECT_TRUE(config.ok()) << config.status().message();
    std::string text;
    for (const AttentionKind kind : config->attention) {
      text += kind == AttentionKind::kFull ? 'f' : 'w';
    }
    return text + " " + std::to_string(config->window);
  };
  const auto of = [](const char* type, const char* name) {
    return Members{{"model_type", "\"" + std::string(type) + "\""},
                   {"architectures", "[\"" + std::string(name) + "\"]"},
                   {"hidden_act", ""}};
  };
  const auto with = [](Members members, const Members& more) {
    for (const auto& [name, value] : more) members[name] = value;
    return members;
  };
  const Members mistral = of("mistral", "MistralForCausalLM");
  const Members qwen = of("qwen2", "Qwen2ForCausalLM");
  const Members gemma = of("gemma3_text", "Gemma3ForCausalLM");
  EXPECT_EQ(windows(with(mistral, {{"sliding_window", "64"}})), "wwwwww 64");
  EXPECT_EQ(windows(with(mistral, {{"sliding_window", "null"}})), "ffffff 0");
  EXPECT_EQ(windows(mistral), "ffffff 0");  // 4,096 of 1,000 positions
  EXPECT_EQ(windows(with(mistral, {{"max_position_embeddings", "9000"}})), "wwwwww 4096");
  EXPECT_EQ(windows(with(qwen, {{"sliding_window", "64"}})), "ffffff 0");
  EXPECT_EQ(windows(with(qwen, {{"sliding_window", "64"},
                                {"use_sliding_window", "true"},
                                {"max_window_layers", "4"}})),
            "ffffww 64");
  const Members moe =
      with(of("qwen2_moe", "Qwen2MoeForCausalLM"), {{"num_experts", "8"},
                                                    {"num_experts_per_tok", "2"},
                                                    {"moe_intermediate_size", "32"},
                                                    {"shared_expert_intermediate_size", "32"}});
  EXPECT_EQ(windows(with(moe, {{"sliding_window", "0"}})), "ffffff 0");  // as transformers 5 writes
  EXPECT_EQ(windows(with(moe, {{"sliding_window", "64"}, {"use_sliding_window", "false"}})),
            "ffffff 0");
  EXPECT_EQ(windows(with(gemma, {{"sliding_window", "64"}})), "wwwwwf 64");
  EXPECT_EQ(windows(with(gemma, {{"sliding_window", "64"}, {"sliding_window_pattern", "2"}})),
            "wfwfwf 64");
}

// The layers that RoPE turns, as 't', and the others, as '-'.
std::string TurnedLayers(Members changes, const std::string& type) {
  changes["model_type"] = "\"" + type + "\"";
  changes["architectures"] = "";
  changes.insert({{"num_hidden_layers", "6"}, {"max_position_embeddings", "9000"}});
  const auto config = ParseConfig(ConfigJson(changes), "c");
  if (!config.ok()) return config.status().message();
  std::string text;
  for (size_t layer = 0; layer < config->num_layers; ++layer) {
    text += config->is_turned(layer) ? 't' : '-';
  }
  return text;
}

TEST(ParseConfigTest, FindsWhichLayersRopeTurns) {
  EXPECT_EQ(TurnedLayers({}, "llama"), "tttttt");
  EXPECT_EQ(TurnedLayers({{"position_embedding_type", "\"nope\""}}, "granite"), "------");
  EXPECT_EQ(TurnedLayers({{"position_embedding_type", "\"absolute\""}}, "granite"), "tttttt");
  EXPECT_EQ(TurnedLayers({}, "granitemoehybrid"), "------");
  EXPECT_EQ(TurnedLayers({{"position_embedding_type", "\"rope\""}}, "granitemoehybrid"), "tttttt");
  EXPECT_EQ(TurnedLayers({}, "smollm3"), "ttt-tt");
  EXPECT_EQ(TurnedLayers({{"no_rope_layer_interval", "2"}}, "smollm3"), "t-t-t-");
  EXPECT_EQ(TurnedLayers({{"no_rope_layers", "[0,1,1,0,1,1]"}}, "smollm3"), "-tt-tt");
  EXPECT_NE(TurnedLayers({{"no_rope_layers", "[0,1]"}}, "smollm3").find("for each layer"),
            std::string::npos);
  EXPECT_EQ(TurnedLayers({}, "exaone4"), "ttt-tt");
  EXPECT_EQ(TurnedLayers({{"sliding_window_pattern", "\"LG\""}}, "exaone4"), "t-t-t-");
  EXPECT_NE(TurnedLayers({{"sliding_window_pattern", "\"LX\""}}, "exaone4").find("L and G"),
            std::string::npos);
  EXPECT_EQ(TurnedLayers({{"sliding_window", "null"}}, "exaone4"), "tttttt");
  EXPECT_EQ(TurnedLayers({}, "cohere2"), "ttt-tt");
  // A window that all positions fit into hides nothing, but tells which layers are turned.
  EXPECT_EQ(TurnedLayers({{"max_position_embeddings", "1000"}}, "cohere2"), "ttt-tt");
  EXPECT_EQ(TurnedLayers({}, "cohere"), "tttttt");
}

TEST(ParseConfigTest, WindowedLayersOfOlmo3HaveNoRecipe) {
  const auto config =
      ParseConfig(ConfigJson({{"model_type", "\"olmo3\""},
                              {"architectures", "[\"Olmo3ForCausalLM\"]"},
                              {"rope_theta", "7000"},
                              {"rope_scaling", R"({"rope_type":"linear","factor":8})"}}),
                  "c");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->rope.kind, RopeRecipe::Kind::kLinear);
  EXPECT_EQ(config->local_rope.kind, RopeRecipe::Kind::kDefault);
  EXPECT_EQ(config->local_rope.theta, 7000);
}

TEST(ParseConfigTest, FieldsOfOtherNamesAreReadAndNamed) {
  const Members exaone = {{"model_type", "\"exaone\""},   {"architectures", ""},
                          {"num_hidden_layers", ""},      {"num_layers", "5"},
                          {"layer_norm_epsilon", "1e-3"}, {"activation_function", "\"silu\""}};
  const auto config = ParseConfig(ConfigJson(exaone), "c");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->num_layers, 5u);
  EXPECT_EQ(config->rms_norm_epsilon, 1e-3f);
  Members wrong = exaone;
  wrong["num_layers"] = "\"5\"";
  EXPECT_EQ(ParseConfig(ConfigJson(wrong), "c").status().param(), "num_layers");
}

TEST(TensorNameOfTest, PartsBetweenDotsAreReplaced) {
  const auto name = [](const char* type, const std::string& text) {
    return TensorNameOf(text, *FindArchitecture(type));
  };
  EXPECT_EQ(name("exaone", "transformer.h.12.attn.attention.out_proj.weight"),
            "model.layers.12.self_attn.o_proj.weight");
  EXPECT_EQ(name("exaone", "transformer.h.0.ln_2.weight"),
            "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(name("exaone", "transformer.wte.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(name("exaone", "transformer.h.0.xln_2.weight"), "model.layers.0.xln_2.weight");
  EXPECT_EQ(name("exaone", "lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(name("glm4", "model.layers.1.post_attention_layernorm.weight"),
            "model.layers.1.pre_feedforward_layernorm.weight");
  EXPECT_EQ(name("glm4", "model.layers.1.post_self_attn_layernorm.weight"),
            "model.layers.1.post_attention_layernorm.weight");
  EXPECT_EQ(name("granitemoehybrid",
                 "base_model.model.model.layers.3.shared_mlp.input_linear.lora_A.weight"),
            "base_model.model.model.layers.3.mlp.gate_up_proj.lora_A.weight");
}

TEST(ParseConfigTest, ScalesAreThoseOfTheFields) {
  const auto granite = ParseConfig(ConfigJson({{"model_type", "\"granite\""},
                                               {"architectures", ""},
                                               {"embedding_multiplier", "12"},
                                               {"attention_multiplier", "0.015625"},
                                               {"residual_multiplier", "0.22"},
                                               {"logits_scaling", "8"}}),
                                   "c");
  ASSERT_TRUE(granite.ok()) << granite.status().message();
  EXPECT_EQ(granite->embedding_scale, 12.0f);
  EXPECT_EQ(granite->query_scale, 0.0625f);  // of heads of 16: 4 / 64
  EXPECT_EQ(granite->residual_scale, 0.22f);
  EXPECT_EQ(granite->logit_scale, 0.125f);
  for (const char* field :
       {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}) {
    for (const char* value : {"0", "-1", "\"1\"", "1e300"}) {
      const auto wrong = ParseConfig(
          ConfigJson({{"model_type", "\"granite\""}, {"architectures", ""}, {field, value}}), "c");
      EXPECT_EQ(wrong.status().param(), field);
    }
  }
}

TEST(ParseConfigTest, ArchitecturesThatAreNotRunSayWhyAndWhatToTake) {
  const auto message = [](const char* type) {
    return ParseConfig(ConfigJson({{"model_type", "\"" + std::string(type) + "\""}}), "c")
        .status()
        .message();
  };
  for (const auto& [type, words] :
       {std::pair("deepseek_v3", "mixes experts"), std::pair("glm4_moe", "mixes experts"),
        std::pair("llama4", "take Llama 3"), std::pair("qwen3_5", "keep a state"),
        std::pair("qwen3_next", "keep a state"), std::pair("bamba", "keep a state"),
        std::pair("gemma3n", "take Gemma 3"), std::pair("gemma4", "take Gemma 3")}) {
    EXPECT_NE(message(type).find(words), std::string::npos) << message(type);
    EXPECT_NE(message(type).find("this build runs \"llama\""), std::string::npos) << message(type);
  }
  EXPECT_EQ(message("never_heard_of").find("which"), std::string::npos);
  for (const Architecture& row : Architectures()) EXPECT_EQ(WhyNotRun(row.model_type), "");
  const Status hybrid =
      ParseConfig(ConfigJson({{"model_type", "\"granitemoehybrid\""},
                              {"architectures", ""},
                              {"layer_types", R"(["mamba","mamba","attention"])"}}),
                  "c")
          .status();
  EXPECT_EQ(hybrid.code(), Code::kUnsupportedModel);
  EXPECT_NE(hybrid.message().find("keep a state"), std::string::npos) << hybrid.message();
}

TEST(ParseConfigTest, RefusesContradictionsBetweenFields) {
  const auto message = [](const Members& changes) {
    return ParseConfig(ConfigJson(changes), "c").status().message();
  };
  EXPECT_NE(message({{"rope_theta", "1e4"}, {"rope_parameters", R"({"rope_theta":5e5})"}})
                .find("top level"),
            std::string::npos);
  EXPECT_NE(message({{"original_max_position_embeddings", "4096"},
                     {"rope_scaling", Llama3("original_max_position_embeddings", "8192")}})
                .find("rope_scaling.original_max_position_embeddings\" is 8192"),
            std::string::npos);
  EXPECT_NE(message({{"sliding_window", "64"}, {"use_sliding_window", "true"}})
                .find("\"sliding_window\" is 64"),
            std::string::npos);
  EXPECT_NE(message({{"rope_scaling", R"({"type":"default"})"},
                     {"rope_parameters", R"({"rope_type":"default"})"}})
                .find("together"),
            std::string::npos);
}

TEST(ParseConfigTest, RefusesWhatIsNotAnObject) {
  for (const std::string text :
       {"", "[]", "3", "{\"a\":1,\"a\":2}", "{\"model_type\":\"llama\"", "\x80\x02}q\x01."}) {
    const Result<ModelConfig> config = ParseConfig(text, "c");
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_EQ(config.status().code(), Code::kMalformedModel) << text;
  }
}

TEST(ParseConfigTest, EveryLimitHolds) {
  std::string deep(16, '[');  // inside of the object: one too many
  deep += std::string(16, ']');
  std::string many = "[0";
  for (int i = 1; i < 400000; ++i) many += ",0";
  const struct {
    std::string json;
    Code code;
    std::string word;
  } cases[] = {
      {ConfigJson({{"made_up", "\"" + std::string(1 << 20, 'x') + "\""}}), Code::kLimitExceeded,
       "larger than 1048576 bytes"},
      {ConfigJson({{"made_up", deep}}), Code::kMalformedModel, "nested deeper than 16"},
      {ConfigJson({{"layer_types", many + "]"}}), Code::kMalformedModel, "layer_types"},
      {ConfigJson({{"eos_token_id", "[1.5" + many.substr(2) + "]"}}), Code::kMalformedModel,
       "eos_token_id"},
  };
  for (const auto& bad : cases) {
    const Status status = ParseConfig(bad.json, "dir/config.json").status();
    EXPECT_EQ(status.code(), bad.code) << status.message();
    EXPECT_NE(status.message().find("dir/config.json: "), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(bad.word), std::string::npos) << status.message();
  }
  std::string full = ConfigJson();  // what just fits
  full.resize(1 << 20, ' ');
  EXPECT_TRUE(ParseConfig(full, "c").ok());
}

TEST(ParseConfigTest, EveryTruncationIsATypedError) {
  const std::string json = ConfigJson({{"rope_scaling", R"({"type":"default"})"}});
  for (size_t length = 0; length < json.size(); ++length) {
    EXPECT_EQ(ParseConfig(json.substr(0, length), "c").status().code(), Code::kMalformedModel);
  }
}

// Every field with every value that its type or range excludes.
class ConfigSweep {
 public:
  void Expect(const std::string& field, const std::vector<std::string>& values, Code code) {
    for (const std::string& value : values) Expect(Members{{field, value}}, code);
  }
  // The same for a field of the rope recipe, in both of its spellings.
  void ExpectInRope(const std::string& field, const std::vector<std::string>& values) {
    for (const std::string& value : values) {
      Expect(Members{{"rope_scaling", Llama3(field, value)}}, Code::kMalformedModel);
      Expect(Members{{"rope_parameters", Llama3(field, value)}}, Code::kMalformedModel);
    }
  }
  size_t count() const { return count_; }

 private:
  void Expect(const Members& changes, Code code) {
    const std::string json = ConfigJson(changes);
    EXPECT_EQ(CodeName(ParseConfig(json, "c").status().code()), CodeName(code)) << json;
    ++count_;
  }
  size_t count_ = 0;
};

TEST(ParseConfigTest, EveryFieldRefusesEveryValueOutsideOfItsTypeAndRange) {
  const std::vector<std::string> not_numbers = {"\"1\"", "\"\"", "true", "false",
                                                "[]",    "[1]",  "{}",   "{\"a\":1}"};
  const std::vector<std::string> not_whole = {"0.5",
                                              "-1",
                                              "-0.5",
                                              "1e-300",
                                              "-9223372036854775808",
                                              "9223372036854775807",
                                              "18446744073709551615",
                                              "18446744073709551616",
                                              "4294967296",
                                              "4294967297",
                                              "1e300",
                                              "340282366920938463463374607431768211456"};
  const std::vector<std::string> no_json = {"1e400", "NaN", "Infinity", "-",   "01", "+1",
                                            "0x10",  "1.",  "'1'",      "tru", "[1", "\"a"};
  ConfigSweep sweep;
  for (const std::string field :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    sweep.Expect(field, not_numbers, Code::kMalformedModel);
    sweep.Expect(field, not_whole, Code::kMalformedModel);
    sweep.Expect(field, no_json, Code::kMalformedModel);
    sweep.Expect(field, {"0"}, Code::kMalformedModel);
  }
  for (const std::string field : {"rms_norm_eps", "rope_theta"}) {
    sweep.Expect(field, not_numbers, Code::kMalformedModel);
    sweep.Expect(field, no_json, Code::kMalformedModel);
    sweep.Expect(field, {"-1", "0", "-0.0", "1e300", "-1e300", "5e-324"}, Code::kMalformedModel);
  }
  for (const std::string field :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    sweep.ExpectInRope(field, not_numbers);
    sweep.ExpectInRope(field, {"-1", "0", "1e300", "-1e300", "1e-7", "134217729"});
  }
  sweep.ExpectInRope("rope_theta", not_numbers);
  sweep.ExpectInRope("rope_theta", {"-1", "0", "0.5", "1e13", "1e300"});
  sweep.ExpectInRope("rope_type", {"7", "true", "[]", "{}", "\"default\""});  // not its "type"
  const std::vector<std::string> not_strings = {"7", "0", "1.5", "true", "[]", "{}", "[\"llama\"]"};
  sweep.Expect("model_type", not_strings, Code::kMalformedModel);
  sweep.Expect("model_type", {"\"\"", "\"Llama\"", "\"llama \"", "\"llama4\"", "\"\\u0000\""},
               Code::kUnsupportedModel);
  sweep.Expect("architectures", {"7", "true", "\"LlamaForCausalLM\"", "{}"}, Code::kMalformedModel);
  sweep.Expect("architectures",
               {"[7]", "[null]", "[[]]", "[\"LlamaForCausalLM\\u0000\"]", "[\"\"]",
                "[\"BertModel\",7]", "[\"LlamaForQuestionAnswering\"]"},
               Code::kUnsupportedModel);
  sweep.Expect("attention_bias", {"0", "1", "\"false\"", "[]", "{}"}, Code::kMalformedModel);
  sweep.Expect("mlp_bias", {"0", "1", "\"false\"", "[]", "{}"}, Code::kMalformedModel);
  for (const std::string field : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    sweep.Expect(field, {"2", "1.5", "1e300", "true", "\"1\"", "[]", "{}"},
                 Code::kUnsupportedModel);
  }
  for (const std::string field : {"quantization_config", "compression_config"}) {
    sweep.Expect(field, {"true", "false", "0", "4", "\"\"", "[]", "{}"}, Code::kUnsupportedModel);
  }
  sweep.Expect("partial_rotary_factor", {"0", "0.5"}, Code::kUnsupportedModel);
  sweep.Expect("partial_rotary_factor", {"2", "-1", "true", "\"1\"", "[]", "{}"},
               Code::kMalformedModel);
  sweep.Expect("pretraining_tp", {"2", "1.5", "true", "\"1\"", "[]", "{}"},
               Code::kUnsupportedModel);
  sweep.Expect("hidden_act", {"\"relu\"", "\"\"", "\"SiLU\"", "0", "true", "[]", "{}"},
               Code::kUnsupportedModel);
  sweep.Expect("sliding_window", {"2", "4096"}, Code::kUnsupportedModel);
  sweep.Expect("sliding_window", {"0", "1", "-1", "true", "\"none\"", "[]", "{}"},
               Code::kMalformedModel);
  sweep.Expect("layer_types", {"7", "true", "\"full_attention\"", "{}", "[]", "[[],[]]"},
               Code::kMalformedModel);
  sweep.Expect("layer_types",
               {"[1,2,3]", "[\"full_attention\",\"full_attention\",null]",
                "[\"full\",\"full\",\"full\"]", "[[],[],[]]"},
               Code::kUnsupportedModel);
  sweep.Expect("tie_word_embeddings", {"0", "1", "\"true\"", "[]", "{}", "1.5"},
               Code::kMalformedModel);
  sweep.Expect("eos_token_id",
               {"1.5", "18446744073709551616", "true", "\"2\"", "{}", "[1.5]", "[true]", "[null]",
                "[[2]]", "[2,\"3\"]", "[{}]"},
               Code::kMalformedModel);
  for (const std::string field : {"rope_scaling", "rope_parameters"}) {
    sweep.Expect(field, {"7", "true", "\"default\"", "[]", "[{}]"}, Code::kMalformedModel);
    const auto expect_type = [&](const std::string& type, Code code) {
      sweep.Expect(field, {"{\"rope_type\":\"" + type + "\"}", "{\"type\":\"" + type + "\"}"},
                   code);
    };
    for (const char* type : {"mrope", "Linear", "ntk", ""}) {
      expect_type(type, Code::kUnsupportedModel);
    }
    for (const char* type : {"linear", "dynamic", "longrope", "su"}) {  // without what they need
      expect_type(type, Code::kMalformedModel);
    }
  }
  std::printf("trust: bad config.json: %zu, each refused with its code\n", sweep.count());
  EXPECT_GE(sweep.count(), 500u);
}

int32_t UlpDistance(float a, int32_t bits) { return std::abs(std::bit_cast<int32_t>(a) - bits); }

TEST(InverseFrequenciesTest, AreWithinOneUlpOfTransformers) {
  const Result<Json> golden =
      ParseJson(ReadWholeFile(LECTERN_SOURCE_DIR "/tests/golden/model_golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  size_t values = 0, exact = 0;
  for (const Json& item : *golden->Find("rope")->array()) {
    RopeRecipe recipe;
    recipe.theta = *item.Find("theta")->number();
    if (item.Find("factor") != nullptr) {
      recipe.kind = RopeRecipe::Kind::kLlama3;
      recipe.factor = *item.Find("factor")->number();
      recipe.low_freq_factor = *item.Find("low")->number();
      recipe.high_freq_factor = *item.Find("high")->number();
      recipe.original_max_positions = *item.Find("original")->number();
    }
    const auto head_dim = static_cast<uint32_t>(*item.Find("head_dim")->integer());
    recipe.dims = head_dim;
    const std::vector<float> ours = MakeRopeTable(recipe, 1).frequencies;
    const Json::Array& theirs = *item.Find("bits")->array();
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      const int32_t distance = UlpDistance(ours[i], static_cast<int32_t>(*theirs[i].integer()));
      EXPECT_LE(distance, 1) << "theta " << recipe.theta << " head_dim " << head_dim << " pair "
                             << i << (item.Find("factor") ? " llama3" : "");
      ++values;
      exact += distance == 0;
    }
  }
  RecordProperty("exact", std::to_string(exact) + " of " + std::to_string(values));
  std::printf("%zu of %zu values are exact\n", exact, values);
}

}  // namespace
}  // namespace lectern
