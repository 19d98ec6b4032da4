// Models in GGUF files that PyPI's gguf wrote (tests/golden/make_gguf_golden.py): they are the
// safetensors they were made from, blocks are worth what gguf says, and all of it is asked.
#include "engine/model/gguf_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "engine/model/ollama.h"
#include "store/store.h"
#include "tests/engine/dense_oracle.h"
#include "tests/engine/gguf_writer.h"
#include "tests/engine/invented_model.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

namespace fs = std::filesystem;
using testing::IndexToAsk;
using testing::IndexTokens;
using testing::InventedText;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

std::string GoldenPath(const std::string& name) { return SourcePath("tests/golden/gguf/" + name); }

std::shared_ptr<const Model> Load(const std::string& path, const ModelOptions& options = {}) {
  auto model = Model::Load(Env::Default(), path, options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *model : nullptr;
}

// ---- Against the safetensors they were made from

std::vector<float> ValuesOf(const WeightMatrix& matrix) {
  std::vector<float> values(matrix.num_rows() * matrix.num_cols());
  const Rows<float> rows(values.data(), matrix.num_rows(), matrix.num_cols());
  if (!matrix.is_packed()) {
    ToFloatRowsScalar(matrix.rows, rows);
    return values;
  }
  for (size_t r = 0; r < rows.num_rows; ++r) {
    for (size_t c = 0; c < rows.num_cols; ++c) rows[r][c] = PackedElement(matrix.packed, r, c);
  }
  return values;
}

TEST(GgufModelTest, SaysWhatConfigJsonSays) {
  const auto ours = Load(GoldenPath("tiny-F32.gguf")), other = Load(TinyModel());
  const ModelConfig &a = ours->config(), &b = other->config();
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.hidden_size, b.hidden_size);
  EXPECT_EQ(a.intermediate_size, b.intermediate_size);
  EXPECT_EQ(a.num_layers, b.num_layers);
  EXPECT_EQ(a.num_heads, b.num_heads);
  EXPECT_EQ(a.num_kv_heads, b.num_kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.max_positions, b.max_positions);
  EXPECT_EQ(a.rms_norm_epsilon, b.rms_norm_epsilon);
  EXPECT_EQ(a.tie_word_embeddings, b.tie_word_embeddings);
  EXPECT_EQ(a.rope.theta, b.rope.theta);
  EXPECT_EQ(a.eos_ids, b.eos_ids);
  EXPECT_TRUE(a.rope.has_neighbours);
  EXPECT_EQ(MakeRopeTable(a.rope, 1).frequencies, MakeRopeTable(b.rope, 1).frequencies);
  EXPECT_EQ(ValuesOf(ours->weights().embedding()), ValuesOf(other->weights().embedding()));
  EXPECT_EQ(ValuesOf(ours->weights().layer(1).down), ValuesOf(other->weights().layer(1).down));
  EXPECT_NE(ValuesOf(ours->weights().layer(1).q), ValuesOf(other->weights().layer(1).q));
  EXPECT_EQ(ours->weights().layer(1).mlp_norm, other->weights().layer(1).mlp_norm);
}

// As in files of Phi-3, whose "</s>" matched in raw text.
TEST(GgufModelTest, AnEndTokenThatIsUserDefinedIsAControlToken) {
  std::string bytes = ReadWholeFile(GoldenPath("tiny-F16.gguf"));
  const std::string key = "tokenizer.ggml.token_type";
  const size_t items = bytes.find(key) + key.size() + 4 + 4 + 8;  // kind, kind of items, count
  ASSERT_EQ(bytes[items + 2 * 4], 3);  // of "</s>": control, in 32 bits
  bytes[items + 2 * 4] = 4;
  const TempFolder folder;
  WriteWholeFile(folder.path() + "/m.gguf", bytes);
  const auto model = Load(folder.path() + "/m.gguf");
  const Tokenizer& tokenizer = model->tokenizer();
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.ControlId("</s>"), 2);
  const auto ids = tokenizer.Encode("a</s>b")->ids;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 0);
}

TEST(GgufModelTest, ItsArraysAreTheTokenizer) {
  const auto ours = Load(GoldenPath("tiny-Q4_0.gguf")), other = Load(TinyModel());
  const Tokenizer &a = ours->tokenizer(), &b = other->tokenizer();
  EXPECT_EQ(a.vocab_size(), b.vocab_size());
  EXPECT_EQ(a.bos_id(), b.bos_id());
  EXPECT_EQ(a.eos_id(), b.eos_id());
  for (const std::string& text :
       {InventedText(20'000, 3), std::string("  two  spaces\n\ttab <s> é 日本 🦙 \x01"),
        std::string(), std::string(" ")}) {
    for (const bool continues : {false, true}) {
      const auto x = continues ? a.EncodeContinuation(text) : a.Encode(text);
      const auto y = continues ? b.EncodeContinuation(text) : b.Encode(text);
      ASSERT_TRUE(x.ok() && y.ok());
      EXPECT_EQ(x->ids, y->ids);
    }
  }
  for (int32_t id = 0; id < static_cast<int32_t>(a.vocab_size()); ++id) {
    EXPECT_EQ(a.TokenBytes(id), b.TokenBytes(id));
  }
}

// ---- Logits

struct Golden {
  std::vector<int32_t> ids;                // 32
  std::vector<std::vector<float>> logits;  // after each of the last 8
  double std = 0;
};

Golden ReadGolden(const std::string& name) {
  constexpr size_t kIds = 32, kRows = 8, kVocab = 400;
  const std::string bytes = ReadWholeFile(GoldenPath(name));
  Golden golden;
  golden.ids.resize(kIds);
  EXPECT_EQ(bytes.size(), 4 * (kIds + kRows * kVocab));
  std::memcpy(golden.ids.data(), bytes.data(), 4 * kIds);
  double sum = 0, squares = 0;
  for (size_t r = 0; r < kRows; ++r) {
    golden.logits.emplace_back(kVocab);
    std::memcpy(golden.logits[r].data(), bytes.data() + 4 * (kIds + r * kVocab), 4 * kVocab);
    for (const float x : golden.logits[r]) sum += x, squares += double{x} * x;
  }
  const double n = kRows * kVocab;
  golden.std = std::sqrt(squares / n - sum / n * (sum / n));
  return golden;
}

// Logits after each of the last 8 of `ids`, one token a step.
std::vector<std::vector<float>> Logits(const std::string& model, const std::vector<int32_t>& ids) {
  const TempFolder folder;
  const size_t context = ids.size() - 8;
  const auto indexed = IndexTokens(model, {ids.begin(), ids.begin() + context}, folder.path());
  const auto threads = std::make_shared<ThreadPool>(2);
  auto session =
      DocumentSession::Create(indexed.document, indexed.model, *DefaultBackend(), threads, 0);
  EXPECT_TRUE(session.ok());
  std::vector<std::vector<float>> all;
  for (size_t t = context; t < ids.size(); ++t) {
    const auto logits = (*session)->Step({&ids[t], 1}, 1, true, nullptr);
    EXPECT_TRUE(logits.ok());
    all.emplace_back(logits->begin(), logits->end());
  }
  return all;
}

// The root of the mean square of the difference, in standard deviations of the golden's logits.
double Distance(const std::vector<std::vector<float>>& logits, const Golden& golden) {
  double squares = 0;
  for (size_t r = 0; r < logits.size(); ++r) {
    for (size_t i = 0; i < logits[r].size(); ++i) {
      squares += std::pow(logits[r][i] - golden.logits[r][i], 2);
    }
  }
  return std::sqrt(squares / (8.0 * 400)) / golden.std;
}

struct TypeCase {
  const char* name;  // of the file
  double distance;   // at most, to the float64 forward over what gguf's dequantize says
};
// Plain types differ by float32 alone. Blocks are exact, what they are multiplied by is rounded to
// int8: of a random model that is a few hundredths of the spread.
constexpr TypeCase kTypes[] = {{"tiny-F32", 1e-5}, {"tiny-F16", 1e-5}, {"tiny-BF16", 1e-5},
                               {"tiny-Q8_0", 0.1}, {"tiny-Q4_0", 0.1}, {"tiny-Q4_1", 0.1},
                               {"tiny-Q5_0", 0.1}, {"tiny-Q5_1", 0.1}, {"k", 0.1},
                               {"low", 0.1}};

class GgufTypeTest : public ::testing::TestWithParam<TypeCase> {
 protected:
  std::string path() const { return GoldenPath(GetParam().name + std::string(".gguf")); }
};

TEST_P(GgufTypeTest, LogitsAreThoseOfTheDequantisedWeights) {
  const Golden golden = ReadGolden(GetParam().name + std::string(".bin"));
  const double distance = Distance(Logits(path(), golden.ids), golden);
  RecordProperty("distance", std::to_string(distance));
  std::printf("%s: %.2e of the logits' spread\n", GetParam().name, distance);
  EXPECT_LE(distance, GetParam().distance);
}

// ---- Index and ask

EngineOptions InStore(const TempFolder& folder, const std::string& model) {
  return {.store = folder.path() + "/store", .model = model, .num_threads = 2};
}

Answer Ask(Engine& engine, float kv_budget) {
  auto session = engine.Open("");
  EXPECT_TRUE(session.ok()) << session.status().message();
  AskOptions options;
  options.kv_budget = kv_budget;
  options.max_tokens = 12;
  auto answer = (*session)->Ask("What did the clerk repair?", options);
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  return answer.ok() ? *answer : Answer();
}

// formats_test.cc has all types.
class GgufAnswersTest : public GgufTypeTest {};

TEST_P(GgufAnswersTest, AnotherEngineAnswersTheSame) {
  const TempFolder folder;
  const std::string text = InventedText(7'000, 5);
  auto engine = Engine::Create(InStore(folder, path()));
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const auto report = (*engine)->Index(text, {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GT(report->tokens, 2048u);
  const Answer exact = Ask(**engine, 1), sparse = Ask(**engine, 0.2f);
  EXPECT_FALSE(exact.text.empty());
  EXPECT_FALSE(sparse.text.empty());

  // Every way of holding the weights is the same model: another engine finds what this one packed.
  auto again =
      Engine::Create({.store = folder.path() + "/store", .num_threads = 1, .io = Io::kPread});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(Ask(**again, 1).text, exact.text);
  EXPECT_EQ(Ask(**again, 0.2f).text, sparse.text);
}

// The oracle computes with what a model's matrices are worth, rows of queries and keys in
// transformers' order.
void UseWeights(const Model& model, testing::DenseOracle& oracle) {
  const auto replace = [&](const std::string& name, const WeightMatrix& matrix, bool is_rotated) {
    const std::vector<float> values = ValuesOf(matrix);
    std::vector<double> ordered(values.size());
    const size_t cols = matrix.num_cols(), dim = model.config().head_dim;
    for (size_t r = 0; r < matrix.num_rows(); ++r) {
      const size_t in_head = r % dim, half = dim / 2;
      const size_t to = is_rotated ? r - in_head + in_head / 2 + in_head % 2 * half : r;
      std::copy_n(values.begin() + r * cols, cols, ordered.begin() + to * cols);
    }
    oracle.Replace(name, std::move(ordered));
  };
  replace("model.embed_tokens.weight", model.weights().embedding(), false);
  for (size_t i = 0; i < model.config().num_layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    const LayerWeights& layer = model.weights().layer(i);
    replace(prefix + "self_attn.q_proj.weight", layer.q, true);
    replace(prefix + "self_attn.k_proj.weight", layer.k, true);
    replace(prefix + "self_attn.v_proj.weight", layer.v, false);
    replace(prefix + "self_attn.o_proj.weight", layer.o, false);
    replace(prefix + "mlp.gate_proj.weight", layer.gate, false);
    replace(prefix + "mlp.up_proj.weight", layer.up, false);
    replace(prefix + "mlp.down_proj.weight", layer.down, false);
  }
  if (model.weights().has_blocks()) oracle.RoundInputs();
}

// At a budget of 1 a document of 2,500 tokens is read as a dense forward in float64 reads it, which
// rounds what it multiplies as the engine does. A value in the middle of two steps is rounded to
// either, which moves all logits after it (exact_mode_test): so some rows are near, one is nearer.
class GgufOracleTest : public GgufTypeTest {};

TEST_P(GgufOracleTest, ExactModeIsTheDenseOracle) {
  const TempFolder folder;
  const std::string text = InventedText(6'000, 100);
  IndexToAsk(folder.path() + "/store", path(), text);
  auto engine = Engine::Create(InStore(folder, path()));
  auto opened = (*engine)->Open("");
  ASSERT_TRUE(opened.ok());
  auto& session = static_cast<DocumentSession&>(**opened);
  const auto model = Load(path());
  testing::DenseOracle oracle(TinyModel(), "f16");
  UseWeights(*model, oracle);
  oracle.OnlyLogits();
  oracle.Append(model->EncodeDocument(text)->ids);
  std::vector<int32_t> next = *model->EncodeQuestion(InventedText(30, 7));
  double nearest = INFINITY, furthest = 0;
  for (int step = 0; step < 4; ++step) {
    const auto logits = session.Step(next, 1, true, nullptr);
    ASSERT_TRUE(logits.ok());
    const std::vector<double> expected = oracle.Append(next);
    double sum = 0, squares = 0, largest = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      sum += expected[i], squares += expected[i] * expected[i];
      largest = std::max(largest, std::abs((*logits)[i] - expected[i]));
    }
    const double n = static_cast<double>(expected.size());
    const double error = largest / std::sqrt(squares / n - sum / n * (sum / n));
    nearest = std::min(nearest, error), furthest = std::max(furthest, error);
    const auto best = std::max_element(expected.begin(), expected.end()) - expected.begin();
    next = {static_cast<int32_t>(best)};
    EXPECT_EQ(std::max_element(logits->begin(), logits->end()) - logits->begin(), best);
  }
  RecordProperty("nearest", std::to_string(nearest));
  RecordProperty("furthest", std::to_string(furthest));
  std::printf("%s: %.1e to %.1e of the spread\n", GetParam().name, nearest, furthest);
  EXPECT_LT(nearest, 1e-3);
  EXPECT_LT(furthest, model->weights().has_blocks() ? 0.1 : 2e-3);
}

std::string CaseName(const ::testing::TestParamInfo<TypeCase>& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Types, GgufTypeTest, ::testing::ValuesIn(kTypes), CaseName);
INSTANTIATE_TEST_SUITE_P(Types, GgufAnswersTest,
                         ::testing::Values(kTypes[1], kTypes[4], kTypes[8], kTypes[9]), CaseName);
// Those that are tests/golden/tiny, which the oracle reads.
INSTANTIATE_TEST_SUITE_P(Types, GgufOracleTest,
                         ::testing::ValuesIn(std::begin(kTypes), std::end(kTypes) - 2), CaseName);

// The same weights in F32 give the same answers, whichever file they are in.
TEST(GgufModelTest, AnswersAsTheSafetensorsDo) {
  const std::string text = InventedText(7'000, 5);
  std::vector<std::string> exact, sparse;
  for (const std::string& model : {TinyModel(), GoldenPath("tiny-F32.gguf")}) {
    const TempFolder folder;
    auto engine = Engine::Create(InStore(folder, model));
    ASSERT_TRUE(engine.ok());
    ASSERT_TRUE((*engine)->Index(text, {}).ok());
    exact.push_back(Ask(**engine, 1).text);
    sparse.push_back(Ask(**engine, 0.2f).text);
  }
  EXPECT_EQ(exact[0], exact[1]);
  EXPECT_EQ(sparse[0], sparse[1]);
}

TEST(GgufModelTest, EndsThatAreNoWholeNumbersAreLeftOut) {
  const std::string good = ReadWholeFile(GoldenPath("tiny-F16.gguf"));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(good));
  const auto table = ParseGguf(bytes, "m.gguf", [](uint64_t, uint64_t) { return Status(); });
  ASSERT_TRUE(table.ok()) << table.status().message();
  testing::GgufWriter writer;
  for (const auto& [key, value] : table->keys) writer.Add(key, value);
  for (const auto& [name, tensor] : table->tensors) {
    const auto type = GgufTypeName(tensor.type) == "F32" ? TensorType::kF32 : TensorType::kF16;
    writer.AddTensor(name, type, tensor.shape,
                     std::string_view(good).substr(tensor.begin, tensor.end - tensor.begin));
  }
  const float ends[] = {3, 4.5f, 1e30f, -1e30f, NAN};
  const std::string_view items(reinterpret_cast<const char*>(ends), sizeof ends);
  writer.Add("tokenizer.ggml.eot_token_ids", GgufValue(GgufArray{GgufKind::kF32, 5, items}));
  const TempFolder folder;
  WriteWholeFile(folder.path() + "/m.gguf", writer.Finish());
  EXPECT_EQ(Load(folder.path() + "/m.gguf")->config().eos_ids, (std::vector<int32_t>{2, 3}));
}

TEST(GgufModelTest, RopeFrequenciesOfATensorAreLlama3s) {
  const auto ours = Load(GoldenPath("rope.gguf"));
  const std::string other = SourcePath("tests/golden/models/llama3_v4");
  const auto config = ParseConfig(ReadWholeFile(other + "/config.json"), "config.json");
  ASSERT_TRUE(config.ok());
  const std::vector<float> wanted = MakeRopeTable(config->rope, 1).frequencies;
  const std::vector<float> frequencies = MakeRopeTable(ours->config().rope, 1).frequencies;
  ASSERT_EQ(frequencies.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(frequencies[i], wanted[i], 1e-6 * wanted[i]);
  }
}

// ---- Parts, folders, identity

TEST(GgufModelTest, PartsOfASplitAreOneModel) {
  const auto whole = Load(GoldenPath("tiny-Q8_0.gguf"));
  for (const char* part : {"split-00001-of-00003.gguf", "split-00003-of-00003.gguf"}) {
    const auto split = Load(GoldenPath(part));
    EXPECT_EQ(split->fingerprint(), whole->fingerprint());
  }
}

TEST(GgufModelTest, TheFingerprintIsOfTheContent) {
  const TempFolder folder;
  const std::string copy = folder.path() + "/other-name.gguf";
  std::string bytes = ReadWholeFile(GoldenPath("tiny-Q8_0.gguf"));
  WriteWholeFile(copy, bytes);
  const auto model = Load(GoldenPath("tiny-Q8_0.gguf"));
  EXPECT_EQ(Load(copy)->fingerprint(), model->fingerprint());
  EXPECT_EQ(Load(copy, {.io = Io::kPread})->fingerprint(), model->fingerprint());
  bytes[bytes.size() - 300] ^= 1;  // in a matrix
  WriteWholeFile(copy, bytes);
  EXPECT_NE(Load(copy)->fingerprint(), model->fingerprint());
  EXPECT_NE(Load(GoldenPath("tiny-Q4_0.gguf"))->fingerprint(), model->fingerprint());
}

TEST(GgufModelTest, BlocksArePackedOnceAndNotRoundedAgain) {
  const TempFolder folder;
  const std::string store = folder.path() + "/store";
  ASSERT_TRUE(LockStore(Env::Default(), store).ok());
  const std::string path = GoldenPath("tiny-Q5_1.gguf");
  const auto first = Load(path, {.store = store}), again = Load(path, {.store = store});
  EXPECT_GT(first->weights().packed()->quantised(), 0u);
  EXPECT_EQ(again->weights().packed()->quantised(), 0u);
  const auto q4 = Load(path, {.weights = WeightsType::kQ4});
  EXPECT_EQ(q4->weights().layer(0).down.packed.type, PackedType::kQ8Min);
  EXPECT_EQ(ValuesOf(q4->weights().layer(0).down), ValuesOf(first->weights().layer(0).down));
}

TEST(GgufModelTest, AFolderWithOneModelIsThatModel) {
  const TempFolder folder;
  for (int part = 1; part <= 3; ++part) {
    const std::string name = "split-0000" + std::to_string(part) + "-of-00003.gguf";
    fs::copy(GoldenPath(name), folder.path() + "/" + name);
  }
  EXPECT_EQ(Load(folder.path())->fingerprint(), Load(GoldenPath("tiny-Q8_0.gguf"))->fingerprint());
  fs::copy(GoldenPath("tiny-Q4_0.gguf"), folder.path() + "/other.gguf");
  const Status status = Model::Load(Env::Default(), folder.path()).status();
  EXPECT_EQ(status.code(), Code::kAmbiguous);
  EXPECT_NE(status.message().find("other.gguf"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("split-00001-of-00003.gguf"), std::string::npos);
}

TEST(GgufModelTest, NamesOfParts) {
  EXPECT_EQ(GgufParts("a/m-00002-of-00003.gguf"),
            (std::vector<std::string>{"a/m-00001-of-00003.gguf", "a/m-00002-of-00003.gguf",
                                      "a/m-00003-of-00003.gguf"}));
  for (const std::string name :
       {"m.gguf", "m-00004-of-00003.gguf", "m-00000-of-00003.gguf", "m-0x001-of-00003.gguf",
        "m-00001-of-00003", "blob", "m-00001-of-99999.gguf", "-00001-of-00003.gguf"}) {
    EXPECT_EQ(GgufParts(name), std::vector<std::string>{name});
  }
}

// ---- What is refused

// A golden file with bytes replaced by as many others.
struct Change {
  std::string what, from, to;
  Code code;
  std::vector<std::string> words;
};

template <typename T>
std::string Bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

TEST(GgufModelTest, WhatItDoesNotRunIsRefusedByName) {
  const std::string architecture = Bytes(uint32_t{8}) + Bytes(uint64_t{5}) + "llama";
  const Change changes[] = {
      {"architecture",
       "general.architecture" + architecture,
       "general.architecture" + Bytes(uint32_t{8}) + Bytes(uint64_t{5}) + "mamba",
       Code::kUnsupportedModel,
       {"general.architecture", "\"mamba\"", "\"llama\""}},
      {"no architecture",
       "general.architecture",
       "general.architectura",
       Code::kMalformedModel,
       {"general.architecture", "missing"}},
      {"another tokenizer",
       "tokenizer.ggml.model" + architecture,
       "tokenizer.ggml.model" + Bytes(uint32_t{8}) + Bytes(uint64_t{5}) + "gpt-2",
       Code::kUnsupportedModel,
       {"tokenizer.ggml.model", "gpt-2", "llama"}},
      {"a required key",
       "llama.embedding_length",
       "llama.embedding_lengtx",
       Code::kMalformedModel,
       {"llama.embedding_length", "missing"}},
      {"a tensor's name",
       "blk.1.ffn_up.weight",
       "blk.1.ffn_ux.weight",
       Code::kMalformedModel,
       {"blk.1.ffn_up.weight", "missing"}},
      {"heads",
       "llama.attention.head_count" + Bytes(uint32_t{4}) + Bytes(uint32_t{4}),
       "llama.attention.head_count" + Bytes(uint32_t{4}) + Bytes(uint32_t{2}),
       Code::kMalformedModel,
       {"attn_", "its keys"}},
      {"rotary dimensions",
       "llama.rope.dimension_count" + Bytes(uint32_t{4}) + Bytes(uint32_t{16}),
       "llama.rope.dimension_count" + Bytes(uint32_t{4}) + Bytes(uint32_t{8}),
       Code::kUnsupportedModel,
       {"llama.rope.dimension_count", "0.5"}},
  };
  const TempFolder folder;
  const std::string path = folder.path() + "/m.gguf";
  const std::string good = ReadWholeFile(GoldenPath("tiny-F16.gguf"));
  for (const Change& change : changes) {
    std::string bytes = good;
    const size_t at = bytes.find(change.from);
    ASSERT_NE(at, std::string::npos) << change.what;
    ASSERT_EQ(change.from.size(), change.to.size()) << change.what;
    WriteWholeFile(path, bytes.replace(at, change.from.size(), change.to));
    const Status status = Model::Load(Env::Default(), path).status();
    EXPECT_EQ(status.code(), change.code) << change.what << ": " << status.message();
    for (const std::string& word : change.words) {
      EXPECT_NE(status.message().find(word), std::string::npos)
          << change.what << ": " << status.message() << " lacks " << word;
    }
    EXPECT_NE(status.message().find("m.gguf"), std::string::npos) << status.message();
  }
}

// A type is changed in the file, to one whose blocks are other ones: zeros stand before the tensors
// behind it, so that these are where they should be.
TEST(GgufModelTest, ATypeThatIsNotSupportedIsNamed) {
  const TempFolder folder;
  const std::string path = folder.path() + "/m.gguf", name = "blk.0.ffn_down.weight";
  const std::string good = ReadWholeFile(GoldenPath("k.gguf"));
  const auto parse = [&path](const std::string& bytes) {
    return ParseGguf(std::as_bytes(std::span(bytes)), path,
                     [](uint64_t, uint64_t) { return Status(); });
  };
  const auto table = parse(good);
  ASSERT_TRUE(table.ok());
  const GgufTensor whole = table->tensors.at(name);
  for (const uint32_t type : {16, 17, 18, 19, 21, 22, 29, 34, 35}) {
    std::string bytes = good;
    const size_t at = bytes.find(name) + name.size() + 4 + 2 * 8;
    ASSERT_EQ(bytes[at], 14);  // Q6_K, 210 bytes for 256 values
    bytes[at] = static_cast<char>(type);
    const uint64_t begin = whole.begin, old_bytes = whole.end - whole.begin;
    uint64_t data = good.size();  // where the first tensor begins
    for (const auto& [other, tensor] : table->tensors) data = std::min(data, tensor.begin);
    const uint64_t block =
        std::map<uint32_t, uint64_t>{{16, 66}, {17, 74}, {18, 98}, {19, 50}, {21, 110},
                                     {22, 82}, {29, 56}, {34, 54}, {35, 66}}
            .at(type);
    const uint64_t new_bytes = old_bytes / 210 * block;
    bytes.erase(begin, old_bytes - new_bytes);
    for (const auto& [other, tensor] : table->tensors) {  // those behind it come nearer
      if (tensor.begin <= begin) continue;
      const size_t offset = bytes.find(other) + other.size() + 4 + tensor.shape.size() * 8 + 4;
      const uint64_t moved = tensor.begin - data - (old_bytes - new_bytes);
      std::memcpy(bytes.data() + offset, &moved, sizeof moved);
    }
    ASSERT_TRUE(parse(bytes).ok()) << parse(bytes).status().message();
    WriteWholeFile(path, bytes);
    const Status status = Model::Load(Env::Default(), path).status();
    EXPECT_EQ(status.code(), Code::kUnsupportedModel);
    for (const std::string& word :
         {name, GgufTypeName(type), std::string("IQ4_NL"), std::string("Quantise the model anew"),
          std::string("Q4_K_M")}) {
      EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
    }
  }
}

TEST(GgufModelTest, MissingPartsAndStrangersAreNamed) {
  const TempFolder folder;
  const std::string first = folder.path() + "/split-00001-of-00003.gguf";
  for (int part = 1; part <= 3; ++part) {
    const std::string name = "split-0000" + std::to_string(part) + "-of-00003.gguf";
    fs::copy(GoldenPath(name), folder.path() + "/" + name);
  }
  const std::string second = folder.path() + "/split-00002-of-00003.gguf";
  fs::rename(second, folder.path() + "/gone");
  Status status = Model::Load(Env::Default(), first).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find(second), std::string::npos) << status.message();
  fs::copy(GoldenPath("split-00003-of-00003.gguf"), second);
  status = Model::Load(Env::Default(), first).status();
  EXPECT_EQ(status.code(), Code::kMalformedModel);
  EXPECT_NE(status.message().find("part 3 of 3, but it is part 2"), std::string::npos)
      << status.message();
  // One part alone, under a name that does not say so.
  const std::string alone = folder.path() + "/alone.gguf";
  fs::copy(GoldenPath("split-00001-of-00003.gguf"), alone);
  EXPECT_EQ(Model::Load(Env::Default(), alone).status().code(), Code::kMalformedModel);
}

// ---- Names of Ollama's

class OllamaTest : public ::testing::Test {
 protected:
  OllamaTest() {
    fs::create_directories(models_ + "/blobs");
    fs::copy(GoldenPath("tiny-Q8_0.gguf"), Blob());
    Manifest("registry.ollama.ai/library/tiny/1b", Layers());
  }
  std::string Blob() const { return models_ + "/blobs/sha256-" + std::string(64, 'a'); }
  static std::string Layer(const std::string& type, const std::string& digest) {
    return "{\"mediaType\":\"application/vnd.ollama.image." + type + "\",\"digest\":\"" + digest +
           "\",\"size\":1}";
  }
  static std::string Layers(const std::string& digest = "sha256:" + std::string(64, 'a')) {
    return "{\"schemaVersion\":2,\"layers\":[" + Layer("template", "sha256:0") + "," +
           Layer("model", digest) + "]}";
  }
  void Manifest(const std::string& name, const std::string& json) {
    const std::string path = models_ + "/manifests/" + name;
    fs::create_directories(fs::path(path).parent_path());
    WriteWholeFile(path, json);
  }
  Status Find(const std::string& name) {
    return FindOllamaModel(Env::Default(), models_, name).status();
  }

  const TempFolder folder_;
  const std::string models_ = folder_.path() + "/models";
};

TEST_F(OllamaTest, NamesLeadToBlobs) {
  Manifest("registry.ollama.ai/library/tiny/latest", Layers());
  Manifest("registry.ollama.ai/someone/tiny/q8", Layers());
  Manifest("hf.co/someone/tiny-GGUF/Q8_0", Layers());
  for (const char* name : {"tiny", "tiny:1b", "library/tiny:1b", "someone/tiny:q8",
                           "registry.ollama.ai/someone/tiny:q8", "hf.co/someone/tiny-GGUF:Q8_0"}) {
    EXPECT_TRUE(IsOllamaName(name)) << name;
    const auto path = FindOllamaModel(Env::Default(), models_, name);
    ASSERT_TRUE(path.ok()) << path.status().message();
    EXPECT_EQ(*path, Blob());
  }
  for (const char* name : {"", "/models/tiny", "../tiny", "tiny:", ":1b", "a/b/c/d", "a//b",
                           "./tiny", "tiny/..", "ti ny", "tiny:1b:2", "a/.hidden"}) {
    EXPECT_FALSE(IsOllamaName(name)) << name;
  }
}

TEST_F(OllamaTest, AnEngineTakesThem) {
  EngineOptions options = InStore(folder_, "tiny:1b");
  options.ollama_models = models_;
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok());
  const auto report = (*engine)->Index(InventedText(700, 5), {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_FALSE(Ask(**engine, 1).text.empty());
  // The document knows the blob: who asks need not know the name.
  auto asker = Engine::Create({.store = options.store});
  EXPECT_EQ(Ask(**asker, 1).text, Ask(**engine, 1).text);

  options.model = "tiny:7b";
  const Status status =
      std::move(Engine::Create(options)).value()->Index(InventedText(700, 5), {}).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.param(), "model");
  EXPECT_NE(status.message().find("manifests/registry.ollama.ai/library/tiny/7b"),
            std::string::npos)
      << status.message();
}

TEST_F(OllamaTest, WrongManifestsAreNamed) {
  const std::pair<std::string, Code> cases[] = {
      {"", Code::kMalformedModel},
      {"[]", Code::kMalformedModel},
      {"{\"layers\":[{}]}", Code::kMalformedModel},
      {"{\"layers\":[]}", Code::kMalformedModel},
      {Layers("sha256:../../etc/passwd"), Code::kMalformedModel},
      {Layers("sha256:" + std::string(63, 'a') + "/"), Code::kMalformedModel},
      {Layers("sha512:" + std::string(64, 'a')), Code::kMalformedModel},
      {Layers("sha256:" + std::string(64, 'b')), Code::kNotFound},
      {"{\"layers\":[" + Layer("model", "sha256:" + std::string(64, 'a')) + "," +
           Layer("adapter", "sha256:" + std::string(64, 'a')) + "]}",
       Code::kUnsupportedModel},
      {"{\"layers\":[" + Layer("model", "sha256:" + std::string(64, 'a')) + "," +
           Layer("model", "sha256:" + std::string(64, 'a')) + "]}",
       Code::kUnsupportedModel},
  };
  for (const auto& [json, code] : cases) {
    Manifest("registry.ollama.ai/library/tiny/bad", json);
    const Status status = Find("tiny:bad");
    EXPECT_EQ(status.code(), code) << json << ": " << status.message();
    EXPECT_NE(status.message().find("library/tiny/bad"), std::string::npos) << status.message();
  }
}

TEST(GgufModelTest, WhatIsNoModelIsNamed) {
  const TempFolder folder;
  const std::string path = folder.path() + "/m.gguf";
  const auto code = [&] { return Model::Load(Env::Default(), path).status().code(); };
  EXPECT_EQ(code(), Code::kNotFound);
  WriteWholeFile(path, "no");
  EXPECT_EQ(code(), Code::kMalformedModel);
  WriteWholeFile(path, ReadWholeFile(GoldenPath("tiny-Q4_0.gguf")).substr(0, 30'000));
  EXPECT_EQ(code(), Code::kTruncated);
  EXPECT_EQ(Model::Load(Env::Default(), folder.path() + "/none").status().code(), Code::kNotFound);
}

// ---- Architectures: heads of files by PyPI's gguf, with the tensors that architectures.json has.

const Json& Heads() {
  static const Json* const heads = [] {
    auto parsed = ParseJson(ReadWholeFile(GoldenPath("heads.json")));
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    return new Json(std::move(parsed).value());
  }();
  return *heads;
}

std::vector<std::string> HeadNames() {
  std::vector<std::string> names;
  for (const auto& [name, unused] : *Heads().object()) names.push_back(name);
  return names;
}

std::string Underscored(std::string name) {
  std::ranges::replace(name, ' ', '_');
  return name;
}

// The head and the tensors that it tells of, as llama.cpp's converter stores them.
std::string WholeFile(const std::string& name) {
  const Json& head = *Heads().Find(name);
  const Json& config = *head.Find("config");
  const bool is_permuted = *head.Find("heads_are_permuted")->boolean();
  const bool plus_one = *head.Find("norms_plus_one")->boolean();
  const auto dim = static_cast<uint64_t>(*config.Find("head_dim")->integer());
  std::string file = ReadWholeFile(GoldenPath(Underscored(name) + ".head"));
  file.resize(*head.Find("bytes")->unsigned_integer());
  for (const auto& [tensor, place] : *head.Find("places")->object()) {
    std::vector<uint64_t> shape;
    for (const Json& size : *head.Find("tensors")->Find(tensor)->array()) {
      shape.push_back(*size.unsigned_integer());
    }
    const bool is_turned = is_permuted && (tensor.find("q_proj") != std::string::npos ||
                                           tensor.find("k_proj") != std::string::npos);
    const uint64_t cols = shape.size() > 1 ? shape[1] : 1;
    for (uint64_t i = 0; i < shape[0] * cols; ++i) {
      const uint64_t row = i / cols, in_head = row % dim;
      const uint64_t from = is_turned ? row - in_head + in_head % 2 * (dim / 2) + in_head / 2 : row;
      const bool adds_one = plus_one && tensor.ends_with("norm.weight");
      const float value =
          testing::InventedWeight(tensor, shape, plus_one ? 0.0f : 1.0f, from * cols + i % cols) +
          (adds_one ? 1.0f : 0.0f);
      const uint64_t at = *place.unsigned_integer() + i * sizeof value;
      std::memcpy(file.data() + at, &value, sizeof value);
    }
  }
  return file;
}

class GgufArchitectureTest : public ::testing::TestWithParam<std::string> {};

// The same numbers as the folder, bit for bit.
TEST_P(GgufArchitectureTest, IsTheFolderItWasMadeFrom) {
  const testing::TempFolder folder, gguf, one, other;
  testing::WriteInventedModel(*Heads().Find(GetParam()), folder.path());
  testing::WriteWholeFile(gguf.path() + "/model.gguf", WholeFile(GetParam()));
  std::vector<int32_t> tokens = {1};
  for (int i = 1; i < 2200; ++i) tokens.push_back((7 * i * i + 13 * i) % 380 + 3);
  std::vector<std::vector<float>> logits;
  for (const auto& [path, store] : {std::pair(folder.path(), one.path()),
                                    std::pair(gguf.path() + "/model.gguf", other.path())}) {
    const auto indexed = testing::IndexTokens(path, {tokens.begin(), tokens.begin() + 2150}, store);
    auto session = DocumentSession::Create(indexed.document, indexed.model, *DefaultBackend(),
                                           std::make_shared<ThreadPool>(2), 0);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const auto last = (*session)->Step(std::span(tokens).subspan(2150), 0.3, true, nullptr);
    ASSERT_TRUE(last.ok()) << last.status().message();
    logits.emplace_back(last->begin(), last->end());
  }
  EXPECT_EQ(logits[0], logits[1]);
}

INSTANTIATE_TEST_SUITE_P(All, GgufArchitectureTest, ::testing::ValuesIn(HeadNames()),
                         [](const auto& test) { return Underscored(test.param); });

}  // namespace
}  // namespace lectern
