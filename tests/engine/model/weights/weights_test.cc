#include "engine/model/weights/weights.h"

#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "engine/model/formats/json.h"
#include "tests/engine/memory_env.h"

namespace lectern {
namespace {

struct FakeTensor {
  std::string dtype;
  std::vector<uint64_t> shape;
};
using FakeTensors = std::map<std::string, FakeTensor>;

ModelConfig TinyConfig() {
  ModelConfig config;
  config.vocab_size = 5;
  config.hidden_size = 4;
  config.intermediate_size = 6;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 2;
  config.max_positions = 16;
  config.attention.assign(2, AttentionKind::kFull);
  return config;
}

FakeTensors TinyTensors() {
  FakeTensors tensors = {{"model.embed_tokens.weight", {"F32", {5, 4}}},
                         {"model.norm.weight", {"F16", {4}}},
                         {"lm_head.weight", {"BF16", {5, 4}}}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    tensors[layer + "self_attn.q_proj.weight"] = {"F32", {4, 4}};
    tensors[layer + "self_attn.k_proj.weight"] = {"F16", {2, 4}};
    tensors[layer + "self_attn.v_proj.weight"] = {"BF16", {2, 4}};
    tensors[layer + "self_attn.o_proj.weight"] = {"F32", {4, 4}};
    tensors[layer + "mlp.gate_proj.weight"] = {"BF16", {6, 4}};
    tensors[layer + "mlp.up_proj.weight"] = {"BF16", {6, 4}};
    tensors[layer + "mlp.down_proj.weight"] = {"BF16", {4, 6}};
    tensors[layer + "input_layernorm.weight"] = {"BF16", {4}};
    tensors[layer + "post_attention_layernorm.weight"] = {"F32", {4}};
  }
  return tensors;
}

uint64_t BytesOf(const FakeTensor& tensor) {
  uint64_t bytes = tensor.dtype == "F32" || tensor.dtype == "I32" ? 4 : 2;
  for (const uint64_t size : tensor.shape) bytes *= size;
  return bytes;
}

// All bits of the data are zero; one odd-sized tensor first makes every offset odd.
std::string MakeFile(const FakeTensors& tensors) {
  Json::Object header;
  uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    Json::Array shape;
    for (const uint64_t size : tensor.shape) shape.emplace_back(size);
    header[name] = Json::Object{{"dtype", tensor.dtype},
                                {"shape", std::move(shape)},
                                {"data_offsets", Json::Array{at, at + BytesOf(tensor)}}};
    at += BytesOf(tensor);
  }
  const std::string json = Json(header).Dump();
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(json.size() >> (8 * i)));
  return file + json + std::string(at, '\0');
}

Result<std::unique_ptr<Weights>> LoadFolder(Env& env, const std::string& folder,
                                            const ModelConfig& config,
                                            WeightsType type = WeightsType::kStored) {
  LECTERN_ASSIGN(TensorFiles files, OpenSafetensors(env, folder, Io::kMmap));
  LECTERN_RETURN_IF_ERROR(Weights::DropUnneeded(files, config).status());
  return Weights::Load(std::move(files), config, type);
}

Result<std::unique_ptr<Weights>> LoadTiny(const FakeTensors& tensors,
                                          const ModelConfig& config = TinyConfig()) {
  MemoryEnv env;
  env.files["m/model.safetensors"] = MakeFile(tensors);
  return LoadFolder(env, "m", config);
}

TEST(WeightsTest, LoadsEveryGoldenModelWithTheBytesThatPythonRead) {
  const std::string golden_folder = LECTERN_SOURCE_DIR "/tests/golden/";
  const Result<Json> golden = ParseJson(ReadWholeFile(golden_folder + "model_golden.json"));
  ASSERT_TRUE(golden.ok());
  const Json::Object& folders = *golden->Find("folders")->object();
  ASSERT_GE(folders.size(), 6u);
  for (const auto& [name, expected] : folders) {
    const std::string folder = golden_folder + "models/" + name;
    const auto config = ParseConfig(ReadWholeFile(folder + "/config.json"), folder);
    ASSERT_TRUE(config.ok()) << config.status().message();
    const auto weights = LoadFolder(Env::Default(), folder, *config);
    ASSERT_TRUE(weights.ok()) << weights.status().message();
    EXPECT_EQ((*weights)->bytes(), *expected.Find("bytes")->unsigned_integer()) << name;

    Sha256 hash;
    ASSERT_TRUE((*weights)->AddTo(hash).ok());
    std::string hex;
    for (const uint8_t byte : hash.Finish()) {
      hex += "0123456789abcdef"[byte >> 4];
      hex += "0123456789abcdef"[byte & 15];
    }
    EXPECT_EQ(hex, *expected.Find("sha256")->string()) << name;

    const Json::Array& norm = *expected.Find("norm")->array();
    const std::vector<float>& ours = (*weights)->layer(0).attention_norm;
    ASSERT_EQ(ours.size(), norm.size());
    for (size_t i = 0; i < norm.size(); ++i) {
      EXPECT_EQ(ours[i], static_cast<float>(*norm[i].number())) << name;
    }
  }
}

TEST(WeightsTest, ViewsHaveTheShapesOfTheConfig) {
  const auto weights = LoadTiny(TinyTensors());
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  const LayerWeights& layer = (*weights)->layer(1);
  EXPECT_EQ(layer.k.num_rows(), 2u);
  EXPECT_EQ(layer.k.num_cols(), 4u);
  EXPECT_EQ(layer.k.rows.dtype, Dtype::kF16);
  EXPECT_EQ(layer.down.num_rows(), 4u);
  EXPECT_EQ(layer.down.num_cols(), 6u);
  EXPECT_EQ(layer.mlp_norm, std::vector<float>(4, 0.0f));
  EXPECT_EQ((*weights)->output().rows.dtype, Dtype::kBf16);
  EXPECT_EQ((*weights)->embedding().num_rows(), 5u);
}

TEST(WeightsTest, RowsThatAreNoWholeGroupsAreNotQuantised) {
  MemoryEnv env;
  env.files["m/model.safetensors"] = MakeFile(TinyTensors());
  const Status status = LoadFolder(env, "m", TinyConfig(), WeightsType::kQ8).status();
  EXPECT_EQ(status.code(), Code::kUnsupportedModel);
  EXPECT_NE(status.message().find("\"lm_head.weight\" has rows of 4 values"), std::string::npos)
      << status.message();
}

TEST(WeightsTest, NormsAreReadFromUnalignedBytes) {
  FakeTensors tensors = TinyTensors();
  tensors["a.rotary_emb.inv_freq"] = {"F16", {1}};
  std::string file = MakeFile(tensors);
  // Make every later offset odd: the first tensor becomes one of one byte.
  const size_t dtype = file.find("\"F16\"");
  file.replace(dtype, 5, "\"U8\" ");
  MemoryEnv env;
  const auto shift = [](std::string text) {  // data_offsets [a,b] -> [a-1,b-1], the first [0,1]
    std::string out;
    size_t at = 0;
    for (size_t open; (open = text.find("data_offsets\":[", at)) != std::string::npos;) {
      open += 15;
      const size_t comma = text.find(',', open), close = text.find(']', open);
      const uint64_t a = std::stoull(text.substr(open, comma - open));
      const uint64_t b = std::stoull(text.substr(comma + 1, close - comma - 1));
      out += text.substr(at, open - at) + std::to_string(a == 0 ? 0 : a - 1) + "," +
             std::to_string(b - 1);
      at = close;
    }
    return out + text.substr(at);
  };
  const size_t header_size = static_cast<uint8_t>(file[0]) | static_cast<uint8_t>(file[1]) << 8;
  std::string header = shift(file.substr(8, header_size));
  const size_t data_size = file.size() - 8 - header_size - 1;
  file.clear();
  if (header.size() % 2 != 0) header += ' ';  // so that odd offsets are odd addresses
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(header.size() >> (8 * i)));
  file += header + std::string(data_size, '\x3C');
  env.files["m/model.safetensors"] = file;
  const auto weights = LoadFolder(env, "m", TinyConfig());
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EXPECT_EQ((*weights)->layer(0).mlp_norm[3], std::bit_cast<float>(0x3C3C3C3Cu));
  EXPECT_EQ((*weights)->layer(0).attention_norm[0], std::bit_cast<float>(0x3C3C0000u));
  EXPECT_EQ((*weights)->final_norm()[0], ToFloat(f16{0x3C3C}));
}

TEST(WeightsTest, TiedModelUsesTheEmbeddingAndIgnoresAnOutputMatrix) {
  ModelConfig config = TinyConfig();
  config.tie_word_embeddings = true;
  FakeTensors tensors = TinyTensors();
  const auto with = LoadTiny(tensors, config);
  ASSERT_TRUE(with.ok()) << with.status().message();
  EXPECT_EQ((*with)->output().rows.data, (*with)->embedding().rows.data);
  tensors.erase("lm_head.weight");
  const auto without = LoadTiny(tensors, config);
  ASSERT_TRUE(without.ok()) << without.status().message();
  EXPECT_EQ((*with)->bytes(), (*without)->bytes());
}

TEST(WeightsTest, OldRotaryTablesAreIgnored) {
  FakeTensors tensors = TinyTensors();
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {1}};
  EXPECT_TRUE(LoadTiny(tensors).ok());
}

struct BadWeights {
  std::function<void(FakeTensors&)> spoil;
  Code code;
  std::vector<std::string> words;
};

TEST(WeightsTest, RefusesWhatDoesNotFitTheConfigNamingTheTensor) {
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  const BadWeights cases[] = {
      {[&](auto& t) { t.erase(q); }, Code::kMalformedModel, {q, "missing"}},
      {[](auto& t) { t.erase("lm_head.weight"); },
       Code::kMalformedModel,
       {"lm_head.weight", "tie_word_embeddings"}},
      {[&](auto& t) {
         t[q].shape = {4, 5};
       },
       Code::kMalformedModel,
       {q, "[4, 5]", "[4, 4]"}},
      {[&](auto& t) { t[q].shape = {16}; }, Code::kMalformedModel, {q, "[16]"}},
      {[](auto& t) {
         t["model.norm.weight"].shape = {4, 1};
       },
       Code::kMalformedModel,
       {"model.norm.weight", "[4, 1]"}},
      {[](auto& t) {
         t["model.embed_tokens.weight"].shape = {6, 4};
       },
       Code::kMalformedModel,
       {"model.embed_tokens.weight", "[6, 4]"}},
      {[&](auto& t) { t[q].dtype = "I32"; }, Code::kUnsupportedModel, {q, "I32", "BF16"}},
      {[](auto& t) {
         t["model.layers.2.input_layernorm.weight"] = {"F32", {4}};
       },
       Code::kUnsupportedModel,
       {"model.layers.2.input_layernorm.weight", "2 layers"}},
      {[](auto& t) {
         t["model.layers.0.self_attn.sinks"] = {"F32", {4}};
       },
       Code::kUnsupportedModel,
       {"self_attn.sinks", "not part of such a model"}},
      {[](auto& t) {
         t["model.layers.0.self_attn.q_norm.weight"] = {"F32", {2}};
       },
       Code::kUnsupportedModel,
       {"q_norm"}},
      {[](auto& t) {
         t["vision.weight\n"] = {"F32", {2}};
       },
       Code::kUnsupportedModel,
       {"vision.weight\\n"}},
  };
  for (const BadWeights& bad : cases) {
    FakeTensors tensors = TinyTensors();
    bad.spoil(tensors);
    const auto weights = LoadTiny(tensors);
    ASSERT_FALSE(weights.ok()) << bad.words[0];
    const std::string& message = weights.status().message();
    EXPECT_EQ(weights.status().code(), bad.code) << message;
    EXPECT_NE(message.find("m/model.safetensors"), std::string::npos) << message;
    for (const std::string& word : bad.words) {
      EXPECT_NE(message.find(word), std::string::npos) << message << " lacks " << word;
    }
  }
}

// A GGUF file may store each layer in another type: here only the second one is packed.
TEST(WeightsTest, JoinedMatricesOfEveryLayerBeginAtWholePanels) {
  ModelConfig config = TinyConfig();
  config.hidden_size = 32, config.head_dim = 16, config.intermediate_size = 8;
  config.fused_gate_up = true;
  FakeTensors tensors = {{"model.embed_tokens.weight", {"BF16", {5, 32}}},
                         {"model.norm.weight", {"F32", {32}}},
                         {"lm_head.weight", {"BF16", {5, 32}}}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    for (const char* matrix : {"self_attn.q_proj", "self_attn.o_proj"}) {
      tensors[layer + matrix + ".weight"] = {"BF16", {32, 32}};
    }
    for (const char* matrix : {"self_attn.k_proj", "self_attn.v_proj", "mlp.gate_up_proj"}) {
      tensors[layer + matrix + ".weight"] = {"BF16", {16, 32}};
    }
    tensors[layer + "mlp.down_proj.weight"] = {"BF16", {32, 8}};
    tensors[layer + "input_layernorm.weight"] = {"F32", {32}};
    tensors[layer + "post_attention_layernorm.weight"] = {"F32", {32}};
  }
  MemoryEnv env;
  env.files["m/model.safetensors"] = MakeFile(tensors);
  auto files = OpenSafetensors(env, "m", Io::kMmap);
  ASSERT_TRUE(files.ok()) << files.status().message();
  ASSERT_TRUE(Weights::BytesInUse(*files, config, WeightsType::kStored).ok());
  const std::string name = "model.layers.1.mlp.gate_up_proj.weight";
  TensorFiles::Tensor& joined = files->tensors.at(name);
  joined.type = TensorType::kQ8_0;
  joined.end = joined.begin + 16 * 34;  // a block of 32 values in 34 bytes for each row
  const Status status = Weights::BytesInUse(*files, config, WeightsType::kStored).status();
  EXPECT_EQ(status.code(), Code::kUnsupportedModel) << status.message();
  EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
}

TEST(WeightsTest, HugeConfigIsRefusedByShapesBeforeAnythingIsAllocated) {
  ModelConfig config = TinyConfig();
  config.vocab_size = 1u << 22;
  config.hidden_size = 1u << 17;
  EXPECT_EQ(LoadTiny(TinyTensors(), config).status().code(), Code::kMalformedModel);
}

// Two files and their index; each test spoils one thing.
class IndexedWeightsTest : public testing::Test {
 protected:
  IndexedWeightsTest() {
    for (const auto& [name, tensor] : TinyTensors()) {
      const bool is_first = name.find("layers.0") != std::string::npos;
      (is_first ? first_ : second_)[name] = tensor;
      index_[name] = is_first ? "a.safetensors" : "b.safetensors";
    }
  }

  Status Load() {
    MemoryEnv env;
    env.files["m/model.safetensors.index.json"] = Json(Json::Object{{"weight_map", index_}}).Dump();
    env.files["m/a.safetensors"] = MakeFile(first_);
    if (has_second_) env.files["m/b.safetensors"] = MakeFile(second_);
    auto weights = LoadFolder(env, "m", TinyConfig());
    return weights.ok() ? Status() : std::move(weights).status();
  }

  FakeTensors first_, second_;
  Json::Object index_;
  bool has_second_ = true;
};

TEST_F(IndexedWeightsTest, Loads) { EXPECT_TRUE(Load().ok()); }

TEST_F(IndexedWeightsTest, MissingFileIsNamed) {
  has_second_ = false;
  const Status status = Load();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("b.safetensors"), std::string::npos);
}

TEST_F(IndexedWeightsTest, TensorInTwoFilesIsRefused) {
  first_["model.norm.weight"] = second_["model.norm.weight"];
  const Status status = Load();
  EXPECT_EQ(status.code(), Code::kMalformedModel);
  EXPECT_NE(status.message().find("also in"), std::string::npos) << status.message();
}

TEST_F(IndexedWeightsTest, TensorThatItsFileLacksIsRefused) {
  second_.erase("model.norm.weight");
  first_["model.norm.weight"] = {"F16", {4}};
  const Status status = Load();
  EXPECT_EQ(status.code(), Code::kMalformedModel);
  EXPECT_NE(status.message().find("not in it"), std::string::npos) << status.message();
}

TEST_F(IndexedWeightsTest, TensorThatTheIndexLacksIsRefused) {
  first_["x.rotary_emb.inv_freq"] = {"F16", {4}};
  const Status status = Load();
  EXPECT_EQ(status.code(), Code::kMalformedModel);
  EXPECT_NE(status.message().find("not in the index"), std::string::npos) << status.message();
}

TEST(WeightsTest, FolderWithPickleFilesOnlySaysHowToConvert) {
  for (const std::string name : {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin",
                                 "consolidated.00.pth", "model.pt"}) {
    MemoryEnv env;
    env.files["m/" + name] = "\x80\x02";
    const auto weights = LoadFolder(env, "m", TinyConfig());
    ASSERT_FALSE(weights.ok());
    EXPECT_EQ(weights.status().code(), Code::kUnsafeFormat);
    EXPECT_NE(weights.status().message().find(name), std::string::npos);
    EXPECT_NE(weights.status().message().find("save_pretrained"), std::string::npos);
  }
}

TEST(WeightsTest, AnEmptyFolderHasNoWeights) {
  MemoryEnv env;
  EXPECT_EQ(LoadFolder(env, "m", TinyConfig()).status().code(), Code::kNotFound);
}

TEST(WeightsTest, HashSeesNamesTypesAndBytes) {
  const auto digest = [](const std::string& file) {
    MemoryEnv env;
    env.files["m/model.safetensors"] = file;
    const auto weights = LoadFolder(env, "m", TinyConfig());
    Sha256 hash;
    EXPECT_TRUE((*weights)->AddTo(hash).ok());
    return hash.Finish();
  };
  const std::string file = MakeFile(TinyTensors());
  std::string other_byte = file;
  other_byte.back() = 1;
  FakeTensors other_type = TinyTensors();
  other_type["model.norm.weight"].dtype = "BF16";
  EXPECT_EQ(digest(file), digest(file));
  EXPECT_NE(digest(file), digest(other_byte));
  EXPECT_NE(digest(file), digest(MakeFile(other_type)));
}

}  // namespace
}  // namespace lectern
