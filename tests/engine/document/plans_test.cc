// Budget plans from end to end: statistics of the prefill, what is read, the stored plan.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "engine/document/layer_shard.h"
#include "engine/indexing/index_document.h"
#include "engine/indexing/prefill.h"
#include "index/lookup.h"
#include "store/shard_writer.h"
#include "store/store.h"
#include "tests/engine/dense_oracle.h"
#include "tests/engine/invented_model.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::InventedText;
using testing::TempFolder;
using testing::TinyModel;

const std::string kQuestion = "Which quiet farmer crossed the river?";

// One document, which no test changes.
Engine& TwoPlansEngine() {
  static const TempFolder store;
  static const std::unique_ptr<Engine> engine = [] {
    auto created = Engine::Create({.store = store.path(), .model = TinyModel(), .num_threads = 2});
    IndexOptions options;
    options.stats = "full";
    EXPECT_TRUE((*created)->Index(InventedText(16000, 5), options).ok());
    return std::move(created).value();
  }();
  return *engine;
}

AskOptions Options(const PlanPolicies& policies, float budget) {
  AskOptions options;
  options.layer_budget = policies.layers;
  options.head_budget = policies.heads;
  options.kv_budget = budget;
  options.max_tokens = 4;
  return options;
}

Result<Answer> Ask(Engine& engine, const AskOptions& options) {
  auto session = engine.Open("");
  EXPECT_TRUE(session.ok()) << session.status().message();
  return (*session)->Ask(kQuestion, options);
}

std::unique_ptr<DocumentSession> OpenSession(Engine& engine) {
  auto session = engine.Open("");
  EXPECT_TRUE(session.ok()) << session.status().message();
  return std::unique_ptr<DocumentSession>(
      static_cast<DocumentSession*>(std::move(session).value().release()));
}

// --- stores that somebody made by hand ---

// The document has clusters, but no layer that may have them: its plan would be of no layer.
TEST(CraftedDocumentTest, ClustersWithoutALayerForThemAreDamage) {
  Env& env = Env::Default();
  const TempFolder model, folder;
  const auto cases =
      ParseJson(testing::ReadWholeFile(testing::SourcePath("tests/golden/architectures.json")));
  ASSERT_TRUE(cases.ok());
  testing::WriteInventedModel(*cases->Find("mistral"), model.path());
  const DocumentRow row =
      testing::IndexTokens(model.path(), std::vector<int32_t>(100, 7), folder.path())
          .document->row();
  const std::string shards = folder.path() + "/shards";
  const auto open = [&](const std::string& file, ShardKind kind, uint32_t layer) {
    auto shard = ShardReader::Open(env, shards + "/" + file,
                                   {.kind = kind,
                                    .layer = layer,
                                    .document_id = row.id.data(),
                                    .fingerprint = row.fingerprint.data(),
                                    .generation = row.generation,
                                    .table_crc = std::nullopt});
    EXPECT_TRUE(shard.ok()) << shard.status().message();
    return std::move(shard).value();
  };
  std::vector<ShardSummary> summaries;
  for (uint32_t layer = 0; layer < 3; ++layer) {
    const std::string file = LayerFile(layer);
    summaries.push_back(SummaryOf(*open(file, ShardKind::kLayer, layer), file));
  }
  auto before = open(kDocumentFile, ShardKind::kDocument, 0);
  ShardHeader header = before->header();
  header.num_levels = 2;
  const auto writer =
      ShardWriter::Create(env, folder.path() + "/tmp", shards, kDocumentFile, header);
  ASSERT_TRUE(writer.ok());
  for (const SectionEntry& section : before->sections()) {
    ASSERT_TRUE((*writer)
                    ->AddSection(SectionKind{section.kind}, section.kv_head, section.level,
                                 before->data() + section.offset, section.bytes)
                    .ok());
  }
  before.reset();  // Wine replaces no file that is open
  const auto finished = (*writer)->Finish();
  ASSERT_TRUE(finished.ok()) << finished.status().message();
  summaries.push_back(*finished);
  EXPECT_EQ(Document::Open(env, shards, row, summaries).status().code(), Code::kCorrupt);
}

// --- statistics ---

// Statistics are of every token, in the last layer of those from kUnsampledTokens on in each chunk.
TEST(StatisticsTest, CosinesAndSquaresAreThoseOfTheDenseOracle) {
  const auto model = Model::Load(Env::Default(), TinyModel());
  ASSERT_TRUE(model.ok());
  const ModelConfig& config = (*model)->config();
  std::vector<int32_t> ids;
  for (int i = 0; i < 1100; ++i) ids.push_back(3 + (i * 37 + i * i / 11) % 390);
  testing::DenseOracle oracle(TinyModel(), "f32");
  oracle.Append(ids);

  const TempFolder folder;
  SpillShape shape;
  shape.generation = 1;
  shape.num_tokens = ids.size();
  shape.num_layers = config.num_layers;
  shape.num_kv_heads = config.num_kv_heads;
  shape.head_dim = config.head_dim;
  shape.query_cols = config.num_heads * config.head_dim;
  shape.dtype = Dtype::kF32;
  shape.num_calibration = kWindowTokens;
  shape.squared_sums = true;
  ASSERT_TRUE(Env::Default().MakeDirectory(folder.path() + "/tmp").ok());
  const auto spill =
      KvSpill::Open(Env::Default(), folder.path() + "/spill", folder.path() + "/tmp", shape);
  ASSERT_TRUE(spill.ok()) << spill.status().message();
  ThreadPool threads(2);
  ASSERT_TRUE(Prefill(Transformer(**model, *DefaultBackend(), threads), ids, **spill, {}).ok());

  const std::vector<double> means = (*spill)->MeanCosines();
  ASSERT_EQ(means.size(), 2u);
  double first = 0, last = 0;
  for (size_t t = 0; t < ids.size(); ++t) {
    first += oracle.cosines()[0][t] / static_cast<double>(ids.size());
    if (t % kChunkTokens >= kUnsampledTokens) last += oracle.cosines()[1][t] / 64;
  }
  EXPECT_NEAR(means[0], first, 1e-5);
  EXPECT_NEAR(means[1], last, 1e-5);
  EXPECT_LT(first, 0.999);  // attention does something
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
    for (uint32_t head = 0; head < config.num_kv_heads; ++head) {
      const std::span<const float> sums = (*spill)->SquaredSums(layer, head);
      const std::vector<double>& expected = oracle.squares()[layer][head];
      ASSERT_EQ(sums.size(), expected.size());
      for (size_t j = 0; j < sums.size(); ++j) {
        ASSERT_NEAR(sums[j], expected[j], 1e-4 * expected[j] + 1e-12) << layer << " " << j;
      }
    }
  }
}

TEST(StatisticsTest, BlockScoresOfEveryHeadEndWithSinksAndWindow) {
  const auto session = OpenSession(TwoPlansEngine());
  for (uint32_t layer = 0; layer < session->indexed().num_layers(); ++layer) {
    const auto heads = session->indexed().Heads(layer);
    ASSERT_TRUE(heads.ok());
    for (const HeadIndex& head : *heads) {
      for (const auto scores :
           {head.block_scores(), head.plain_block_scores(), head.full_block_scores()}) {
        ASSERT_EQ(scores.size(), (head.num_rows() + 15) / 16);
        // 104 rows never go: six blocks and half of one.
        EXPECT_EQ(std::count(scores.begin(), scores.end(), INFINITY), 7);
        // Log of sums of at most that many probabilities.
        EXPECT_LE(scores[scores.size() - 8], std::log(2.0 * head.num_rows()));
      }
    }
  }
}

// Interrupted and resumed with one thread, the sums are those of two threads in one go.
TEST(StatisticsTest, FullStatisticsHaveTheSameBitsForAnyThreadsAndResumed) {
  const auto before = OpenSession(TwoPlansEngine());
  const TempFolder store;
  const auto engine =
      Engine::Create({.store = store.path(), .model = TinyModel(), .num_threads = 1});
  IndexOptions options;
  options.stats = "full";
  options.checkpoint_seconds = 0;
  options.on_progress = [](const IndexProgress& progress) {
    return progress.stage != IndexProgress::Stage::kPrefill || progress.done < 1024;
  };
  EXPECT_EQ((*engine)->Index(InventedText(16000, 5), options).status().code(), Code::kCancelled);
  options.on_progress = {};
  const auto report = (*engine)->Index(InventedText(16000, 5), options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GE(report->resumed_tokens, 1024u);
  const auto after = OpenSession(**engine);
  for (uint32_t layer = 0; layer < after->indexed().num_layers(); ++layer) {
    const auto one = *before->indexed().Heads(layer), other = *after->indexed().Heads(layer);
    for (size_t h = 0; h < one.size(); ++h) {
      EXPECT_TRUE(std::ranges::equal(one[h].full_block_scores(), other[h].full_block_scores()));
    }
  }
}

// --- asking ---

class PlansTest : public ::testing::TestWithParam<PlanPolicies> {};

TEST_P(PlansTest, EveryStepReadsTheBudget) {
  const auto answer = Ask(TwoPlansEngine(), Options(GetParam(), 0.2f));
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->kv.layer_budget, GetParam().layers);
  EXPECT_EQ(answer->kv.head_budget, GetParam().heads);
  ASSERT_TRUE(answer->kv.read_fraction_decode.has_value());
  EXPECT_LE(answer->kv.read_fraction_prefill, 0.2);
  EXPECT_GT(answer->kv.read_fraction_prefill, 0.19);
  EXPECT_LE(*answer->kv.read_fraction_decode, 0.2);
  EXPECT_GT(*answer->kv.read_fraction_decode, 0.08);  // a token reads fewer rows
}

// Each layer, and with a policy for heads each head, reads its share of the plan.
TEST_P(PlansTest, LayersAndHeadsReadTheirShares) {
  const auto session = OpenSession(TwoPlansEngine());
  const Document& document = session->indexed();
  const auto plan = document.Plan(GetParam(), 0.2f, true, true);
  ASSERT_TRUE(plan.ok());
  size_t layers = 0;
  session->probe().on_layer = [&](const LayerStep& step) {
    ++layers;
    const auto heads = *document.Heads(step.layer);
    const double share = plan->layers[step.layer];
    const double of_layer =
        static_cast<double>(step.read.bytes) / static_cast<double>(step.read.dense_bytes);
    const double least = step.num_tokens > 1 ? 0.93 : 0.4;  // a token reads fewer rows
    EXPECT_LE(of_layer, 1.05 * share);
    EXPECT_GT(of_layer, least * share);
    for (size_t h = 0; !plan->heads.empty() && h < heads.size(); ++h) {
      const double of_head = plan->heads[step.layer * heads.size() + h];
      const double read = static_cast<double>(step.read.heads[h].bytes) /
                          static_cast<double>(heads[h].dense_bytes());
      EXPECT_LE(read, of_head);
      EXPECT_GT(read, least * of_head);
    }
  };
  ASSERT_TRUE(session->Ask(kQuestion, Options(GetParam(), 0.2f)).ok());
  EXPECT_EQ(layers, 8u);  // two layers, the question and three tokens
}

TEST_P(PlansTest, BudgetOneIsExact) {
  const auto exact = Ask(TwoPlansEngine(), Options({}, 1));
  const auto answer = Ask(TwoPlansEngine(), Options(GetParam(), 1));
  ASSERT_TRUE(exact.ok() && answer.ok());
  EXPECT_EQ(answer->text, exact->text);
  EXPECT_EQ(answer->kv.rule, "exact");
  EXPECT_EQ(answer->kv.bytes_read, exact->kv.bytes_read);
  EXPECT_EQ(answer->kv.layer_budget, "");
}

// The margin was measured by the stored plan, so that others do not rely on it.
TEST_P(PlansTest, ALimitOfWhatIsMissedIsKept) {
  AskOptions options = Options(GetParam(), 0.2f);
  options.max_missed = 0.2;
  const auto answer = Ask(TwoPlansEngine(), options);
  ASSERT_TRUE(answer.ok());
  if (GetParam() != PlanPolicies()) {
    EXPECT_EQ(answer->kv.max_missed_by, "bound");
    EXPECT_LE(answer->kv.missed_mass_bound.value_or(1), 0.2);
  }
}

std::vector<PlanPolicies> AllPairs() {
  std::vector<PlanPolicies> pairs;
  for (const Policy& layers : Policies()) {
    for (const Policy& heads : Policies()) {
      if (!layers.for_layers || !heads.for_heads) continue;
      // Those that differ in their statistics alone: only both together.
      const bool varies = layers.name.starts_with("kv-compress-");
      if ((varies || heads.name.starts_with("kv-compress-")) && layers.name != heads.name) continue;
      pairs.push_back({std::string(layers.name), std::string(heads.name)});
    }
  }
  return pairs;
}

INSTANTIATE_TEST_SUITE_P(AllPairs, PlansTest, ::testing::ValuesIn(AllPairs()),
                         [](const auto& param) {
                           std::string name = param.param.layers + "_" + param.param.heads;
                           std::erase(name, '-');
                           return name;
                         });

TEST(PlanErrorsTest, UnknownPoliciesAreRefusedAndTheOthersListed) {
  const auto layers = Ask(TwoPlansEngine(), Options({"pyramids", "global"}, 0.2f));
  EXPECT_EQ(layers.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(layers.status().param(), "layer_budget");
  EXPECT_NE(layers.status().message().find("pyramid,"), std::string::npos);
  const auto heads = Ask(TwoPlansEngine(), Options({"pyramid", "squeeze"}, 1));
  EXPECT_EQ(heads.status().param(), "head_budget");
  IndexOptions options;
  options.layer_budget = "none";
  EXPECT_EQ(TwoPlansEngine().Index("text", options).status().param(), "layer_budget");
  options = {};
  options.stats = "half";
  EXPECT_EQ(TwoPlansEngine().Index("text", options).status().param(), "stats");
}

TEST(PlanErrorsTest, TheSmallestBudgetIsThatOfTheFloors) {
  for (const PlanPolicies& policies : AllPairs()) {
    const auto refused = Ask(TwoPlansEngine(), Options(policies, 0.01f));
    ASSERT_EQ(refused.status().code(), Code::kBudgetTooSmall) << policies.layers;
    const std::string& message = refused.status().message();
    const float smallest = std::stof(message.substr(message.rfind(' ')));
    const auto answer = Ask(TwoPlansEngine(), Options(policies, smallest));
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_LE(answer->kv.read_fraction_prefill, smallest * 1.0001);
  }
}

// A budget that nobody chose is no reason to refuse a question. Of a short document sinks and
// window are much, and the least differs between policies.
TEST(PlanErrorsTest, AnAutomaticBudgetIsRaisedToTheSmallest) {
  size_t num_raised = 0;
  for (const size_t size : {3900, 4000, 4100, 4200}) {
    const TempFolder store;
    const auto engine =
        Engine::Create({.store = store.path(), .model = TinyModel(), .num_threads = 2});
    IndexOptions indexing;
    indexing.stats = "full";
    ASSERT_TRUE((*engine)->Index(InventedText(size, 5), indexing).ok());
    AskOptions options = Options({"", ""}, kAutoBudget);
    options.max_divergence = 10;  // the smallest budget that was measured will do
    const auto measured = Ask(**engine, options);
    ASSERT_TRUE(measured.ok()) << measured.status().message();
    for (const PlanPolicies& policies : AllPairs()) {
      options.layer_budget = policies.layers, options.head_budget = policies.heads;
      const auto answer = Ask(**engine, options);
      ASSERT_TRUE(answer.ok()) << answer.status().message();
      EXPECT_TRUE(answer->kv.is_auto);
      EXPECT_GE(answer->kv.budget, measured->kv.budget);
      EXPECT_LE(answer->kv.read_fraction_prefill, answer->kv.budget * 1.0001);
      num_raised += answer->kv.budget > measured->kv.budget;
    }
  }
  EXPECT_GT(num_raised, 0u);
}

// As documents were before there were statistics: made without a section for them.
TEST(PlanErrorsTest, ADocumentWithoutStatisticsServesWhatNeedsNone) {
  const TempFolder folder;
  std::vector<int32_t> ids;
  for (int i = 0; i < 3000; ++i) ids.push_back(3 + (i * 37 + i * i / 11) % 390);
  const auto made = testing::IndexTokens(TinyModel(), ids, folder.path());
  EXPECT_TRUE(made.document->policies() == PlanPolicies());
  EXPECT_TRUE(made.document->Plan({"pyramid", "uniform"}, 0.3, true, true).ok());
  const auto plan = made.document->Plan({"squeeze", "global"}, 0.3, true, true);
  EXPECT_EQ(plan.status().code(), Code::kInvalidArgument);
  EXPECT_NE(plan.status().message().find("index it again"), std::string::npos);
}

// --- a head that is read whole ---

TEST(HeadBudgetsTest, AShareOfOneReadsTheWholeHead) {
  const auto session = OpenSession(TwoPlansEngine());
  const auto heads = *session->indexed().Heads(1);
  std::vector<float> query(heads[0].Keys({0, 1}).num_cols, 0.5f);
  const std::vector<Rows<const float>> queries(heads.size(), {query.data(), 1, query.size()});
  const double budgets[] = {1.0, 0.2};
  const auto selections = Lookup({.backend = *DefaultBackend(),
                                  .threads = session->threads(),
                                  .heads = heads,
                                  .queries = queries,
                                  .scale = 1,
                                  .kv_budget = 0.6,
                                  .tail = true,
                                  .head_budgets = budgets});
  ASSERT_TRUE(selections.ok()) << selections.status().message();
  EXPECT_EQ((*selections)[0].rows.size(), heads[0].num_rows() - heads[0].num_exact());
  EXPECT_EQ((*selections)[0].bytes, heads[0].dense_bytes());
  EXPECT_EQ((*selections)[0].missed_mass, 0);
  EXPECT_LE((*selections)[1].bytes, 0.2 * static_cast<double>(heads[1].dense_bytes()));
}

// Heads that are looked up alone choose the same on any number of threads, in any workspace.
TEST(HeadBudgetsTest, ThreadsDoNotMatter) {
  const auto session = OpenSession(TwoPlansEngine());
  const auto heads = *session->indexed().Heads(1);
  std::vector<float> query(heads[0].Keys({0, 1}).num_cols, 0.5f);
  const std::vector<Rows<const float>> queries(heads.size(), {query.data(), 1, query.size()});
  const double budgets[] = {0.3, 0.15};
  LookupWorkspace workspace;
  const auto lookup = [&](size_t num_threads, LookupWorkspace* kept) {
    ThreadPool threads(num_threads);
    return Lookup({.backend = *DefaultBackend(),
                   .threads = threads,
                   .heads = heads,
                   .queries = queries,
                   .scale = 1,
                   .kv_budget = 0.2,
                   .tail = true,
                   .head_budgets = budgets,
                   .bound = true,
                   .workspace = kept});
  };
  const auto one = lookup(1, nullptr);
  ASSERT_TRUE(one.ok()) << one.status().message();
  for (int again = 0; again < 2; ++again) {
    const auto two = lookup(2, &workspace);
    ASSERT_TRUE(two.ok()) << two.status().message();
    for (size_t h = 0; h < heads.size(); ++h) {
      EXPECT_FALSE((*one)[h].rows.empty());
      EXPECT_EQ((*one)[h].rows, (*two)[h].rows);
      EXPECT_EQ((*one)[h].refined, (*two)[h].refined);
      EXPECT_EQ((*one)[h].logit_tail.logits, (*two)[h].logit_tail.logits);
      EXPECT_EQ((*one)[h].unread_bound, (*two)[h].unread_bound);
      EXPECT_EQ((*one)[h].bytes, (*two)[h].bytes);
      EXPECT_EQ((*one)[h].missed_mass, (*two)[h].missed_mass);
    }
  }
  EXPECT_NE((*one)[0].rows, (*one)[1].rows);
}

// Where all attention goes elsewhere every score is 0, and equals are not more than the budget.
TEST(HeadBudgetsTest, RowsOfEqualScoreKeepTheBudget) {
  const auto session = OpenSession(TwoPlansEngine());
  const auto heads = *session->indexed().Heads(1);
  constexpr size_t kRows = 9;  // fewer read less than the budget
  const size_t dim = heads[0].Keys({0, 1}).num_cols;
  const std::vector<float> query(kRows * dim, 0.5f);
  const std::vector<Rows<const float>> queries(heads.size(), {query.data(), kRows, dim});
  const std::vector<std::vector<float>> known(heads.size(), std::vector<float>(kRows, 1000.0f));
  for (const std::vector<double>& budgets : {std::vector<double>{}, {0.2, 0.2}}) {
    const auto selections = Lookup({.backend = *DefaultBackend(),
                                    .threads = session->threads(),
                                    .heads = heads,
                                    .queries = queries,
                                    .scale = 1,
                                    .kv_budget = 0.2,
                                    .tail = true,
                                    .head_budgets = budgets,
                                    .known_lse = known});
    ASSERT_TRUE(selections.ok()) << selections.status().message();
    double bytes = 0, dense = 0;
    for (size_t h = 0; h < heads.size(); ++h) {
      bytes += static_cast<double>((*selections)[h].bytes);
      dense += static_cast<double>(heads[h].dense_bytes());
    }
    EXPECT_LE(bytes, 0.2 * dense) << budgets.size();
    EXPECT_GT(bytes, 0.19 * dense) << budgets.size();
  }
}

// --- the stored plan ---

TEST(ChangePlanTest, LaterAsksAndOnlyTheyHaveTheNewPlan) {
  const TempFolder store;
  const auto engine =
      Engine::Create({.store = store.path(), .model = TinyModel(), .num_threads = 2});
  IndexOptions index;
  index.name = "lease";
  index.layer_budget = "pyramid";
  index.kv_budget = 0.1f;
  ASSERT_TRUE((*engine)->Index(InventedText(14000, 7), index).ok());
  const auto before = OpenSession(**engine);
  const uint64_t generation = before->document().generation;
  AskOptions ask;
  ask.max_tokens = 4;
  const auto old = before->Ask(kQuestion, ask);
  ASSERT_TRUE(old.ok()) << old.status().message();
  EXPECT_EQ(old->kv.layer_budget, "pyramid");
  EXPECT_EQ(old->kv.head_budget, "global");

  const PlanChange change = {.layer_budget = {}, .head_budget = "kv-compress", .kv_budget = 0.25f};
  const Status changed = (*engine)->ChangePlan("lease", change);
  ASSERT_TRUE(changed.ok()) << changed.message();
  const auto after = OpenSession(**engine);
  EXPECT_GT(after->document().generation, generation);
  EXPECT_EQ(after->document().id, before->document().id);
  EXPECT_EQ(after->text(), before->text());
  EXPECT_DOUBLE_EQ(after->indexed().ChooseBudget(0, 0).kv_budget, 0.25);
  EXPECT_TRUE(after->indexed().policies() == (PlanPolicies{"pyramid", "kv-compress"}));
  EXPECT_TRUE(after->indexed().missed_calibration().is_measured());
  EXPECT_TRUE((*engine)->Verify("lease", true)->empty());
  const auto shown = (*engine)->ShowPlan("lease");
  ASSERT_TRUE(shown.ok()) << shown.status().message();
  const auto plan = after->indexed().Plan({"pyramid", "kv-compress"}, 0.25, true, true);
  EXPECT_EQ(shown->layer_budget + " " + shown->head_budget, "pyramid kv-compress");
  EXPECT_EQ(shown->layers, plan->layers);
  EXPECT_EQ(shown->heads, plan->heads);
  EXPECT_EQ(shown->competed,
            after->indexed().Plan({"kv-compress", "global"}, 0.25, true, true)->layers);
  const auto anew = after->Ask(kQuestion, ask);
  ASSERT_TRUE(anew.ok()) << anew.status().message();
  EXPECT_EQ(anew->kv.head_budget, "kv-compress");
  // The same document, but for its plan: asked as before it reads the same bytes and says the same.
  ask.kv_budget = 0.1f;
  ask.head_budget = "global";
  after->Forget();
  const auto again = after->Ask(kQuestion, ask);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->text, old->text);
  EXPECT_EQ(again->kv.bytes_read, old->kv.bytes_read);
  // The old generation is gone from the store, and what has it open still reads it.
  EXPECT_EQ((*engine)->List()->size(), 1u);
  EXPECT_TRUE(before->Ask(kQuestion, ask).ok());
}

TEST(ChangePlanTest, WhatCannotBeServedChangesNothing) {
  const TempFolder store;
  const auto engine =
      Engine::Create({.store = store.path(), .model = TinyModel(), .num_threads = 2});
  ASSERT_TRUE((*engine)->Index(InventedText(14000, 7), {}).ok());
  const uint64_t generation = (*engine)->Find("")->generation;
  const auto change = [&](const PlanChange& to) { return (*engine)->ChangePlan("", to).code(); };
  EXPECT_EQ(change({"none", "", 0}), Code::kInvalidArgument);
  EXPECT_EQ(change({"squeeze", "", 0.01f}), Code::kBudgetTooSmall);
  EXPECT_EQ(change({"", "", 1.5f}), Code::kInvalidArgument);
  // Indexed without --stats full.
  EXPECT_EQ((*engine)->ShowPlan("")->stats, "window");
  EXPECT_EQ(change({"kv-compress-full", "", 0}), Code::kInvalidArgument);
  EXPECT_TRUE(Ask(**engine, Options({"kv-compress-plain", "global"}, 0.2f)).ok());
  EXPECT_EQ((*engine)->Find("")->generation, generation);
  size_t folders = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(store.path() + "/docs")) {
    folders += entry.is_directory();
  }
  EXPECT_EQ(folders, 2u);  // the id and its one generation
}

}  // namespace
}  // namespace lectern
