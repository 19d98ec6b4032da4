// Every architecture and every type of weights, as GGUF files, from indexing to an answer: at a
// budget of 1 the dense oracle's tokens, at a small one an answer with evidence. And what a GGUF
// file can hold besides: byte pairs, experts, more than the memory that it may take.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "engine/model/tokenizer/compose.h"
#include "tests/engine/bpe_cases.h"
#include "tests/engine/dense_oracle.h"
#include "tests/engine/invented_gguf.h"
#include "tests/engine/invented_model.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::DenseOracle;
using testing::GgufWriter;
using testing::IndexToAsk;
using testing::InventedText;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::WriteWholeFile;

Json ParsedFile(const std::string& path) {
  auto json = ParseJson(ReadWholeFile(SourcePath(path)));
  EXPECT_TRUE(json.ok()) << path << ": " << json.status().message();
  return std::move(json).value();
}

// A row of the table. Blocks of 256 need rows as wide.
struct Format {
  const char* architecture;  // of tests/golden/architectures.json
  TensorType type;
};
constexpr Format kFormats[] = {
    {"llama", TensorType::kF32},
    {"mistral", TensorType::kF32},
    {"qwen2", TensorType::kF32},
    {"qwen3", TensorType::kF32},
    {"gemma2", TensorType::kF32},
    {"gemma3", TensorType::kF32},
    {"phi3", TensorType::kF32},
    {"llama", TensorType::kF16},
    {"llama", TensorType::kBf16},
    {"llama", TensorType::kQ8_0},
    {"llama", TensorType::kQ4_0},
    {"llama", TensorType::kQ4_1},
    {"llama", TensorType::kQ5_0},
    {"llama", TensorType::kQ5_1},
    {"llama", TensorType::kQ4_K},
    {"llama", TensorType::kQ5_K},
    {"llama", TensorType::kQ6_K},
    {"mistral", TensorType::kQ4_0},
    {"qwen2", TensorType::kQ5_1},
    {"qwen3", TensorType::kQ5_K},
    {"gemma2", TensorType::kQ6_K},
    {"gemma3", TensorType::kQ8_0},
    {"phi3", TensorType::kQ4_K},
    {"granite", TensorType::kF32},
    {"olmo2", TensorType::kF32},
    {"olmo3", TensorType::kF32},
    {"smollm3", TensorType::kF32},
    {"glm", TensorType::kF32},
    {"glm4", TensorType::kF32},
    {"exaone4", TensorType::kF32},
    {"cohere", TensorType::kF32},
    {"cohere2", TensorType::kF32},
    {"granite", TensorType::kQ8_0},
    {"glm4", TensorType::kQ4_0},
    {"cohere2", TensorType::kQ6_K},
    {"olmo3", TensorType::kQ5_0},
    {"exaone4", TensorType::kQ4_K},
    {"llama", TensorType::kQ2_K},
    {"llama", TensorType::kQ3_K},
    {"llama", TensorType::kIQ4_NL},
    {"llama", TensorType::kIQ4_XS},
    {"llama", TensorType::kMXFP4},
    {"gemma3", TensorType::kQ3_K},
    {"qwen3", TensorType::kIQ4_XS},
    {"phi3", TensorType::kIQ4_NL},
    {"qwen2", TensorType::kMXFP4},
    {"qwen3", TensorType::kQ2_K},
    {"mixtral", TensorType::kF32},
    {"qwen2 moe", TensorType::kF32},
    {"qwen3 moe", TensorType::kF32},
    {"olmoe", TensorType::kF32},
    {"granite moe", TensorType::kF32},
    {"gpt oss clamped", TensorType::kF32},
    {"gpt oss clamped", TensorType::kMXFP4},
    {"mixtral", TensorType::kQ4_K},
    {"qwen3 moe", TensorType::kQ8_0},
    {"qwen2 moe", TensorType::kQ5_0},
    {"olmoe", TensorType::kMXFP4},
    {"granite moe", TensorType::kQ6_K},
};

// "layer_types" by which layers are windowed.
Json Layers(const std::vector<bool>& windowed) {
  Json::Array types;
  for (const bool is_windowed : windowed) {
    types.emplace_back(is_windowed ? "sliding_attention" : "full_attention");
  }
  return Json(std::move(types));
}

// Fields in which the files differ from the golden case: sizes that blocks fit into, and those that
// no key of GGUF tells.
Json::Object Fields(const std::string& architecture, TensorType type) {
  const bool is_wide = BlockValues(type) == 256;
  const bool is_gemma = architecture.starts_with("gemma");
  Json::Object fields;
  // Every fourth layer of these is full, or is not turned.
  const bool has_period = architecture == "olmo3" || architecture == "smollm3" ||
                          architecture == "exaone4" || architecture == "cohere2";
  fields["num_hidden_layers"] = Json(has_period ? 4 : is_wide && !is_gemma ? 1 : 2);
  fields["hidden_size"] = Json(is_wide ? 256 : 64);
  fields["intermediate_size"] = Json(is_wide ? 256 : 64);
  fields["head_dim"] = Json(is_wide ? 64 : 16);
  if (architecture.starts_with("qwen") && architecture.find("moe") != std::string::npos) {
    fields["moe_intermediate_size"] = Json(is_wide ? 256 : 64);
    if (architecture.starts_with("qwen2")) fields["shared_expert_intermediate_size"] = Json(64);
  }
  if (architecture.starts_with("gpt oss")) {
    fields["layer_types"] = Layers({true, false});
    fields["swiglu_limit"] = Json(7.0);
  }
  // As Mistral 0.2 and Phi-3-mini-128k: where all layers see windows only, there are no clusters.
  if (architecture == "mistral" || architecture == "phi3") fields["sliding_window"] = Json();
  if (is_gemma) fields["query_pre_attn_scalar"] = fields["head_dim"];
  if (architecture == "gemma2") fields["attn_logit_softcapping"] = Json(20.0);
  if (architecture == "gemma3") {
    fields["num_hidden_layers"] = Json(6);
    fields["sliding_window_pattern"] = Json(6);
  }
  return fields;
}

// A model in both forms, and what its matrices are worth.
class Files {
 public:
  Files(const std::string& architecture, TensorType type) : model_(Model(architecture, type)) {
    testing::WriteInventedModel(model_, folder_.path());
    GgufWriter writer;
    testing::AddInventedKeys(model_, writer);
    testing::AddTinyVocabulary(writer);
    worth_ = testing::AddInventedTensors(model_, type, writer);
    WriteWholeFile(gguf(), writer.Finish());
  }
  const std::string& folder() const { return folder_.path(); }  // in F32
  std::string gguf() const { return folder_.path() + "/model.gguf"; }
  const std::map<std::string, std::vector<double>>& worth() const { return worth_; }

  static const Json& Cases() {
    static const Json* const cases = new Json(ParsedFile("tests/golden/architectures.json"));
    return *cases;
  }

 private:
  static Json Model(const std::string& architecture, TensorType type) {
    Json::Object model = *Cases().Find(architecture)->object();
    model["gain"] = Json(8.0);
    return testing::WithFields(Json(std::move(model)), Fields(architecture, type));
  }

  const TempFolder folder_;
  const Json model_;
  std::map<std::string, std::vector<double>> worth_;
};

constexpr size_t kAnswerTokens = 6;

size_t Best(const std::vector<double>& logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// How far the second best is from the best, of the logits' spread.
double Lead(std::vector<double> logits) {
  double sum = 0, squares = 0;
  for (const double x : logits) sum += x, squares += x * x;
  const double n = static_cast<double>(logits.size());
  std::nth_element(logits.begin(), logits.begin() + 1, logits.end(), std::greater<>());
  return (logits[0] - logits[1]) / std::sqrt(squares / n - sum / n * (sum / n));
}

// The answer of a dense pass to `question`, and the smallest lead of a chosen token over the next.
struct DenseAnswer {
  std::vector<int32_t> ids;
  double lead = INFINITY;
};
DenseAnswer AnswerDensely(const Model& model, DenseOracle& oracle, const std::string& question) {
  DenseAnswer answer;
  const size_t num_document = oracle.size();
  std::vector<int32_t> next = *model.EncodeQuestion(question);
  while (answer.ids.size() < kAnswerTokens) {
    const std::vector<double> logits = oracle.Append(next);
    answer.lead = std::min(answer.lead, Lead(logits));
    next = {static_cast<int32_t>(Best(logits))};
    if (model.IsEndOfText(next[0])) break;
    answer.ids.push_back(next[0]);
  }
  oracle.Truncate(num_document);
  return answer;
}

std::string TextOf(const Model& model, const std::vector<int32_t>& ids) {
  TokenStream stream(model.tokenizer(), true);
  std::string text;
  for (const int32_t id : ids) text += stream.Push(id);
  return text + stream.Flush();
}

Result<Answer> Ask(Engine& engine, float kv_budget, const std::string& question,
                   uint32_t max_tokens = kAnswerTokens) {
  auto session = engine.Open("");
  if (!session.ok()) return session.status();
  AskOptions options;
  options.kv_budget = kv_budget;
  options.max_tokens = max_tokens;
  return (*session)->Ask(question, options);
}

class FormatsTest : public ::testing::TestWithParam<Format> {
 protected:
  const Files files_{GetParam().architecture, GetParam().type};
};

TEST_P(FormatsTest, IndexesAndAnswersAsDenseAttentionDoes) {
  const TempFolder store;
  const std::string text = InventedText(4200, 3);
  const IndexReport report = IndexToAsk(store.path(), files_.gguf(), text);
  auto engine = Engine::Create({.store = store.path(), .model = files_.gguf(), .num_threads = 2});
  ASSERT_TRUE(engine.ok()) << engine.status().message();

  const auto model = Model::Load(Env::Default(), files_.folder());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto document = (*model)->EncodeDocument(text);
  ASSERT_EQ(report.tokens, document->ids.size());
  ASSERT_GE(report.tokens, 2048u);
  DenseOracle oracle(files_.folder(), "f16");
  if (GetParam().type != TensorType::kF32) {
    for (const auto& [name, values] : files_.worth()) oracle.Replace(name, values);
  }
  const bool has_blocks = !PlainDtype(GetParam().type);
  if (has_blocks) oracle.RoundInputs();
  oracle.OnlyLogits();
  oracle.Append(document->ids);

  // A step whose two best are nearer than rounding moves them has no one answer. A value between
  // two steps of int8 is rounded to either, which moves logits by a few hundredths.
  const double least_lead = has_blocks ? 0.1 : 2e-3;
  DenseAnswer dense;
  std::string question;
  for (uint64_t seed = 1; dense.ids.size() < 2 || dense.lead < least_lead; ++seed) {
    ASSERT_LT(seed, 50u) << "no question has a clear answer";
    question = InventedText(20, seed);
    dense = AnswerDensely(**model, oracle, question);
  }
  const auto exact = Ask(**engine, 1, question);
  ASSERT_TRUE(exact.ok()) << exact.status().message();
  EXPECT_EQ(exact->answer_tokens, dense.ids.size());
  std::string wanted = TextOf(**model, dense.ids);
  // An answer has no white space at its end.
  while (!wanted.empty() && std::isspace(static_cast<unsigned char>(wanted.back()))) {
    wanted.pop_back();
  }
  EXPECT_EQ(exact->text, wanted);

  // Where a passage stands out, which it does not to every question of a model that learnt nothing.
  auto sparse = Ask(**engine, 0.25f, question, 1);
  for (uint64_t seed = 1; sparse.ok() && seed < 50; ++seed) {
    if (sparse->answer_tokens > 0 && !sparse->evidence.empty()) break;
    sparse = Ask(**engine, 0.25f, InventedText(20, seed), 1);
  }
  ASSERT_TRUE(sparse.ok()) << sparse.status().message();
  EXPECT_GT(sparse->answer_tokens, 0u);
  ASSERT_FALSE(sparse->evidence.empty());
  for (const Evidence& evidence : sparse->evidence) {
    EXPECT_LT(evidence.begin, evidence.end);
    EXPECT_LE(evidence.end, text.size());
    EXPECT_GE(evidence.mass, 0);  // words may choose a passage that got little attention
    EXPECT_LE(evidence.mass, 1);
  }
  EXPECT_LT(sparse->kv.read_fraction_prefill, 0.3);
  EXPECT_GT(sparse->kv.read_fraction_prefill, 0.1);
}

INSTANTIATE_TEST_SUITE_P(All, FormatsTest, ::testing::ValuesIn(kFormats), [](const auto& test) {
  std::string name = test.param.architecture + std::string("_") + TensorTypeName(test.param.type);
  std::ranges::replace(name, ' ', '_');
  return name;
});

// ---- Byte pairs

struct ByteFamily {
  const char* name;  // of tests/golden/bpe
  const char* pre;   // tokenizer.ggml.pre
  int64_t bos;       // -1: none is put before a text
};
constexpr ByteFamily kFamilies[] = {{"gpt2", "gpt-2", -1},    {"llama3", "llama-bpe", 1200},
                                {"qwen2", "qwen2", -1},   {"tekken", "tekken", 1},
                                {"smollm", "smollm", -1}, {"gpt_4o", "gpt-4o", -1}};

// A model with the vocabulary of `family`, as the file that is returned.
std::string BytePairModel(const ByteFamily& family, const std::string& folder) {
  Json::Object fields = Fields("qwen2", TensorType::kF16);
  fields["vocab_size"] = Json(1210);
  const Json model = testing::WithFields(*Files::Cases().Find("qwen2"), fields);
  GgufWriter writer;
  testing::AddInventedKeys(model, writer);
  testing::AddBytePairs(ParsedFile("tests/golden/bpe/" + std::string(family.name) + ".json"),
                        family.pre, writer);
  if (family.bos >= 0) {
    writer.Add("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(family.bos));
  }
  writer.Add("tokenizer.ggml.add_bos_token", family.bos >= 0);
  testing::AddInventedTensors(model, TensorType::kF16, writer);
  const std::string path = folder + "/" + family.name + ".gguf";
  WriteWholeFile(path, writer.Finish());
  return path;
}

class BytePairsTest : public ::testing::TestWithParam<ByteFamily> {};

// PyPI's tokenizers made the cases, from the tokenizer.json that the arrays are of.
TEST_P(BytePairsTest, OfAGgufFileAreThoseOfTokenizerJson) {
  const TempFolder folder;
  const auto model = Model::Load(Env::Default(), BytePairModel(GetParam(), folder.path()));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->tokenizer().bos_id(), GetParam().bos);
  const auto cases = ReadBpeCases(
      ReadWholeFile(SourcePath("tests/golden/bpe/" + std::string(GetParam().name) + ".cases")));
  ASSERT_GE(cases.size(), 300u);
  size_t compared = 0;
  for (const BpeCase& item : cases) {
    // A GGUF file does not say that text is brought into NFC, and llama.cpp does not do it.
    if (ComposedText(item.text).text() != item.text) continue;
    ++compared;
    const auto ours = (*model)->tokenizer().Encode(item.text);
    ASSERT_TRUE(ours.ok()) << ours.status().message();
    EXPECT_TRUE(SameTokens(*ours, item.tokens))
        << "wanted " << TokensText(item.tokens) << "\ngot    " << TokensText(*ours);
  }
  EXPECT_GE(compared, 150u);
}

INSTANTIATE_TEST_SUITE_P(Families, BytePairsTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(FormatsTest, BytePairsIndexAndAnswer) {
  const TempFolder folder;
  const std::string text = InventedText(4500, 3);
  auto engine = Engine::Create({.store = folder.path() + "/store",
                                .model = BytePairModel(kFamilies[2], folder.path()),
                                .num_threads = 2});
  const auto report = (*engine)->Index(text, {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GE(report->tokens, 2048u);
  for (const float budget : {1.0f, 0.25f}) {
    const auto answer = Ask(**engine, budget, "Which road?");
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_GT(answer->answer_tokens, 0u);
  }
}

// ---- Experts

Status LoadStatus(const std::string& path) { return Model::Load(Env::Default(), path).status(); }

void ExpectRefused(const Status& status, const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), Code::kUnsupportedModel) << status.message();
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos)
        << status.message() << " lacks " << word;
  }
}

// Loads the case `name` as a GGUF file of `writer`, behind the keys and tensors of the case.
Status LoadMoeGguf(const std::string& name, const std::function<void(GgufWriter&)>& change,
                   const Json::Object& fields = {}) {
  const TempFolder folder;
  const Json model = testing::WithFields(*Files::Cases().Find(name), fields);
  GgufWriter writer;
  testing::AddInventedKeys(model, writer);
  change(writer);
  testing::AddTinyVocabulary(writer);
  testing::AddInventedTensors(model, TensorType::kF32, writer);
  WriteWholeFile(folder.path() + "/m.gguf", writer.Finish());
  return LoadStatus(folder.path() + "/m.gguf");
}

// Loads the case `name` as a folder with other fields of config.json.
Status LoadMoeFolder(const std::string& name, const Json::Object& fields) {
  const TempFolder folder;
  Json::Object model = *Files::Cases().Find(name)->object();
  Json::Object config = *Files::Cases().Find(name)->Find("config")->object();
  for (const auto& [field, value] : fields) config[field] = value;
  model["config"] = Json(std::move(config));
  testing::WriteInventedModel(Json(std::move(model)), folder.path());
  return LoadStatus(folder.path());
}

void ExpectMalformed(const Status& status, const std::string& word) {
  EXPECT_EQ(status.code(), Code::kMalformedModel) << status.message();
  EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
}

TEST(FormatsTest, ExpertsThatDoNotFitAreRefusedByName) {
  ASSERT_TRUE(LoadMoeFolder("qwen3 moe", {}).ok());
  // More of a token than there are; none; more than a plan is made for.
  ExpectMalformed(LoadMoeFolder("qwen3 moe", {{"num_experts_per_tok", Json(9)}}),
                  "num_experts_per_tok");
  ExpectMalformed(LoadMoeFolder("qwen3 moe", {{"num_experts_per_tok", Json(0)}}),
                  "num_experts_per_tok");
  ExpectMalformed(LoadMoeFolder("mixtral", {{"num_local_experts", Json(0)}}),
                  "\"num_local_experts\"");
  ExpectMalformed(LoadMoeFolder("mixtral", {{"num_local_experts", Json(1 << 20)}}),
                  "\"num_local_experts\"");
  ExpectMalformed(LoadMoeFolder("mixtral", {{"num_local_experts", Json(4096)},
                                            {"num_hidden_layers", Json(1024)}}),
                  "4194304 experts");
  ExpectMalformed(LoadMoeFolder("qwen3 moe", {{"moe_intermediate_size", Json(0)}}),
                  "moe_intermediate_size");
  ExpectMalformed(LoadMoeFolder("qwen3 moe", {{"decoder_sparse_step", Json(0)}}),
                  "decoder_sparse_step");
  ExpectMalformed(LoadMoeFolder("qwen3 moe", {{"mlp_only_layers", Json("all")}}),
                  "mlp_only_layers");
  // Tensors of fewer or of more experts than config.json says, and of another width.
  ExpectMalformed(LoadMoeFolder("qwen3 moe", {{"num_experts", Json(9)}}), "mlp.experts.8");
  EXPECT_EQ(LoadMoeFolder("qwen3 moe", {{"num_experts", Json(7)}}).code(), Code::kMalformedModel);
  ExpectMalformed(LoadMoeFolder("qwen3 moe", {{"moe_intermediate_size", Json(32)}}), "wants");
  ExpectMalformed(LoadMoeFolder("granite moe", {{"num_local_experts", Json(5)}}),
                  "\"model.layers.0.block_sparse_moe.output_linear.weight\"");
  ExpectRefused(LoadMoeFolder("qwen3 moe", {{"use_sliding_window", Json(true)}}),
                {"use_sliding_window"});
  ExpectRefused(LoadMoeFolder("olmoe", {{"clip_qkv", Json(8.0)}}), {"clip_qkv"});
  // With no experts Qwen 3 MoE is dense, and its tensors would be others.
  EXPECT_EQ(LoadMoeFolder("qwen3 moe", {{"num_experts", Json(0)}}).code(), Code::kMalformedModel);
}

TEST(FormatsTest, ExpertsInGgufFilesThatDoNotFitAreRefusedByName) {
  const auto same = [](GgufWriter&) {};
  ASSERT_TRUE(LoadMoeGguf("mixtral", same).ok());
  const auto set = [](const char* key, uint32_t value) {
    return [=](GgufWriter& writer) { writer.Add(key, value); };
  };
  ExpectRefused(LoadMoeGguf("qwen3 moe", set("qwen3moe.expert_gating_func", 2)),
                {"expert_gating_func"});
  ExpectRefused(LoadMoeGguf("qwen3 moe", set("qwen3moe.leading_dense_block_count", 1)),
                {"leading_dense_block_count"});
  EXPECT_TRUE(LoadMoeGguf("qwen3 moe", set("qwen3moe.expert_gating_func", 1)).ok());
}

// Files of early 2024 have a tensor for each expert.
TEST(FormatsTest, ExpertsOfOldGgufFilesAreRead) {
  const TempFolder folder;
  const Json& model = *Files::Cases().Find("mixtral");
  std::string paths[2];
  for (const bool is_old : {false, true}) {
    GgufWriter writer;
    testing::AddInventedKeys(model, writer);
    testing::AddTinyVocabulary(writer);
    testing::AddInventedTensors(model, TensorType::kF32, writer, is_old);
    paths[is_old] = folder.path() + (is_old ? "/old.gguf" : "/new.gguf");
    WriteWholeFile(paths[is_old], writer.Finish());
  }
  const auto now = Model::Load(Env::Default(), paths[0]);
  const auto old = Model::Load(Env::Default(), paths[1]);
  ASSERT_TRUE(now.ok()) << now.status().message();
  ASSERT_TRUE(old.ok()) << old.status().message();
  // The fingerprint covers name, shape and bytes of every tensor.
  EXPECT_EQ((*old)->fingerprint(), (*now)->fingerprint());
}

TEST(FormatsTest, ExpertsInGgufFilesAreRefusedByName) {
  const TempFolder folder;
  const std::string path = folder.path() + "/m.gguf";
  const Json model =
      testing::WithFields(*Files::Cases().Find("llama"), Fields("llama", TensorType::kF32));
  GgufWriter mixtral;  // which llama.cpp runs as "llama"
  testing::AddInventedKeys(model, mixtral);
  mixtral.Add("llama.expert_count", uint32_t{8});
  mixtral.Add("llama.expert_used_count", uint32_t{2});
  testing::AddTinyVocabulary(mixtral);
  testing::AddInventedTensors(model, TensorType::kF32, mixtral);
  WriteWholeFile(path, mixtral.Finish());
  ExpectMalformed(LoadStatus(path), "\"blk.0.ffn_down_exps.weight\" is missing");

  for (const char* architecture : {"deepseek2", "llama4", "glm4moe", "minimax-m2"}) {
    GgufWriter other;
    other.Add("general.architecture", architecture);
    WriteWholeFile(path, other.Finish());
    ExpectRefused(LoadStatus(path), {path, architecture, "\"llama\"", "\"gemma3\""});
  }
}

TEST(FormatsTest, ExpertsInFoldersAreRefusedByName) {
  struct {
    const char* type;
    const char* class_name;
    const char* field;
    std::vector<std::string> words;
  } const cases[] = {
      {"deepseek_v3", "DeepseekV3ForCausalLM", "n_routed_experts", {"\"deepseek_v3\"", "Mixtral"}},
      {"glm4_moe", "Glm4MoeForCausalLM", "num_experts", {"\"glm4_moe\"", "\"glm4\""}},
      {"llama", "LlamaForCausalLM", "num_local_experts", {"num_local_experts", "dense models"}},
      {"qwen2", "Qwen2ForCausalLM", "num_experts", {"num_experts", "dense models"}},
  };
  for (const auto& moe : cases) {
    const TempFolder folder;
    const Json model = testing::WithFields(
        *Files::Cases().Find("llama"), {{"model_type", Json(moe.type)},
                                        {"architectures", Json(Json::Array{Json(moe.class_name)})},
                                        {moe.field, Json(8)}});
    testing::WriteInventedModel(model, folder.path());
    std::vector<std::string> words = moe.words;
    words.push_back("config.json");
    ExpectRefused(LoadStatus(folder.path()), words);
  }
}

// ---- A limit of memory

// With too little it says so, with enough it answers the same as without a limit.
TEST(FormatsTest, AMemoryLimitIsKeptOrNamed) {
  const TempFolder folder;
  const Files files("llama", TensorType::kQ5_1);
  const std::string text = InventedText(4200, 3);
  EngineOptions options{.store = folder.path() + "/store", .model = files.gguf(), .num_threads = 1};
  ASSERT_TRUE((*Engine::Create(options))->Index(text, {}).ok());
  const std::string wanted = Ask(**Engine::Create(options), 1, "Which road?")->text;
  size_t refused_index = 0, refused_ask = 0, kept = 0;
  for (uint64_t limit = 64 << 10; limit <= 256 << 20; limit *= 4) {
    options.max_ram_bytes = limit;
    const TempFolder other;
    EngineOptions anew = options;
    anew.store = other.path();
    const Status indexed = (*Engine::Create(anew))->Index(text, {}).status();
    const auto answer = Ask(**Engine::Create(options), 1, "Which road?");
    for (const Status& status : {indexed, answer.status()}) {
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), Code::kOutOfMemory) << status.message();
      EXPECT_EQ(status.param(), "max_ram");
    }
    refused_index += !indexed.ok();
    refused_ask += !answer.ok();
    if (answer.ok()) {
      EXPECT_EQ(answer->text, wanted);
    }
    kept += indexed.ok() && answer.ok();
  }
  EXPECT_GT(refused_index, 0u);
  EXPECT_GT(refused_ask, 0u);
  EXPECT_GT(kept, 0u);
}

}  // namespace
}  // namespace lectern
