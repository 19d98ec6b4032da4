// Exact mode against the independent dense oracle, and the bits it promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/asking/ask.h"
#include "engine/indexing/index_cost.h"
#include "engine/indexing/index_document.h"
#include "engine/requests/report_json.h"
#include "tests/engine/dense_oracle.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::DenseOracle;
using testing::IndexToAsk;
using testing::InventedText;
using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;

std::unique_ptr<Engine> MakeEngine(const std::string& store, const std::string& model,
                                   size_t threads = 2) {
  auto engine = Engine::Create({.store = store, .model = model, .num_threads = threads});
  EXPECT_TRUE(engine.ok());
  return std::move(engine).value();
}

double Std(const std::vector<double>& x) {
  double sum = 0, squares = 0;
  for (const double v : x) {
    sum += v;
    squares += v * v;
  }
  const double n = static_cast<double>(x.size());
  return std::sqrt(squares / n - sum / n * (sum / n));
}

// Within 2e-3 of the expected logits' spread.
// In units of the logits' spread.
double LargestError(std::span<const float> logits, const std::vector<double>& expected) {
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(logits[i] - expected[i]));
  }
  return largest / Std(expected);
}

void ExpectNear(std::span<const float> logits, const std::vector<double>& expected,
                double error = 2e-3) {
  const double tolerance = error * Std(expected);
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(logits[i], expected[i], tolerance);
}

// Checks documents that keep a quarter of their rows: answers are those of the oracle, which has
// seen the whole document and attends to the kept rows alone.
void ExpectOnlyKeptRowsToCount(Engine& engine, const std::string& text, const Model& model,
                               DenseOracle& oracle) {
  const size_t num_tokens = oracle.size();
  for (const char* const method : {"kv-compress", "pyramid", "kvcrush"}) {
    IndexOptions options;
    options.name = method;
    options.retention = {0.25, method};
    ASSERT_TRUE(engine.Index(text, options).ok());
    auto opened = engine.Open(method);
    auto& session = static_cast<DocumentSession&>(**opened);
    const Document& document = session.indexed();
    DenseOracle::Kept kept(document.num_layers());
    for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
      const auto heads = *document.Heads(layer);
      for (const HeadIndex& head : heads) {
        kept[layer].emplace_back(num_tokens, false);
        for (const uint32_t position : head.positions()) kept[layer].back()[position] = true;
      }
    }
    oracle.RestrictTo(std::move(kept));
    for (const double budget : {1.0, 0.5}) {  // both read what there is
      const auto ids = *model.EncodeQuestion(InventedText(30, 77));
      const auto logits = session.Step(ids, budget, true, nullptr);
      ASSERT_TRUE(logits.ok());
      ExpectNear(*logits, oracle.Append(ids));
    }
    oracle.Truncate(num_tokens);
    oracle.RestrictTo({});
  }
}

// Steps after a conversation was compressed attend to what is left of it, and to all of the
// document.
void ExpectCompressedConversationToCount(DocumentSession& session, const Model& model,
                                         DenseOracle& oracle) {
  const size_t num_tokens = oracle.size();
  session.settings().max_session_rows = kLeastSessionRows;
  for (uint64_t i = 0; i < 3; ++i) {
    const auto ids = *model.EncodeQuestion(InventedText(300, i));
    ASSERT_TRUE(session.Step(ids, 1, true, nullptr).ok());
    oracle.Append(ids);
  }
  const size_t before = session.num_past(), heads = session.indexed().shape().num_kv_heads;
  session.CompressRows();
  DenseOracle::Kept kept(session.indexed().num_layers());
  for (size_t h = 0; h < kept.size() * heads; ++h) {
    EXPECT_LT(session.rows().num_rows(h), before);
    std::vector<bool> of_head(num_tokens + before, false);
    std::fill_n(of_head.begin(), num_tokens, true);
    for (const uint32_t token : session.rows().tokens(h)) of_head[num_tokens + token] = true;
    kept[h / heads].push_back(std::move(of_head));
  }
  oracle.RestrictTo(std::move(kept));
  const auto ids = *model.EncodeQuestion("Who pays?");
  const auto logits = session.Step(ids, 1, true, nullptr);
  ASSERT_TRUE(logits.ok());
  ExpectNear(*logits, oracle.Append(ids));
  oracle.Truncate(num_tokens);
  oracle.RestrictTo({});
}

struct KvDocument {
  Dtype dtype;
  uint64_t document;
};

// 10 documents, 3 of them with the other KV types.
std::vector<KvDocument> KvDocuments() {
  std::vector<KvDocument> all;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    for (uint64_t d = 0; d < 10; d += dtype == Dtype::kF16 ? 1 : 4) all.push_back({dtype, d});
  }
  return all;
}

class ExactModeTest : public ::testing::TestWithParam<KvDocument> {};

// Four questions of six tokens: the logits of every step are within 2e-3 of their spread, and the
// greedy token is the same wherever the oracle's two best differ by more than that.
TEST_P(ExactModeTest, EqualsTheDenseOracle) {
  const auto [dtype, d] = GetParam();
  const auto model = Model::Load(Env::Default(), TinyModel());
  ASSERT_TRUE(model.ok());
  double worst = 0;
  const TempFolder store;
  const auto engine = MakeEngine(store.path(), TinyModel());
  // Short ones are one exact run, long ones have clusters of 1, 2 or 3 levels.
  const std::string text = InventedText(d < 3 ? 700 : 7500 + 150 * d, 100 + d);
  IndexOptions options;
  options.kv_dtype = dtype;
  options.num_levels = 1 + d % 3;
  options.cluster_keys = std::array{"stored", "unrotated", "queries"}[d / 3 % 3];
  const IndexReport report = IndexToAsk(store.path(), TinyModel(), text, options);
  const auto tokens = (*model)->EncodeDocument(text);
  ASSERT_EQ(tokens->ids.size(), report.tokens);
  EXPECT_EQ(d >= 3, report.tokens >= kMinClusteredTokens) << report.tokens;
  DenseOracle oracle(TinyModel(), std::string(DtypeName(dtype)));
  oracle.Append(tokens->ids);
  for (int q = 0; q < 4; ++q) {
    auto opened = engine->Open("");
    ASSERT_TRUE(opened.ok());
    auto& session = static_cast<DocumentSession&>(**opened);
    const auto ids = (*model)->EncodeQuestion(InventedText(30, 1000 * d + q));
    std::vector<int32_t> next = *ids;
    for (int step = 0; step < 6; ++step) {
      const auto logits = session.Step(next, 1, q % 2 == 0, nullptr);
      ASSERT_TRUE(logits.ok());
      const std::vector<double> expected = oracle.Append(next);
      const double tolerance = 2e-3 * Std(expected);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR((*logits)[i], expected[i], tolerance);
        worst = std::max(worst, std::abs((*logits)[i] - expected[i]) / Std(expected));
      }
      const auto best = std::max_element(expected.begin(), expected.end());
      std::vector<double> sorted = expected;
      std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
      const auto ours = std::max_element(logits->begin(), logits->end()) - logits->begin();
      if (*best - sorted[1] > tolerance) {
        ASSERT_EQ(ours, best - expected.begin());
      }
      next = {static_cast<int32_t>(best - expected.begin())};
    }
    oracle.Truncate(tokens->ids.size());
  }
  if (d == 3 && dtype == Dtype::kF16) {
    const auto session = engine->Open("");
    ExpectCompressedConversationToCount(static_cast<DocumentSession&>(**session), **model, oracle);
    ExpectOnlyKeptRowsToCount(*engine, text, **model, oracle);
  }
  std::printf("largest logit error: %.2e of the logits' spread\n", worst);
}

INSTANTIATE_TEST_SUITE_P(KvTypes, ExactModeTest, ::testing::ValuesIn(KvDocuments()),
                         [](const auto& param) {
                           return std::string(DtypeName(param.param.dtype)) + "_" +
                                  std::to_string(param.param.document);
                         });

// The oracle's weights become what the quantised ones are worth, and its inputs are rounded, too.
void UsePacked(const Model& model, DenseOracle& oracle) {
  oracle.RoundInputs();
  const auto replace = [&](const std::string& name, const WeightMatrix& matrix) {
    const PackedRows& packed = matrix.packed;
    std::vector<double> values;
    for (size_t r = 0; r < packed.num_rows; ++r) {
      for (size_t c = 0; c < packed.num_cols; ++c) values.push_back(PackedElement(packed, r, c));
    }
    oracle.Replace(name, std::move(values));
  };
  replace("model.embed_tokens.weight", model.weights().embedding());
  for (size_t i = 0; i < model.config().num_layers; ++i) {
    const LayerWeights& layer = model.weights().layer(i);
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    replace(prefix + "self_attn.q_proj.weight", layer.q);
    replace(prefix + "self_attn.k_proj.weight", layer.k);
    replace(prefix + "self_attn.v_proj.weight", layer.v);
    replace(prefix + "self_attn.o_proj.weight", layer.o);
    replace(prefix + "mlp.gate_proj.weight", layer.gate);
    replace(prefix + "mlp.up_proj.weight", layer.up);
    replace(prefix + "mlp.down_proj.weight", layer.down);
  }
}

// The documents remember with what they were indexed: nobody says it when they are asked. A value
// in the middle of two steps is rounded to either, as it comes out of float32 or float64, and one
// step moves the logits by 1e-2: so some of their rows are near, and one is nearer. Were inputs not
// rounded, all would be 7e-2 to 2e-1 away.
TEST(QuantisedWeightsTest, EqualTheDenseOracleOverTheirValues) {
  const TempFolder store;
  const std::string model_path = TinyModel();
  for (const char* const weights : {"q8", "q4"}) {
    const auto indexer = Engine::Create(
        {.store = store.path(), .model = model_path, .num_threads = 2, .weights = weights});
    IndexOptions options;
    options.name = weights;
    // The first is one exact run, the second has clusters.
    const std::string text = InventedText(weights[1] == '8' ? 700 : 6000, 100);
    const auto report = (*indexer)->Index(text, options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->weights, weights);

    const auto model = Model::Load(Env::Default(), model_path,
                                   {.store = store.path(), .weights = *ParseWeightsName(weights)});
    EXPECT_EQ((*model)->weights().packed()->quantised(), 0u);  // the engine made them
    const auto asker = Engine::Create({.store = store.path(), .num_threads = 2});
    auto opened = (*asker)->Open(weights);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    auto& session = static_cast<DocumentSession&>(**opened);
    DenseOracle oracle(model_path, "f16");
    UsePacked(**model, oracle);
    oracle.Append((*model)->EncodeDocument(text)->ids);
    std::vector<int32_t> next = *(*model)->EncodeQuestion(InventedText(30, 7));
    double nearest = INFINITY;
    for (int step = 0; step < 4; ++step) {
      const auto logits = session.Step(next, 1, true, nullptr);
      ASSERT_TRUE(logits.ok());
      const std::vector<double> expected = oracle.Append(next);
      ExpectNear(*logits, expected, 4e-2);
      nearest = std::min(nearest, LargestError(*logits, expected));
      next = {static_cast<int32_t>(std::max_element(expected.begin(), expected.end()) -
                                   expected.begin())};
    }
    EXPECT_LT(nearest, 1e-3) << weights;

    const auto stored = Engine::Create({.store = store.path(), .weights = "stored"});
    const Status mismatch = (*stored)->Open(weights).status();
    EXPECT_EQ(mismatch.code(), Code::kModelMismatch);
    EXPECT_NE(mismatch.message().find(std::string("weights ") + weights), std::string::npos);
    EXPECT_NE(mismatch.message().find("weights stored"), std::string::npos);
  }
  // Weights stay for as long as a document needs them.
  const auto engine = MakeEngine(store.path(), model_path);
  EXPECT_EQ((*engine->Collect()).files, 0u);
  ASSERT_TRUE(engine->Remove("q4").ok());
  EXPECT_EQ((*engine->Collect()).files, 1u);
  EXPECT_TRUE(engine->Open("q8").ok());
}

TEST(QuantisedWeightsTest, AnotherNameIsRefused) {
  const Status status = Engine::Create({.store = "s", .weights = "int8"}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.param(), "weights");
}

Result<Answer> AskOnce(Engine& engine, float budget, const char* question = "Which road?") {
  auto session = engine.Open("");
  if (!session.ok()) return session.status();
  AskOptions options;
  options.kv_budget = budget;
  options.max_tokens = 12;
  return (*session)->Ask(question, options);
}

void ExpectSameAnswer(const Answer& a, const Answer& b) {
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.kv.bytes_read, b.kv.bytes_read);
  EXPECT_EQ(a.kv.missed_mass_estimate, b.kv.missed_mass_estimate);
  ASSERT_EQ(a.evidence.size(), b.evidence.size());
  for (size_t i = 0; i < a.evidence.size(); ++i) {
    EXPECT_EQ(a.evidence[i].begin, b.evidence[i].begin);
    EXPECT_EQ(a.evidence[i].end, b.evidence[i].end);
    EXPECT_EQ(a.evidence[i].mass, b.evidence[i].mass);
  }
}

std::vector<std::string> ShardFiles(const std::string& store, const IndexReport& report) {
  std::vector<std::string> files;
  const std::string directory =
      store + "/docs/" + report.document + "/" + std::to_string(report.generation) + "/";
  for (const char* name : {"document.shard", "layer-000.shard", "layer-001.shard"}) {
    files.push_back(ReadWholeFile(directory + name));
  }
  return files;
}

TEST(ThreadsTest, AnyNumberGivesTheSameBytesAndAnswers) {
  const std::string text = InventedText(14000, 5);
  std::vector<std::string> shards;
  std::vector<Answer> answers;
  for (const size_t threads : {1, 2, 3, 7}) {
    const TempFolder store;
    const auto engine = MakeEngine(store.path(), TinyModel(), threads);
    const auto report = engine->Index(text, {});
    ASSERT_TRUE(report.ok()) << report.status().message();
    const auto files = ShardFiles(store.path(), *report);
    if (shards.empty()) shards = files;
    EXPECT_TRUE(files == shards) << threads << " threads";
    for (const float budget : {0.1f, 0.3f, 1.0f}) {
      const auto answer = AskOnce(*engine, budget);
      ASSERT_TRUE(answer.ok()) << answer.status().message();
      if (answers.size() < 3) {
        answers.push_back(*answer);
      } else {
        ExpectSameAnswer(*answer, answers[budget == 0.1f ? 0 : budget == 0.3f ? 1 : 2]);
      }
    }
  }
}

TEST(AskTest, AnotherEngineOnTheSameStoreAnswersTheSame) {
  const TempFolder store;
  const std::string text = InventedText(12000, 6);
  Result<Answer> first = Status(Code::kInternal, "");
  {
    const auto engine = MakeEngine(store.path(), TinyModel());
    ASSERT_TRUE(engine->Index(text, {}).ok());
    first = AskOnce(*engine, 0.2f);
    ASSERT_TRUE(first.ok());
  }
  // No model named: the one that the document was indexed with.
  const auto engine = MakeEngine(store.path(), "");
  const auto second = AskOnce(*engine, 0.2f);
  ASSERT_TRUE(second.ok()) << second.status().message();
  ExpectSameAnswer(*first, *second);
}

TEST(AskTest, FollowUpEqualsTheWholeConversationFedAtOnce) {
  const TempFolder store;
  const auto engine = MakeEngine(store.path(), TinyModel());
  ASSERT_TRUE(engine->Index(InventedText(9000, 7), {}).ok());
  AskOptions options;
  options.kv_budget = 1;
  options.max_tokens = 5;
  auto opened = engine->Open("");
  const auto first = (*opened)->Ask("Which old bridge?", options);
  ASSERT_TRUE(first.ok());
  const auto second = (*opened)->Ask("And the tower?", options);
  ASSERT_TRUE(second.ok());

  // The same conversation by hand, in one step.
  const auto model = Model::Load(Env::Default(), TinyModel());
  auto fresh = engine->Open("");
  auto& session = static_cast<DocumentSession&>(**fresh);
  const auto greedy = [](std::span<const float> logits) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  };
  const std::vector<int32_t> all = *(*model)->EncodeQuestion(
      "And the tower?", {.instructions = {}, .turns = {{"Which old bridge?", first->text}}});
  TokenStream stream((*model)->tokenizer(), true);
  std::string text;
  auto logits = session.Step(all, 1, true, nullptr);
  for (int i = 0; i < 5; ++i) {
    const int32_t id = greedy(*logits);
    if ((*model)->IsEndOfText(id)) break;
    text += stream.Push(id);
    logits = session.Step({&id, 1}, 1, true, nullptr);
  }
  text += stream.Flush();
  EXPECT_EQ(second->text, text.substr(0, text.find_last_not_of(" \n\t\r") + 1));
}

TEST(IndexTest, ResumedRunHasTheSameBytesAsAnUninterruptedOne) {
  const std::string text = InventedText(15000, 8);
  const TempFolder whole, cut;
  const auto uninterrupted = MakeEngine(whole.path(), TinyModel())->Index(text, {});
  ASSERT_TRUE(uninterrupted.ok());
  ASSERT_GT(uninterrupted->tokens, 3 * 512u);

  // Cancelled again and again, at other places, each time in a new engine.
  int runs = 0;
  Result<IndexReport> report = Status(Code::kInternal, "");
  for (; runs < 200; ++runs) {
    IndexOptions options;
    options.checkpoint_seconds = 0;
    int calls = 0;
    options.on_progress = [&](const IndexProgress&) { return ++calls <= 1 + runs; };
    report = MakeEngine(cut.path(), TinyModel())->Index(text, options);
    if (report.ok()) break;
    ASSERT_EQ(report.status().code(), Code::kCancelled) << report.status().message();
  }
  ASSERT_TRUE(report.ok());
  EXPECT_GT(runs, 4);
  EXPECT_GT(report->resumed_tokens, 0u);
  EXPECT_TRUE(ShardFiles(cut.path(), *report) == ShardFiles(whole.path(), *uninterrupted));
}

// An index begins anew if an interrupted run has clustered by another recipe.
TEST(IndexTest, AnotherRecipeBeginsAnew) {
  const TempFolder store;
  const std::string text = InventedText(9000, 9);
  IndexOptions options;
  options.checkpoint_seconds = 0;
  options.on_progress = [](const IndexProgress& p) {
    return p.stage != IndexProgress::Stage::kCluster;
  };
  const auto index = [&] { return MakeEngine(store.path(), TinyModel())->Index(text, options); };
  ASSERT_EQ(index().status().code(), Code::kCancelled);
  ASSERT_EQ(index().status().code(), Code::kCancelled);
  options.on_progress = {};
  options.cluster_keys = "unrotated";
  const auto unrotated = index();
  ASSERT_TRUE(unrotated.ok());
  EXPECT_EQ(unrotated->resumed_tokens, 0u);
  options.cluster_keys = "stored";
  EXPECT_TRUE(index()->existed);
  options.again = true;
  const auto stored = index();
  ASSERT_TRUE(stored.ok());
  EXPECT_FALSE(stored->existed);
  EXPECT_GT(stored->generation, unrotated->generation);
}

// Codes are taken by the queries unless other clusters are asked for.
TEST(IndexTest, HeadsHaveMetricsByDefault) {
  const TempFolder store;
  const auto engine = MakeEngine(store.path(), TinyModel());
  IndexOptions options;
  for (const char* const keys : {"", "auto", "queries", "unrotated", "stored"}) {
    options.name = std::string("by ") + keys;
    options.again = true;
    if (*keys != '\0') options.cluster_keys = keys;
    ASSERT_TRUE(engine->Index(InventedText(9000, 9), options).ok());
    const auto session = engine->Open(options.name);
    ASSERT_TRUE(session.ok());
    const Document& document = static_cast<DocumentSession&>(**session).indexed();
    const bool has_metrics =
        options.cluster_keys != "unrotated" && options.cluster_keys != "stored";
    const std::span<const HeadIndex> heads = *document.Heads(1);
    for (const HeadIndex& head : heads) {
      EXPECT_EQ(head.metric() != nullptr, has_metrics) << keys;
    }
  }
}

TEST(IndexTest, SameDocumentAgainIsANoOpAndGetsTheNewName) {
  const TempFolder store;
  const auto engine = MakeEngine(store.path(), TinyModel());
  const std::string text = InventedText(9000, 9);
  IndexOptions options;
  options.name = "first";
  const auto before = engine->Index(text, options);
  ASSERT_TRUE(before.ok());
  EXPECT_FALSE(before->existed);
  options.name = "second";
  const auto after = engine->Index(text, options);
  ASSERT_TRUE(after.ok());
  EXPECT_TRUE(after->existed);
  EXPECT_EQ(after->document, before->document);
  EXPECT_EQ(after->bytes_on_disk, before->bytes_on_disk);
  ASSERT_EQ(after->levels.size(), 2u);
  EXPECT_EQ(after->levels[1].centroids, before->levels[1].centroids);
  EXPECT_TRUE(engine->Open("second").ok());
  EXPECT_EQ(engine->Open("third").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace lectern
