// The experts of gpt-oss as its released folders hold them, by the definition in transformers
// (convert_moe_packed_tensors): a value is a code of E2M1 times 2^(scale - 127).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/model/model.h"
#include "tests/engine/invented_gguf.h"
#include "tests/engine/invented_model.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::WriteWholeFile;

constexpr uint64_t kHidden = 64, kWidth = 96, kCount = 6, kTokenLayers = 2;

uint8_t InventedByte(const std::string& name, uint64_t index) {
  const auto bits = std::bit_cast<uint32_t>(testing::InventedWeight(name, {4096}, 0, index));
  return static_cast<uint8_t>((bits >> 3) ^ (bits >> 13));
}
// Scales near 2^-4, so that no value overflows.
uint8_t InventedScale(const std::string& name, uint64_t index) {
  return static_cast<uint8_t>(120 + InventedByte(name, index) % 6);
}

Json GptOss() {
  const auto cases = ParseJson(ReadWholeFile(SourcePath("tests/golden/architectures.json")));
  const Json::Object fields = {
      {"hidden_size", Json(uint64_t{kHidden})},
      {"intermediate_size", Json(uint64_t{kWidth})},
      {"num_hidden_layers", Json(uint64_t{kTokenLayers})},
      {"layer_types", Json(Json::Array{Json("sliding_attention"), Json("full_attention")})},
      {"quantization_config", Json(Json::Object{{"quant_method", Json("mxfp4")}})}};
  return testing::WithFields(*cases->Find("gpt oss"), fields);
}

// Writes the folder, in which `changed` may replace tensors' shapes or, empty, leave one out.
void WriteFolder(const Json& model, const std::string& folder,
                 const std::map<std::string, Json::Array>& changed = {}) {
  testing::WriteInventedModel(model, folder);  // config.json and the tokenizer
  Json::Object header;
  std::string data;
  const auto add = [&](const std::string& name, const char* dtype, Json::Array shape,
                       const std::string& bytes) {
    if (const auto at = changed.find(name); at != changed.end()) {
      if (at->second.empty()) return;
      shape = at->second;
    }
    const uint64_t begin = data.size();
    data += bytes;
    header[name] = Json(Json::Object{
        {"dtype", Json(dtype)},
        {"shape", Json(std::move(shape))},
        {"data_offsets", Json(Json::Array{Json(begin), Json(uint64_t{data.size()})})}});
  };
  for (const auto& [name, sizes] : *model.Find("tensors")->object()) {
    std::vector<uint64_t> shape;
    uint64_t count = 1;
    for (const Json& size : *sizes.array()) {
      shape.push_back(*size.unsigned_integer());
      count *= shape.back();
    }
    if (shape.size() == 3) {  // an expert's matrix, transposed
      const uint64_t rows = shape[2], blocks = shape[1] / 32;
      std::string nibbles, scales;
      for (uint64_t i = 0; i < shape[0] * rows * blocks * 16; ++i) {
        nibbles += static_cast<char>(InventedByte(name, i));
      }
      for (uint64_t i = 0; i < shape[0] * rows * blocks; ++i) {
        scales += static_cast<char>(InventedScale(name, i));
      }
      add(name + "_blocks", "U8", {Json(shape[0]), Json(rows), Json(blocks), Json(16)}, nibbles);
      add(name + "_scales", "U8", {Json(shape[0]), Json(rows), Json(blocks)}, scales);
      continue;
    }
    std::string bytes;
    for (uint64_t i = 0; i < count; ++i) {
      const float value = testing::WeightOf(model, name, shape, i);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    add(name, "F32", *sizes.array(), bytes);
  }
  std::string json = Json(std::move(header)).Dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const uint64_t length = json.size();
  WriteWholeFile(folder + "/model.safetensors",
                 std::string(reinterpret_cast<const char*>(&length), sizeof length) + json + data);
}

// The value that the folder means: of row `row` of all rows of expert `e`, gate's and up's in
// turns.
float ValueOf(const std::string& name, uint64_t rows, uint64_t cols, uint64_t e, uint64_t row,
              uint64_t col) {
  constexpr float kE2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  const uint64_t block = (e * rows + row) * (cols / 32) + col / 32;
  const uint8_t byte = InventedByte(name, block * 16 + col % 32 / 2);
  return std::ldexp(kE2m1[col % 2 == 0 ? byte & 15 : byte >> 4], InventedScale(name, block) - 127);
}

TEST(Mxfp4ExpertsTest, ValuesAreThoseOfTheDefinition) {
  const TempFolder folder;
  WriteFolder(GptOss(), folder.path());
  for (const Io io : {Io::kMmap, Io::kPread}) {
    const auto model = Model::Load(Env::Default(), folder.path(), {.io = io});
    ASSERT_TRUE(model.ok()) << model.status().message();
    for (size_t layer = 0; layer < kTokenLayers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
      const LayerWeights& weights = (*model)->weights().layer(layer);
      ASSERT_EQ(weights.experts.size(), kCount);
      size_t wrong = 0;
      for (uint64_t e = 0; e < kCount; ++e) {
        const auto compare = [&](const WeightMatrix& matrix, const std::string& part,
                                 uint64_t turns, uint64_t turn) {
          ASSERT_TRUE(matrix.is_packed());
          EXPECT_EQ(matrix.packed.type, PackedType::kFp4);
          for (uint64_t r = 0; r < matrix.num_rows(); ++r) {
            for (uint64_t c = 0; c < matrix.num_cols(); ++c) {
              wrong += PackedElement(matrix.packed, r, c) !=
                       ValueOf(prefix + part, turns * matrix.num_rows(), matrix.num_cols(), e,
                               turns * r + turn, c);
            }
          }
        };
        compare(weights.experts[e].gate, "gate_up_proj", 2, 0);
        compare(weights.experts[e].up, "gate_up_proj", 2, 1);
        compare(weights.experts[e].down, "down_proj", 1, 0);
        const float bias = testing::InventedWeight(prefix + "gate_up_proj_bias",
                                                   {kCount, 2 * kWidth}, 1, e * 2 * kWidth + 7);
        EXPECT_EQ(weights.experts[e].up_bias[3], bias);
      }
      EXPECT_EQ(wrong, 0u);
    }
  }
}

TEST(Mxfp4ExpertsTest, PartsThatDoNotFitAreNamed) {
  const std::string name = "model.layers.1.mlp.experts.down_proj";
  const struct {
    std::map<std::string, Json::Array> changed;
    std::string word;
  } cases[] = {
      {{{name + "_scales", {}}}, "down_proj_blocks"},
      {{{name + "_blocks", {}}}, "down_proj_blocks"},
      {{{name + "_blocks", {}}, {name + "_scales", {}}}, "experts.0.down_proj.weight"},
      {{{name + "_scales", {Json(uint64_t{kHidden}), Json(uint64_t{kCount}), Json(3)}}},
       "down_proj_scales"},
      {{{name + "_bias", {}}}, "down_proj.bias"},
  };
  for (const auto& [changed, word] : cases) {
    const TempFolder folder;
    WriteFolder(GptOss(), folder.path(), changed);
    const Status status = Model::Load(Env::Default(), folder.path()).status();
    EXPECT_EQ(status.code(), Code::kMalformedModel) << status.message();
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace lectern
