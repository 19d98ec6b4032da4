// LoRA adapters beside a model: logits of transformers with peft (tests/golden/adapter), both
// formats, refusals, and documents that remember their adapter.
#include "engine/model/adapter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>

#include "engine/indexing/cut_parts.h"
#include "engine/requests/report_json.h"
#include "tests/engine/gguf_writer.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::GgufWriter;
using testing::IndexTokens;
using testing::InventedText;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

constexpr size_t kNumIds = 32, kNumLogits = 8, kTinyVocab = 400;

std::string AdapterFile(const std::string& name) { return SourcePath("tests/golden/adapter/" + name); }
std::string TinyGguf() { return SourcePath("tests/golden/gguf/tiny-F32.gguf"); }

// The largest difference between the golden's logits and those of a model with an adapter.
double LogitError(const std::string& model, const std::string& adapter, const std::string& golden) {
  const std::string bytes = ReadWholeFile(AdapterFile(golden));
  std::vector<int32_t> ids(kNumIds);
  std::vector<float> expected(kNumLogits * kTinyVocab);
  EXPECT_EQ(bytes.size(), ids.size() * 4 + expected.size() * 4);
  std::memcpy(ids.data(), bytes.data(), ids.size() * 4);
  std::memcpy(expected.data(), bytes.data() + ids.size() * 4, expected.size() * 4);
  const TempFolder folder;
  const size_t num_context = kNumIds - kNumLogits;
  const auto indexed = IndexTokens(model, {ids.begin(), ids.begin() + num_context}, folder.path(),
                                   {.adapter = adapter});
  auto session = DocumentSession::Create(indexed.document, indexed.model, *DefaultBackend(),
                                         std::make_shared<ThreadPool>(2), 0);
  EXPECT_TRUE(session.ok()) << session.status().message();
  double worst = 0;
  for (size_t i = 0; i < kNumLogits; ++i) {
    const auto logits = (*session)->Step({&ids[num_context + i], 1}, 1, true, nullptr);
    EXPECT_TRUE(logits.ok());
    for (size_t id = 0; id < kTinyVocab; ++id) {
      worst = std::max(worst, std::abs(double{(*logits)[id]} - expected[i * kTinyVocab + id]));
    }
  }
  return worst;
}

// The logits' standard deviation is above 2.
constexpr double kTolerance = 2e-3;

TEST(AdapterTest, LogitsAreThoseOfTransformersWithPeft) {
  EXPECT_LE(LogitError(TinyModel(), AdapterFile("lora"), "lora.bin"), kTolerance);
  EXPECT_LE(LogitError(TinyModel(), AdapterFile("rslora"), "rslora.bin"), kTolerance);
  EXPECT_GE(LogitError(TinyModel(), "", "lora.bin"), 1);
}

// Both formats of the adapter beside both formats of the model, whose queries and keys have their
// rows in other orders.
TEST(AdapterTest, FormatsOfAdapterAndModelMayDiffer) {
  EXPECT_LE(LogitError(TinyModel(), AdapterFile("lora.gguf"), "lora.bin"), kTolerance);
  EXPECT_LE(LogitError(TinyGguf(), AdapterFile("lora"), "lora.bin"), kTolerance);
  EXPECT_LE(LogitError(TinyGguf(), AdapterFile("lora.gguf"), "lora.bin"), kTolerance);
  EXPECT_LE(LogitError(TinyGguf(), AdapterFile("rslora/adapter_model.safetensors"), "rslora.bin"),
            kTolerance);
}

// A pass over many tokens, whose items go to several threads, adds what passes over one do.
TEST(AdapterTest, ManyTokensAreAsOne) {
  ModelOptions options;
  options.adapter = AdapterFile("lora");
  const auto model = Model::Load(Env::Default(), TinyModel(), options);
  ASSERT_TRUE(model.ok());
  ThreadPool threads(3);
  const Transformer transformer(**model, *DefaultBackend(), threads);
  constexpr size_t kTokens = 150;
  Activations all((*model)->config(), kTokens, 3), one((*model)->config(), 1, 3);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < kTokens; ++i) ids.push_back(static_cast<int32_t>(3 + i * 7 % 390));
  transformer.Embed(ids, 0, all);
  ASSERT_TRUE(transformer.Project(0, kTokens, all).ok());
  ASSERT_TRUE(transformer.AddMlp(0, kTokens, all).ok());
  const size_t hidden = (*model)->config().hidden_size;
  for (const size_t t : {0u, 31u, 32u, 149u}) {
    transformer.Embed({&ids[t], 1}, t, one);
    ASSERT_TRUE(transformer.Project(0, 1, one).ok());
    ASSERT_TRUE(transformer.AddMlp(0, 1, one).ok());
    for (size_t i = 0; i < hidden; ++i) {
      EXPECT_NEAR(all.residual[t * hidden + i], one.residual[i], 1e-4);
    }
  }
}

TEST(AdapterTest, IsPartOfTheFingerprintWhateverItsFormat) {
  const auto fingerprint = [](const std::string& adapter) {
    ModelOptions options;
    options.adapter = adapter;
    const auto model = Model::Load(Env::Default(), TinyModel(), options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return ToHex((*model)->fingerprint());
  };
  const std::string none = fingerprint(""), lora = fingerprint(AdapterFile("lora"));
  EXPECT_NE(none, lora);
  EXPECT_EQ(lora, fingerprint(AdapterFile("lora.gguf")));
  EXPECT_NE(lora, fingerprint(AdapterFile("rslora")));
}

// --- refusals ------------------------------------------------------------------------------------

// A copy of the golden adapter that a test spoils.
class AdapterFilesTest : public ::testing::Test {
 protected:
  AdapterFilesTest() {
    std::filesystem::copy(AdapterFile("lora"), folder_.path(), std::filesystem::copy_options::recursive);
  }
  // Replaces a text once in adapter_config.json.
  void Change(const std::string& from, const std::string& to) {
    const std::string path = folder_.path() + "/adapter_config.json";
    std::string json = ReadWholeFile(path);
    const size_t at = json.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    WriteWholeFile(path, json.replace(at, from.size(), to));
  }
  Status Load(const std::string& path = "") const {
    ModelOptions options;
    options.adapter = path.empty() ? folder_.path() : path;
    return Model::Load(Env::Default(), TinyModel(), options).status();
  }
  void ExpectRefused(Code code, const std::string& named, const std::string& path = "") const {
    const Status status = Load(path);
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
  }
  const TempFolder folder_;
};

TEST_F(AdapterFilesTest, MoreThanLoraIsRefusedByName) {
  const std::string path = folder_.path() + "/adapter_config.json", json = ReadWholeFile(path);
  for (const auto& [from, to, named] :
       {std::tuple("\"use_dora\": false", "\"use_dora\": true", "use_dora"),
        std::tuple("\"peft_type\": \"LORA\"", "\"peft_type\": \"IA3\"", "IA3"),
        std::tuple("\"bias\": \"none\"", "\"bias\": \"all\"", "bias"),
        std::tuple("\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]",
                   "modules_to_save"),
        std::tuple("\"lora_bias\": false", "\"lora_bias\": true", "lora_bias"),
        std::tuple("\"layer_replication\": null", "\"layer_replication\": [[0, 1]]",
                   "layer_replication"),
        std::tuple("\"fan_in_fan_out\": false", "\"fan_in_fan_out\": true", "fan_in_fan_out")}) {
    Change(from, to);
    ExpectRefused(Code::kUnsupportedModel, named);
    WriteWholeFile(path, json);
  }
  EXPECT_TRUE(Load().ok());
}

// PiSSA and its like start from a pair taken out of the model's matrix, and change that matrix.
TEST_F(AdapterFilesTest, PairsBesideAChangedModelAreRefused) {
  const std::string path = folder_.path() + "/adapter_config.json", json = ReadWholeFile(path);
  for (const char* init : {"pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga"}) {
    Change("\"init_lora_weights\": true", "\"init_lora_weights\": \"" + std::string(init) + "\"");
    ExpectRefused(Code::kUnsupportedModel, init);
    WriteWholeFile(path, json);
  }
  for (const char* init : {"false", "null", "\"gaussian\"", "\"eva\"", "\"orthogonal\""}) {
    Change("\"init_lora_weights\": true", "\"init_lora_weights\": " + std::string(init));
    EXPECT_TRUE(Load().ok()) << init;
    WriteWholeFile(path, json);
  }
}

// Scales of two layers' queries and of the first layer's values, which are 2 without a pattern:
// alpha / 4 with alphas as get_pattern_key of peft 0.21.2 finds them.
TEST_F(AdapterFilesTest, AlphasOfModulesAreThoseOfPeft) {
  const auto model = Model::Load(Env::Default(), TinyModel(), {});
  ASSERT_TRUE(model.ok());
  struct Case {
    const char* patterns;
    float query0, query1, value0;
  };
  for (const Case& c :
       {Case{"{\"q_proj\": 16}", 4, 4, 2},
        Case{"{\"model.layers.0.self_attn.q_proj\": 16}", 4, 2, 2},
        Case{"{\"layers.1.self_attn.q_proj\": 16}", 2, 4, 2},
        Case{"{\"^model.layers.1.self_attn.q_proj\": 16}", 2, 4, 2},
        Case{"{\"^layers.1.self_attn.q_proj\": 16}", 2, 2, 2}, Case{"{\"proj\": 16}", 2, 2, 2},
        Case{"{\"self_attn\": 16}", 2, 2, 2}, Case{"{\"self_attn.[qv]_proj\": 0}", 0, 0, 0},
        Case{"{\"layers.0.self_attn.(q|v)_proj\": 4}", 1, 2, 1},
        Case{R"({".*\\.1\\..*q_proj": 4, "q_proj": 16, "v_proj": 12})", 4, 1, 3},
        Case{"null", 2, 2, 2}}) {
    Change("\"alpha_pattern\": {}", "\"alpha_pattern\": " + std::string(c.patterns));
    const auto adapter =
        Adapter::Load(Env::Default(), folder_.path(), (*model)->config(), Io::kMmap);
    ASSERT_TRUE(adapter.ok()) << c.patterns << adapter.status().message();
    EXPECT_EQ((*adapter)->layer(0).q.scale, c.query0) << c.patterns;
    EXPECT_EQ((*adapter)->layer(1).q.scale, c.query1) << c.patterns;
    EXPECT_EQ((*adapter)->layer(0).v.scale, c.value0) << c.patterns;
    Change("\"alpha_pattern\": " + std::string(c.patterns), "\"alpha_pattern\": {}");
  }
  for (const char* wrong : {"[1]", "{\"q_proj\": \"16\"}", "{\"q_proj\": null}"}) {
    Change("\"alpha_pattern\": {}", "\"alpha_pattern\": " + std::string(wrong));
    ExpectRefused(Code::kMalformedModel, "alpha_pattern");
    Change("\"alpha_pattern\": " + std::string(wrong), "\"alpha_pattern\": {}");
  }
  Change("\"alpha_pattern\": {}", "\"alpha_pattern\": {\"q_(proj\": 16}");
  ExpectRefused(Code::kUnsupportedModel, "alpha_pattern");
}

// PEFT divides alpha by the rank, whatever alpha is; llama.cpp takes a GGUF file's 0 for the
// scale 1.
TEST_F(AdapterFilesTest, AlphaOfZeroAddsNothing) {
  const auto model = Model::Load(Env::Default(), TinyModel(), {});
  ASSERT_TRUE(model.ok());
  Change("\"lora_alpha\": 8", "\"lora_alpha\": 0");
  const auto adapter = Adapter::Load(Env::Default(), folder_.path(), (*model)->config(), Io::kMmap);
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  EXPECT_EQ((*adapter)->layer(0).q.scale, 0);
  EXPECT_EQ((*adapter)->layer(1).down.scale, 0);
}

TEST_F(AdapterFilesTest, ARankThatIsTooLargeIsNamed) {
  constexpr uint64_t kRank = 4097;
  const auto model = Model::Load(Env::Default(), TinyModel(), {});
  ASSERT_TRUE(model.ok());
  const uint64_t hidden = (*model)->config().hidden_size;
  const uint64_t inner = (*model)->config().intermediate_size;
  GgufWriter writer;
  writer.Add("general.architecture", "llama");
  writer.Add("general.type", "adapter");
  writer.Add("adapter.type", "lora");
  writer.AddTensor("blk.0.ffn_up.weight.lora_a", TensorType::kF16, {kRank, hidden},
                   std::string(2 * kRank * hidden, '\0'));
  writer.AddTensor("blk.0.ffn_up.weight.lora_b", TensorType::kF16, {inner, kRank},
                   std::string(2 * kRank * inner, '\0'));
  const std::string path = folder_.path() + "/large.gguf";
  WriteWholeFile(path, writer.Finish());
  ExpectRefused(Code::kMalformedModel, "has the rank 4097; at most 4096", path);
}

TEST_F(AdapterFilesTest, MissingAndDamagedFilesAreNamed) {
  ExpectRefused(Code::kNotFound, "no-such", folder_.path() + "/no-such");
  const std::string tensors = folder_.path() + "/adapter_model.safetensors";
  const std::string bytes = ReadWholeFile(tensors);
  WriteWholeFile(tensors, bytes.substr(0, bytes.size() - 4));
  ExpectRefused(Code::kTruncated, "adapter_model.safetensors");
  WriteWholeFile(tensors, bytes);
  Change("\"lora_alpha\": 8", "\"lora_alpha\": null");
  ExpectRefused(Code::kMalformedModel, "lora_alpha");
  std::filesystem::remove(folder_.path() + "/adapter_config.json");
  ExpectRefused(Code::kNotFound, "adapter_config.json");
  ExpectRefused(Code::kUnsupportedModel, "it is no adapter", TinyGguf());
}

TEST_F(AdapterFilesTest, ItsOwnSettingsAreRead) {
  const std::string path = folder_.path() + "/lectern.json";
  for (const char* fine :
       {"{}", "{\"focus\":null}", "{\"focus\":\"off\",\"more\":1}", R"({"refusal":null})",
        R"({"refusal":{"text":"No.","threshold":0.5}})"}) {
    WriteWholeFile(path, fine);
    EXPECT_TRUE(Load().ok()) << fine;
  }
  for (const char* wrong :
       {"", "[", "{\"focus\":\"words\"}", "{\"focus\":true}", R"({"refusal":"No."})",
        R"({"refusal":{"text":"No."}})", R"({"refusal":{"text":"","threshold":0.5}})",
        R"({"refusal":{"text":"No.","threshold":0}})",
        R"({"refusal":{"text":"No.","threshold":2}})"}) {
    WriteWholeFile(path, wrong);
    ExpectRefused(Code::kMalformedModel, "lectern.json");
  }
}

// Only a model that reads with a focus is given parts that fill its positions.
TEST_F(AdapterFilesTest, PartsFillThePositionsOfAModelWithAFocus) {
  const auto most = [](const std::string& model, const std::string& adapter) {
    const auto loaded = Model::Load(Env::Default(), model, {.adapter = adapter});
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return loaded.ok() ? MostPartTokens(**loaded) : 0;
  };
  EXPECT_EQ(most(TinyModel(), ""), 4096u);  // of 32,768 positions
  EXPECT_EQ(most(TinyModel(), folder_.path()), 4096u);
  WriteWholeFile(folder_.path() + "/lectern.json", "{\"focus\":\"off\"}");
  EXPECT_EQ(most(TinyModel(), folder_.path()), 4096u);
  WriteWholeFile(folder_.path() + "/lectern.json", "{\"focus\":\"only\"}");
  EXPECT_EQ(most(TinyModel(), folder_.path()), 32768u);

  const TempFolder folder;
  const std::string larger = folder.path() + "/model";
  std::filesystem::copy(TinyModel(), larger);
  std::string config = ReadWholeFile(larger + "/config.json");
  config.replace(config.find("32768"), 5, "131072");
  WriteWholeFile(larger + "/config.json", config);
  EXPECT_EQ(most(larger, ""), 16384u);
}

// An adapter may ask for focused reading, which a question's own options go before.
TEST_F(AdapterFilesTest, QuestionsHaveTheFocusThatItAsksFor) {
  WriteWholeFile(folder_.path() + "/lectern.json", "{\"focus\":\"only\"}");
  const TempFolder store;
  const auto engine = std::move(Engine::Create({.store = store.path(),
                                                .model = TinyModel(),
                                                .num_threads = 2,
                                                .adapter = folder_.path()}))
                          .value();
  ASSERT_TRUE(engine->Index(InventedText(9000, 3), {}).ok());
  const auto rule = [&](const std::function<void(AskOptions&)>& change) {
    AskOptions options;
    options.max_tokens = 1;
    change(options);
    const auto answer = (*engine->Open(""))->Ask("Which quiet farmer crossed the river?", options);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer->kv.rule;
  };
  EXPECT_EQ(rule([](AskOptions&) {}), "words");
  EXPECT_EQ(rule([](AskOptions& o) { o.kv_budget = kAutoBudget; }), "words");
  EXPECT_EQ(rule([](AskOptions& o) { o.focus = "off"; }), "default");
  EXPECT_EQ(rule([](AskOptions& o) { o.kv_budget = 0.5f; }), "default");
  EXPECT_EQ(rule([](AskOptions& o) { o.kv_budget = 1; }), "exact");
  EXPECT_EQ(rule([](AskOptions& o) { o.rule = "cap"; }), "cap");
  EXPECT_EQ(rule([](AskOptions& o) { o.max_missed = 0.5; }), "default");
}

// One matrix has one pair, alone or joined: PEFT's model has modules of one kind or the other.
TEST_F(AdapterFilesTest, AMatrixThatIsAdaptedTwiceIsRefused) {
  const auto write = [&](const std::vector<std::pair<std::string, uint64_t>>& modules) {
    GgufWriter writer;
    writer.Add("general.architecture", "phi3");
    writer.Add("general.type", "adapter");
    writer.Add("adapter.type", "lora");
    writer.Add("adapter.lora.alpha", 0.0f);
    for (const auto& [name, rows] : modules) {
      const std::string tensor = "layers.0." + name + "_proj.weight.lora_";
      writer.AddTensor(tensor + "a", TensorType::kF32, {2, 32}, std::string(2 * 32 * 4, '\0'));
      writer.AddTensor(tensor + "b", TensorType::kF32, {rows, 2}, std::string(rows * 2 * 4, '\0'));
    }
    const std::string path = folder_.path() + "/a.gguf";
    WriteWholeFile(path, writer.Finish());
    return path;
  };
  const std::pair<std::string, uint64_t> query("self_attn.q", 64), key("self_attn.k", 32),
      value("self_attn.v", 32), joined("self_attn.qkv", 128), gate("mlp.gate", 64),
      up("mlp.up", 64), gate_up("mlp.gate_up", 128);
  EXPECT_TRUE(Load(write({joined, gate_up})).ok());
  const auto model = Model::Load(Env::Default(), TinyModel(), {});
  const auto adapter =
      Adapter::Load(Env::Default(), write({joined}), (*model)->config(), Io::kMmap);
  ASSERT_TRUE(adapter.ok());
  EXPECT_EQ((*adapter)->layer(0).v.scale, 1) << "as llama.cpp has it where alpha is 0";
  for (const auto& twice : {query, key, value}) {
    ExpectRefused(Code::kMalformedModel, "another pair", write({joined, twice}));
  }
  for (const auto& twice : {gate, up}) {
    ExpectRefused(Code::kMalformedModel, "another pair", write({gate_up, twice}));
  }
}

// GGUF adapters with one tensor, or one pair, of a kind that cannot be added.
TEST_F(AdapterFilesTest, OtherModelsAdaptersAreRefused) {
  const auto write = [&](const std::string& name, const std::vector<uint64_t>& a,
                         const std::vector<uint64_t>& b, bool has_b = true) {
    GgufWriter writer;
    writer.Add("general.architecture", "llama");
    writer.Add("general.type", "adapter");
    writer.Add("adapter.type", "lora");
    writer.Add("adapter.lora.alpha", 4.0f);
    writer.AddTensor(name + ".weight.lora_a", TensorType::kF32, a,
                     std::string(a[0] * a[1] * 4, '\0'));
    if (has_b) {
      writer.AddTensor(name + ".weight.lora_b", TensorType::kF32, b,
                       std::string(b[0] * b[1] * 4, '\0'));
    }
    const std::string path = folder_.path() + "/a.gguf";
    WriteWholeFile(path, writer.Finish());
    return path;
  };
  EXPECT_TRUE(Load(write("blk.0.attn_q", {4, 32}, {64, 4})).ok());
  ExpectRefused(Code::kMalformedModel, "another model", write("blk.0.attn_q", {4, 64}, {64, 4}));
  ExpectRefused(Code::kMalformedModel, "another model", write("blk.0.attn_q", {4, 32}, {32, 4}));
  ExpectRefused(Code::kMalformedModel, "another model", write("blk.0.attn_q", {4, 32}, {64, 8}));
  ExpectRefused(Code::kMalformedModel, "another model", write("blk.7.attn_q", {4, 32}, {64, 4}));
  ExpectRefused(Code::kMalformedModel, "other half",
                write("blk.0.attn_q", {4, 32}, {}, /*has_b=*/false));
  ExpectRefused(Code::kUnsupportedModel, "token_embd", write("token_embd", {4, 32}, {400, 4}));
}

// --- documents -----------------------------------------------------------------------------------

TEST(AdapterDocumentTest, IsAskedWithTheAdapterThatItWasIndexedWith) {
  const TempFolder store;
  const auto create = [&](const std::string& adapter) {
    return std::move(Engine::Create({.store = store.path(),
                                     .model = TinyModel(),
                                     .num_threads = 2,
                                     .adapter = adapter}))
        .value();
  };
  IndexOptions index;
  index.name = "with";
  const std::string text = InventedText(9000, 3);
  const auto with = create(AdapterFile("lora"))->Index(text, index);
  ASSERT_TRUE(with.ok()) << with.status().message();
  const std::string lora = std::filesystem::absolute(AdapterFile("lora")).generic_string();
  EXPECT_EQ(with->adapter, lora);
  index.name = "without";
  const auto without = create("")->Index(text, index);
  ASSERT_TRUE(without.ok());
  EXPECT_NE(with->document, without->document);

  const auto engine = create("");
  EXPECT_EQ(AdapterOf(*engine->Find("with")), lora);
  EXPECT_EQ(AdapterOf(*engine->Find("without")), "");
  AskOptions ask;
  ask.max_tokens = 4;
  for (const char* name : {"with", "without"}) {
    auto session = engine->Open(name);
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_TRUE((*session)->Ask("Which farmer?", ask).ok());
  }
  const auto wrong = create(AdapterFile("rslora"))->Open("with");
  EXPECT_EQ(wrong.status().code(), Code::kModelMismatch);
  EXPECT_NE(wrong.status().message().find("rslora"), std::string::npos) << wrong.status().message();
  EXPECT_NE(wrong.status().message().find("adapter/lora"), std::string::npos);
}

}  // namespace
}  // namespace lectern
