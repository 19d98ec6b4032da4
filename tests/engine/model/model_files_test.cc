// Models as people have them: files with parts that text does not need, keys that converters leave
// out or write twice, folders of models that wrap a language model, and what is no model at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "engine/model/formats/gguf.h"
#include "engine/model/model_source.h"
#include "tests/engine/invented_gguf.h"
#include "tests/engine/invented_model.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

namespace fs = std::filesystem;
using testing::GgufWriter;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::WriteWholeFile;

Json Architecture(const std::string& name, const Json::Object& fields = {}) {
  static const Json all = *ParseJson(ReadWholeFile(SourcePath("tests/golden/architectures.json")));
  Json::Object changed = {{"num_hidden_layers", 2}};
  for (const auto& [field, value] : fields) changed[field] = value;
  return testing::WithFields(*all.Find(name), changed);
}

// 2 layers of 4 heads of 16, 2 of them of keys.
Json PlainLlama() { return Architecture("llama", {{"hidden_size", 64}, {"rope_theta", 10000.0}}); }

std::string GgufOf(const Json& architecture) {
  GgufWriter file;
  testing::AddInventedKeys(architecture, file);
  testing::AddTinyVocabulary(file);
  testing::AddInventedTensors(architecture, TensorType::kF32, file);
  return file.Finish();
}

std::string F32(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), 4 * values.size()};
}
void AddVector(GgufWriter& file, const std::string& name, const std::vector<float>& values) {
  file.AddTensor(name, TensorType::kF32, {values.size()}, F32(values));
}

using Edit = std::function<void(GgufWriter&)>;

// The same file without some keys and tensors, and with others.
std::string Edited(const std::string& bytes, const std::set<std::string>& without,
                   const Edit& add) {
  const auto table = ParseGguf(std::as_bytes(std::span(bytes)), "whole",
                               [](uint64_t, uint64_t) { return Status(); });
  EXPECT_TRUE(table.ok()) << table.status().message();
  GgufWriter file;
  for (const auto& [key, value] : table->keys) {
    if (!without.contains(key)) file.Add(key, value);
  }
  for (const auto& [name, tensor] : table->tensors) {
    if (without.contains(name)) continue;
    EXPECT_EQ(GgufTypeName(tensor.type), "F32");
    file.AddTensor(name, TensorType::kF32, tensor.shape,
                   std::string_view(bytes).substr(tensor.begin, tensor.end - tensor.begin));
  }
  add(file);
  return file.Finish();
}

struct Loaded {
  std::shared_ptr<const Model> model;
  std::string assumptions;  // one a line
  Status status;
};

Loaded LoadFiles(const std::string& path) {
  Loaded loaded;
  auto source = OpenModelSource(Env::Default(), path, Io::kPread);
  if (!source.ok()) return {nullptr, "", source.status()};
  auto model = Model::Load(Env::Default(), path, **source, {});
  if (!model.ok()) return {nullptr, "", model.status()};
  loaded.model = *model;
  for (const std::string& sentence : (*source)->assumptions()) {
    loaded.assumptions += sentence + "\n";
  }
  return loaded;
}

class GgufFilesTest : public ::testing::Test {
 protected:
  Loaded LoadEdited(const std::set<std::string>& without, const Edit& add) {
    return LoadBytes(Edited(plain_, without, add));
  }
  Loaded LoadBytes(const std::string& bytes) {
    WriteWholeFile(path_, bytes);
    return LoadFiles(path_);
  }
  void ExpectSame(const std::set<std::string>& without, const Edit& add,
                  const std::string& said = "") {
    const Loaded edited = LoadEdited(without, add);
    ASSERT_TRUE(edited.model) << edited.status.message();
    EXPECT_EQ(edited.model->fingerprint(), whole_.model->fingerprint());
    EXPECT_EQ(edited.model->config().num_layers, 2u);
    EXPECT_EQ(edited.model->config().query_scale, 1.0f);
    if (said.empty()) {
      EXPECT_EQ(edited.assumptions, "");
    } else {
      EXPECT_NE(edited.assumptions.find(said), std::string::npos) << edited.assumptions;
    }
  }
  void ExpectRefused(const std::set<std::string>& without, const Edit& add,
                     const std::vector<std::string>& words) {
    const Loaded edited = LoadEdited(without, add);
    EXPECT_EQ(edited.status.code(), Code::kUnsupportedModel) << edited.status.message();
    for (const std::string& word : words) {
      EXPECT_NE(edited.status.message().find(word), std::string::npos)
          << edited.status.message() << " lacks " << word;
    }
  }

  const TempFolder folder_;
  const std::string path_ = folder_.path() + "/m.gguf";
  const std::string plain_ = GgufOf(PlainLlama());
  const Loaded whole_ = LoadBytes(plain_);
};

TEST_F(GgufFilesTest, TensorsThatTextDoesNotNeedAreSkippedAndNamedOnce) {
  ExpectSame(
      {},
      [](GgufWriter& file) {
        file.AddTensor("v.patch_embd.weight", TensorType::kF32, {16, 16},
                       F32(std::vector<float>(256, 0.5f)));
      },
      "skipped 1 tensor that a text model does not need: v.patch_embd.weight\n");
  ExpectSame(
      {},
      [](GgufWriter& file) {
        for (const char* name :
             {"v.blk.0.attn_q.weight", "mm.0.weight", "a.conv1d.1.weight", "mtp.fc.weight",
              "blk.0.attn_rot_embd.weight", "blk.1.nextn.eh_proj.weight"}) {
          AddVector(file, name, {1, 2, 3});
        }
      },
      "skipped 6 tensors that a text model does not need: a.conv1d.1.weight, "
      "blk.0.attn_rot_embd.weight, ");
}

TEST_F(GgufFilesTest, BiasesOfZerosAndScalesOfOneChangeNothing) {
  ExpectSame(
      {},
      [](GgufWriter& file) {
        AddVector(file, "output.bias", std::vector<float>(400, 0.0f));
        AddVector(file, "blk.1.ffn_up.bias", std::vector<float>(48, 0.0f));
        AddVector(file, "blk.1.attn_q.scale", {1});
        AddVector(file, "blk.1.attn_q.input_scale", {1});
      },
      "skipped 4 tensors");
  ExpectRefused(
      {}, [](GgufWriter& file) { AddVector(file, "blk.1.attn_q.scale", {2}); },
      {"m.gguf", "blk.1.attn_q.scale", "not part of such a model", "take a conversion"});
  std::vector<float> bias(400, 0.0f);
  bias[399] = 1e-6f;
  ExpectRefused({}, [&](GgufWriter& file) { AddVector(file, "output.bias", bias); },
                {"output.bias", "not part of such a model"});
  ExpectRefused({}, [](GgufWriter& file) { AddVector(file, "blk.0.ffn_up.bias", {NAN}); },
                {"blk.0.ffn_up.bias"});
}

TEST_F(GgufFilesTest, ATensorThatALayerWouldNeedIsRefusedByName) {
  for (const char* name : {"blk.2.attn_norm.weight", "blk.0.ffn_norm_exps.weight",
                           "blk.1.attn_sub_norm.weight", "per_layer_model_proj.weight"}) {
    ExpectRefused({}, [&](GgufWriter& file) { AddVector(file, name, {1, 2}); },
                  {name, "answers would be wrong without it"});
  }
}

TEST_F(GgufFilesTest, LayersThatPredictFurtherTokensAreNotRun) {
  ExpectSame(
      {"llama.block_count"},
      [](GgufWriter& file) {
        file.Add("llama.block_count", uint32_t{3});
        file.Add("llama.nextn_predict_layers", uint32_t{1});
        AddVector(file, "blk.2.attn_norm.weight", {1, 2});
        AddVector(file, "blk.2.nextn.enorm.weight", {1, 2});
      },
      "skipped 2 tensors that a text model does not need: blk.2.nextn.enorm.weight, "
      "blk.2.attn_norm.");
}

TEST_F(GgufFilesTest, KeysForEachLayerMayBeAllTheSame) {
  ExpectSame({"llama.attention.head_count", "llama.attention.head_count_kv",
              "llama.feed_forward_length"},
             [](GgufWriter& file) {
               file.Add("llama.attention.head_count", std::vector<int32_t>{4, 4});
               file.Add("llama.attention.head_count_kv", std::vector<int32_t>{2, 2});
               file.Add("llama.feed_forward_length", std::vector<int32_t>{48, 48});
             });
  for (const auto& [key, values] :
       {std::pair("llama.attention.head_count_kv", std::vector<int32_t>{2, 4}),
        std::pair("llama.feed_forward_length", std::vector<int32_t>{48, 32}),
        std::pair("llama.attention.head_count", std::vector<int32_t>{})}) {
    ExpectRefused({key}, [&](GgufWriter& file) { file.Add(key, values); },
                  {key, "layers are alike"});
  }
}

TEST_F(GgufFilesTest, KeysThatAreLeftOutHaveTheConvertersDefaults) {
  ExpectSame({"llama.rope.freq_base", "llama.attention.key_length",
              "llama.attention.value_length", "llama.rope.dimension_count"},
             [](GgufWriter&) {});
  // As many heads of keys as of queries.
  const Json equal = Architecture(
      "llama", {{"hidden_size", 64}, {"rope_theta", 10000.0}, {"num_key_value_heads", 4}});
  const std::string bytes = GgufOf(equal);
  const Loaded said = LoadBytes(bytes);
  const Loaded unsaid =
      LoadBytes(Edited(bytes, {"llama.attention.head_count_kv"}, [](GgufWriter&) {}));
  ASSERT_TRUE(said.model && unsaid.model) << unsaid.status.message();
  EXPECT_EQ(unsaid.model->fingerprint(), said.model->fingerprint());
}

// Qwen 3's and Gemma's heads have another width in config.json where it is absent there.
TEST_F(GgufFilesTest, HeadsThatAreNotGivenShareTheWidth) {
  for (const char* name : {"qwen3", "gemma3"}) {
    const std::string bytes = GgufOf(Architecture(name, {{"hidden_size", 64}}));
    const std::string key = std::string(name) + ".attention.key_length";
    const Loaded edited = LoadBytes(Edited(
        bytes, {key, std::string(name) + ".attention.value_length"}, [](GgufWriter&) {}));
    ASSERT_TRUE(edited.model) << edited.status.message();
    EXPECT_EQ(edited.model->config().head_dim, 16u);
  }
}

TEST_F(GgufFilesTest, ValuesThatSayWhatIsComputedAnywayAreTaken) {
  ExpectSame({}, [](GgufWriter& file) {
    file.Add("llama.attention.scale", 0.25f);
    file.Add("llama.rope.scaling.attn_factor", 1.0f);
    file.Add("llama.rope.scaling.type", "none");
    file.Add("llama.logit_scale", 1.0f);
    file.Add("llama.embedding_scale", 1.0f);
    file.Add("llama.residual_scale", 1.0f);
    file.Add("llama.attention.clamp_kqv", 0.0f);
    file.Add("llama.attention.causal", true);
    file.Add("llama.use_parallel_residual", false);
    file.Add("llama.expert_count", uint32_t{0});
    file.Add("llama.vocab_size", uint32_t{400});
    file.Add("llama.rope.scaling.original_context_length", uint32_t{4096});
  });
  ExpectSame({}, [](GgufWriter& file) {
    file.Add("llama.rope.scaling.type", "linear");
    file.Add("llama.rope.scaling.factor", 1.0f);
  });
  ExpectSame({}, [](GgufWriter& file) { file.Add("llama.rope.scale_linear", 1.0f); });
  for (const auto& [key, value] :
       {std::pair("llama.attention.scale", 0.5f), std::pair("llama.logit_scale", 0.5f),
        std::pair("llama.embedding_scale", 12.0f), std::pair("llama.attention.clamp_kqv", 8.0f),
        std::pair("llama.rope.scaling.attn_factor", 1.2f),
        std::pair("llama.attention.temperature_scale", 0.1f)}) {
    ExpectRefused({}, [&](GgufWriter& file) { file.Add(key, value); }, {key, "supported"});
  }
  ExpectRefused({}, [](GgufWriter& file) { file.Add("llama.attention.causal", false); },
                {"attention.causal", "language model"});
}

TEST_F(GgufFilesTest, AFactorWithoutATypeIsLinear) {
  const Json linear = Architecture(
      "llama linear", {{"hidden_size", 64}, {"num_hidden_layers", 2}, {"rope_theta", 10000.0}});
  const std::string bytes = GgufOf(linear);
  const Loaded said = LoadBytes(bytes);
  ASSERT_TRUE(said.model) << said.status.message();
  EXPECT_EQ(said.model->config().rope.kind, RopeRecipe::Kind::kLinear);
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    const Loaded unsaid = LoadBytes(
        Edited(bytes, {"llama.rope.scaling.factor", "llama.rope.scaling.type"},
               [&](GgufWriter& file) { file.Add(key, 4.0f); }));
    ASSERT_TRUE(unsaid.model) << unsaid.status.message();
    EXPECT_EQ(unsaid.model->fingerprint(), said.model->fingerprint());
  }
}

TEST_F(GgufFilesTest, EndsOfTextAreOfAllKeys) {
  EXPECT_EQ(whole_.model->config().eos_ids, std::vector<int32_t>{2});
  const Loaded edited = LoadEdited({}, [](GgufWriter& file) {
    file.Add("tokenizer.ggml.eos_token_ids", std::vector<int32_t>{2, 9, -1, 400});
    file.Add("tokenizer.ggml.eot_token_id", uint32_t{7});
    file.Add("tokenizer.ggml.eom_token_id", uint32_t{8});
  });
  ASSERT_TRUE(edited.model) << edited.status.message();
  std::vector<int32_t> ids = edited.model->config().eos_ids;
  std::ranges::sort(ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{2, 7, 8, 9}));
  for (const int32_t id : ids) EXPECT_TRUE(edited.model->IsEndOfText(id));
  EXPECT_FALSE(edited.model->IsEndOfText(10));
  EXPECT_NE(edited.assumptions.find("400 is left out"), std::string::npos) << edited.assumptions;
}

TEST_F(GgufFilesTest, BiasesOfAttentionAreThoseOfTheTensors) {
  const Json biased = Architecture("llama biases", {{"hidden_size", 64}, {"rope_theta", 10000.0}});
  const Loaded loaded = LoadBytes(GgufOf(biased));
  ASSERT_TRUE(loaded.model) << loaded.status.message();
  EXPECT_TRUE(loaded.model->config().qkv_bias && loaded.model->config().output_bias);
  const LayerWeights& layer = loaded.model->weights().layer(1);
  EXPECT_EQ(layer.q_bias.size(), 64u);
  EXPECT_EQ(layer.o_bias.size(), 64u);
  // In the file's order of rows: those of a pair are neighbours.
  const std::string name = "model.layers.1.self_attn.q_proj.bias";
  EXPECT_EQ(layer.q_bias[1], testing::WeightOf(biased, name, {64}, 8));
}

TEST_F(GgufFilesTest, OneMatrixMayHoldQueriesKeysAndValues) {
  std::map<std::string, std::string> joined;
  const auto table = ParseGguf(std::as_bytes(std::span(plain_)), "whole",
                               [](uint64_t, uint64_t) { return Status(); });
  ASSERT_TRUE(table.ok());
  std::set<std::string> without;
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const char* part : {"attn_q.weight", "attn_k.weight", "attn_v.weight"}) {
      const GgufTensor& tensor = table->tensors.at(layer + part);
      joined[layer + "attn_qkv.weight"] += plain_.substr(tensor.begin, tensor.end - tensor.begin);
      without.insert(layer + part);
    }
  }
  const Loaded fused = LoadEdited(without, [&](GgufWriter& file) {
    for (const auto& [name, bytes] : joined) {
      file.AddTensor(name, TensorType::kF32, {128, 64}, bytes);
    }
  });
  ASSERT_TRUE(fused.model) << fused.status.message();
  for (const auto part : {&LayerWeights::q, &LayerWeights::k, &LayerWeights::v}) {
    const TypedRows a = (whole_.model->weights().layer(1).*part).rows,
                    b = (fused.model->weights().layer(1).*part).rows;
    ASSERT_EQ(a.num_rows, b.num_rows);
    EXPECT_EQ(std::memcmp(a.data, b.data, a.num_rows * a.row_bytes()), 0);
  }
}

TEST_F(GgufFilesTest, WindowsAreThoseOfTheKeys) {
  const std::string window = "gemma3.attention.sliding_window";
  const std::string pattern = window + "_pattern";
  const std::string bytes =
      GgufOf(Architecture("gemma3", {{"hidden_size", 64}, {"num_hidden_layers", 3}}));
  const auto windowed = [&](const std::set<std::string>& without, const Edit& add) {
    const Loaded loaded = LoadBytes(Edited(bytes, without, add));
    EXPECT_TRUE(loaded.model) << loaded.status.message();
    std::string layers;
    for (size_t i = 0; loaded.model && i < 3; ++i) {
      layers += loaded.model->config().is_windowed(i) ? 'w' : 'f';
    }
    return layers;
  };
  const auto nothing = [](GgufWriter&) {};
  EXPECT_EQ(windowed({}, nothing), "www");  // all but every sixth
  EXPECT_EQ(windowed({}, [&](GgufWriter& file) { file.Add(pattern, uint32_t{2}); }), "wfw");
  EXPECT_EQ(windowed({}, [&](GgufWriter& file) {
              const std::string_view flags("\1\0\1", 3);
              file.Add(pattern, GgufValue(GgufArray{GgufKind::kBool, 3, flags}));
            }),
            "wfw");
  EXPECT_EQ(windowed({window}, nothing), "fff");
  EXPECT_EQ(windowed({window}, [&](GgufWriter& file) { file.Add(window, uint32_t{0}); }), "fff");
}

TEST_F(GgufFilesTest, WhatIsGivenInThePlaceOfAModelIsNamed) {
  ExpectRefused({"general.architecture"},
                [](GgufWriter& file) { file.Add("general.architecture", "clip"); },
                {"mmproj", "give the file of the model"});
  ExpectRefused({}, [](GgufWriter& file) { file.Add("general.type", "adapter"); },
                {"adapter", "merge it into its model"});
}

// ---- Folders

// A folder's safetensors with other names of tensors, and more of them.
void Rename(const std::string& path, const std::function<std::string(std::string)>& name_of,
            const std::map<std::string, std::vector<float>>& more = {}) {
  const std::string bytes = ReadWholeFile(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const Json header = *ParseJson(std::string_view(bytes).substr(8, length));
  std::string data = bytes.substr(8 + length);
  Json::Object renamed;
  for (const auto& [name, tensor] : *header.object()) renamed[name_of(name)] = tensor;
  for (const auto& [name, values] : more) {
    const uint64_t begin = data.size();
    data += F32(values);
    renamed[name] = Json(Json::Object{
        {"dtype", "F32"},
        {"shape", Json::Array{Json(uint64_t{values.size()})}},
        {"data_offsets", Json::Array{Json(begin), Json(uint64_t{data.size()})}}});
  }
  std::string json = Json(std::move(renamed)).Dump();
  length = json.size();
  WriteWholeFile(path, std::string(reinterpret_cast<const char*>(&length), 8) + json + data);
}

class FolderTest : public ::testing::Test {
 protected:
  Loaded Make(const Json& architecture) {
    testing::WriteInventedModel(architecture, model_);
    return LoadFiles(model_);
  }
  void WriteConfig(const Json& config) { WriteWholeFile(model_ + "/config.json", config.Dump()); }
  Status StatusOf(const std::string& path) { return LoadFiles(path).status; }

  const TempFolder folder_;
  const std::string model_ = folder_.path() + "/model";
  const bool made_ = fs::create_directory(model_);
};

std::string Replaced(const std::string& name, std::string_view from, std::string_view to) {
  return name.starts_with(from) ? std::string(to) + name.substr(from.size()) : name;
}

TEST_F(FolderTest, AModelThatWrapsALanguageModelIsThatOne) {
  for (const auto& [inner, outer] :
       {std::pair("gemma3", "gemma3"), std::pair("mistral", "mistral3"),
        std::pair("llama", "llava")}) {
    const Json architecture = Architecture(inner);
    const Loaded plain = Make(architecture);
    ASSERT_TRUE(plain.model) << plain.status.message();
    WriteConfig(Json::Object{{"model_type", outer},
                             {"architectures", Json::Array{"AForConditionalGeneration"}},
                             {"eos_token_id", Json::Array{2, 5}},
                             {"vision_config", Json::Object{{"hidden_size", 7}}},
                             {"text_config", *architecture.Find("config")}});
    const auto old_names = [](const std::string& name) { return "language_model." + name; };
    Rename(model_ + "/model.safetensors", old_names,
           {{"vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight", {1, 2}},
            {"multi_modal_projector.mm_input_projection_weight", {1, 2}}});
    const auto expect_same = [&] {
      const Loaded wrapped = LoadFiles(model_);
      ASSERT_TRUE(wrapped.model) << wrapped.status.message();
      EXPECT_EQ(wrapped.model->fingerprint(), plain.model->fingerprint());
      EXPECT_EQ(wrapped.model->config().eos_ids, (std::vector<int32_t>{2, 5}));
      for (const char* words : {"skipped 2 tensors", "multi_modal_projector", "reads text alone"}) {
        EXPECT_NE(wrapped.assumptions.find(words), std::string::npos) << wrapped.assumptions;
      }
    };
    expect_same();
    Rename(model_ + "/model.safetensors", [](const std::string& name) {
      const std::string newer = Replaced(name, "language_model.model.", "model.language_model.");
      const std::string last = Replaced(newer, "language_model.lm_head.", "lm_head.");
      return last == name ? "model." + name : last;
    });
    expect_same();
  }
}

TEST_F(FolderTest, AFieldOfAWrappedModelIsNamedWithItsPlace) {
  Json::Object config = *Architecture("llama").Find("config")->object();
  config["hidden_size"] = 0;
  WriteConfig(Json::Object{{"model_type", "llava"}, {"text_config", config}});
  EXPECT_NE(StatusOf(model_).message().find("\"text_config.hidden_size\""), std::string::npos)
      << StatusOf(model_).message();
  config["model_type"] = "mamba";
  WriteConfig(Json::Object{{"model_type", "llava"}, {"text_config", config}});
  EXPECT_EQ(StatusOf(model_).code(), Code::kUnsupportedModel);
  WriteConfig(Json::Object{{"model_type", "llava"},
                           {"quantization_config", Json::Object{{"bits", 4}}},
                           {"text_config", *Architecture("llama").Find("config")}});
  EXPECT_NE(StatusOf(model_).message().find("quantization_config"), std::string::npos);
}

TEST_F(FolderTest, ABodyWithoutItsHeadIsTheModel) {
  const Loaded plain = Make(Architecture("llama tied"));
  Rename(model_ + "/model.safetensors",
         [](const std::string& name) { return Replaced(name, "model.", ""); });
  const Loaded body = LoadFiles(model_);
  ASSERT_TRUE(body.model) << body.status.message();
  EXPECT_EQ(body.model->fingerprint(), plain.model->fingerprint());
  Rename(model_ + "/model.safetensors",
         [](const std::string& name) { return name; }, {{"layers.0.self_attn.q_norm.weight", {1}}});
  EXPECT_NE(LoadFiles(model_).status.message().find("\"layers.0.self_attn.q_norm.weight\""),
            std::string::npos)
      << LoadFiles(model_).status.message();  // as the file has it
}

TEST_F(FolderTest, GenerationConfigNamesFurtherEnds) {
  Make(Architecture("llama"));
  const auto ends = [&](const std::string& json) {
    WriteWholeFile(model_ + "/generation_config.json", json);
    const Loaded loaded = LoadFiles(model_);
    EXPECT_TRUE(loaded.model) << loaded.status.message();
    return loaded.model->config().eos_ids;
  };
  EXPECT_EQ(ends("{}"), std::vector<int32_t>{2});
  EXPECT_EQ(ends("{\"eos_token_id\": 7}"), (std::vector<int32_t>{2, 7}));
  EXPECT_EQ(ends("{\"eos_token_id\": [2, 8, 9, 12345]}"), (std::vector<int32_t>{2, 8, 9}));
  EXPECT_EQ(ends("{\"eos_token_id\": null}"), std::vector<int32_t>{2});
  EXPECT_EQ(LoadFiles(model_).assumptions, "");
  for (const char* bad : {"{", "[]", "{\"eos_token_id\": \"</s>\"}"}) {
    EXPECT_EQ(ends(bad), std::vector<int32_t>{2});
    EXPECT_NE(LoadFiles(model_).assumptions.find("generation_config.json is left out"),
              std::string::npos);
  }
}

// ---- What is no model

TEST_F(FolderTest, WhatIsNoModelIsNotFound) {
  const auto expect = [&](const std::string& path, Code code,
                          const std::vector<std::string>& words) {
    const Status status = StatusOf(path);
    EXPECT_EQ(status.code(), code) << path << ": " << status.message();
    if (code == Code::kNotFound) {
      EXPECT_EQ(status.param(), "model") << path;
    }
    for (const std::string& word : words) {
      EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
    }
  };
  const std::string other = folder_.path() + "/other";
  fs::create_directory(other);
  expect(folder_.path() + "/none", Code::kNotFound, {"no model at"});
  expect(other, Code::kNotFound, {"no model at", "config.json"});
  WriteWholeFile(other + "/notes.txt", "hello");
  expect(other, Code::kNotFound, {"no model at"});
  expect(other + "/notes.txt", Code::kNotFound, {"no model at"});
  WriteWholeFile(other + "/empty", "");
  expect(other + "/empty", Code::kNotFound, {"no model at"});
  WriteWholeFile(other + "/model.safetensors", "12345678");
  expect(other, Code::kNotFound, {"model.safetensors", "no config.json"});
  expect(other + "/model.safetensors", Code::kNotFound, {"give its folder: " + other});
  fs::remove(other + "/model.safetensors");
  WriteWholeFile(other + "/pytorch_model.bin", "x");
  expect(other, Code::kUnsafeFormat, {"pytorch_model.bin", "save_pretrained"});
  expect(other + "/pytorch_model.bin", Code::kUnsafeFormat, {"save_pretrained"});
  WriteWholeFile(other + "/adapter_config.json", "{}");
  expect(other, Code::kUnsupportedModel, {"adapter", "merge_and_unload"});
  WriteWholeFile(other + "/m.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  expect(other + "/m.gguf", Code::kNotFound, {"git lfs pull"});
  WriteWholeFile(other + "/m.gguf", "<html>not found</html>");
  expect(other + "/m.gguf", Code::kMalformedModel, {"download it again"});
}

TEST_F(FolderTest, APartThatIsNotThereIsNotFound) {
  Make(Architecture("llama"));
  fs::remove(model_ + "/tokenizer.model");
  EXPECT_EQ(StatusOf(model_).code(), Code::kNotFound);
  EXPECT_NE(StatusOf(model_).message().find("tokenizer.json"), std::string::npos);
  fs::remove(model_ + "/model.safetensors");
  EXPECT_NE(StatusOf(model_).code(), Code::kMissingFile);
  WriteWholeFile(model_ + "/model.safetensors.index.json",
                 "{\"weight_map\":{\"a\":\"model-00001-of-00001.safetensors\"}}");
  WriteWholeFile(model_ + "/tokenizer.model",
                 ReadWholeFile(testing::TinyModel() + "/tokenizer.model"));
  EXPECT_EQ(StatusOf(model_).code(), Code::kNotFound);
  EXPECT_NE(StatusOf(model_).message().find("model-00001-of-00001.safetensors is missing"),
            std::string::npos);
}

// The file has holes: reading all of it would take more memory than there is.
TEST_F(FolderTest, AnIndexThatIsTooLargeIsNotReadWhole) {
  Make(Architecture("llama"));
  fs::remove(model_ + "/model.safetensors");
  const std::string index = model_ + "/model.safetensors.index.json";
  WriteWholeFile(index, "{}");
  // As large as the C library can make it: its sizes are of type long on Windows, of 4 bytes.
  fs::resize_file(index, uint64_t{1} << (sizeof(long) > 4 ? 38 : 30));
  EXPECT_EQ(StatusOf(model_).code(), Code::kLimitExceeded) << StatusOf(model_).message();
}

// Folders of GGUF files hold more than the model.
TEST_F(FolderTest, TheGgufModelOfAFolderIsFound) {
  const std::string bytes = GgufOf(PlainLlama());
  WriteWholeFile(model_ + "/m-Q8_0.gguf", bytes);
  WriteWholeFile(model_ + "/mmproj-m-f16.gguf", bytes);
  WriteConfig(*PlainLlama().Find("config"));
  WriteWholeFile(model_ + "/README.md", "# m");
  EXPECT_TRUE(LoadFiles(model_).model) << LoadFiles(model_).status.message();
  WriteWholeFile(model_ + "/m-Q4_0.gguf", bytes);
  EXPECT_EQ(StatusOf(model_).code(), Code::kAmbiguous);
}

}  // namespace
}  // namespace lectern
