// Retrieval heads: where each head looks, which heads are chosen, how they are stored, and what a
// focus makes of them.
#include "engine/document/retrieval_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "engine/document/document.h"
#include "engine/document/parts.h"
#include "engine/indexing/find_retrieval_heads.h"
#include "engine/indexing/planted_facts.h"
#include "engine/model/formats/json.h"
#include "store/catalog.h"
#include "store/store.h"
#include "tests/engine/dense_oracle.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::DenseOracle;
using testing::Indexed;
using testing::InventedText;
using testing::OpenChanged;
using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

std::optional<RetrievalHeads> Parse(const std::string& json) {
  return ParseRetrievalHeads(*ParseJson(json), 3);
}

TEST(RetrievalHeadsTest, TheirJsonIsReadAndDamageIsFound) {
  const RetrievalHeads heads = {{{0, 7, true}, {2, 0, false}, {2, 0, true}}};
  EXPECT_EQ(RetrievalHeadsJson(heads).Dump(), "[[0,7,1],[2,0,0],[2,0,1]]");
  EXPECT_EQ(Parse(RetrievalHeadsJson(heads).Dump()), heads);
  EXPECT_EQ(Parse("[]"), RetrievalHeads());
  for (const char* damaged : {"{}", "[1]", "[[0,1]]", "[[0,1,2]]", "[[3,0,0]]", "[[0,-1,0]]",
                              "[[0,0.5,0]]", "[[0,4294967296,0]]", "[[0,1,0],[0,1,0]]"}) {
    EXPECT_FALSE(Parse(damaged)) << damaged;
  }
}

TEST(RetrievalHeadsTest, CountByLayer) {
  const auto layers = WeightsByLayer({{{0, 3, true}, {2, 0, false}, {2, 0, true}}}, 3, 4);
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].last_row, (std::vector<float>{0, 0, 0, 1}));
  EXPECT_EQ(layers[0].all_rows, (std::vector<float>{0, 0, 0, 0}));
  EXPECT_TRUE(layers[1].is_empty());
  EXPECT_EQ(layers[2].all_rows, (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ(layers[2].last_row, (std::vector<float>{1, 0, 0, 0}));
}

TEST(RetrievalHeadsTest, TheBestAndThoseNearItAreChosen) {
  EXPECT_TRUE(ChooseRetrievalHeads({}).heads.empty());
  EXPECT_TRUE(ChooseRetrievalHeads({{{0, 0, false}, 0.19}}).heads.empty());
  EXPECT_EQ(
      ChooseRetrievalHeads({{{1, 0, true}, 0.4}, {{0, 2, false}, 0.2}, {{0, 1, false}, 0.19}}),
      (RetrievalHeads{{{0, 2, false}, {1, 0, true}}}));
  std::vector<HeadShare> many;
  for (uint32_t head = 0; head < 40; ++head) many.push_back({{0, head, false}, 0.5});
  EXPECT_EQ(ChooseRetrievalHeads(many).heads.size(), kMostRetrievalHeads);
}

TEST(RetrievalHeadsTest, EachPlantedFactHasItsRange) {
  const PlantedText planted = MakePlantedText();
  ASSERT_EQ(planted.facts.size(), PlantedFacts().size());
  for (size_t i = 0; i < planted.facts.size(); ++i) {
    const auto [begin, end] = planted.facts[i];
    EXPECT_EQ(planted.text.substr(begin, end - begin), PlantedFacts()[i].fact);
  }
}

// Every head's probabilities are those of the float64 oracle, in a document without clusters and in
// one with them that is read whole.
TEST(RetrievalHeadsTest, EachHeadsAttentionIsTheOracles) {
  for (const size_t length : {900, 7600}) {
    const std::string text = InventedText(length, 31), question = InventedText(12, 77);
    Indexed indexed(TinyModel(), text);
    const auto session = indexed.Open();
    const Document& document = session->indexed();
    EXPECT_EQ(document.has_clusters(), length > 5000);
    const auto model = *Model::Load(Env::Default(), TinyModel());
    DenseOracle oracle(TinyModel(), "f16");
    oracle.Append(model->EncodeDocument(text)->ids);
    const std::vector<int32_t> ids = *model->EncodeQuestion(question);
    oracle.Append(ids);
    size_t num_heads = 0;
    session->probe().on_head = [&](const HeadStep& step) {
      ++num_heads;
      const auto& all = oracle.attention()[step.layer][step.head];
      const auto& last = oracle.last_attention()[step.layer][step.head];
      for (size_t t = 0; t < step.all_rows.size(); ++t) {
        const double mean = all[t] / static_cast<double>(ids.size());
        ASSERT_NEAR(step.all_rows[t], mean, 1e-6 + 0.03 * mean);
        ASSERT_NEAR(step.last_row[t], last[t], 1e-6 + 0.03 * last[t]);
      }
    };
    AskOptions options;
    options.kv_budget = 1;
    options.max_tokens = 1;
    const auto answer = session->Ask(question, options);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(num_heads, model->config().num_layers * model->config().num_heads);
  }
}

std::unique_ptr<Engine> EngineIn(const TempFolder& store, const std::string& model) {
  EngineOptions options;
  options.store = store.path();
  options.model = model;
  return *Engine::Create(options);
}

// The store's first document of a model has its heads found; the record stays, and no trace of the
// planted text does.
TEST(RetrievalHeadsTest, AreFoundOncePerModel) {
  const TempFolder store;
  const auto engine = EngineIn(store, TinyModel());
  const auto heads_of = [&](const std::string& text) {
    const auto report = engine->Index(text, {});
    EXPECT_TRUE(report.ok()) << report.status().message();
    const auto session = engine->Open(report->document, nullptr);
    EXPECT_TRUE(session.ok());
    return static_cast<DocumentSession&>(**session).indexed().retrieval_heads();
  };
  const auto first = heads_of(InventedText(900, 1));
  EXPECT_TRUE(first);
  EXPECT_EQ(heads_of(InventedText(900, 2)), first);
  EXPECT_TRUE(std::filesystem::is_empty(store.path() + "/tmp"));
  EXPECT_EQ(engine->List()->size(), 2u);
}

TEST(RetrievalHeadsTest, EveryPartOfALongDocumentHasThem) {
  const TempFolder folder;
  const std::string model = folder.path() + "/model";
  std::filesystem::copy(TinyModel(), model);
  std::string config = ReadWholeFile(model + "/config.json");
  config.replace(config.find("32768"), 5, "2000");
  std::filesystem::remove(model + "/config.json");
  WriteWholeFile(model + "/config.json", config);
  const TempFolder store;
  const auto engine = EngineIn(store, model);
  const auto report = engine->Index(InventedText(18'000, 3), {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_GT(report->parts, 1u);
  const auto catalog =
      Catalog::Open(Env::Default(), CatalogPath(store.path()), Catalog::Mode::kReadOnly);
  ASSERT_TRUE(catalog.ok());
  const auto parts = PartsIn(*(*catalog)->List(), *ParseDocumentId(report->document));
  ASSERT_EQ(parts.size(), report->parts);
  for (const DocumentRow& part : parts) {
    const auto document =
        Document::Open(Env::Default(), DocumentDirectory(store.path(), part.id, part.generation),
                       part, *(*catalog)->Shards(part.generation));
    ASSERT_TRUE(document.ok()) << document.status().message();
    EXPECT_TRUE((*document)->retrieval_heads()) << part.generation;
  }
}

// A copy of the demo's document, for the bundled reader, that names these heads.
std::shared_ptr<const Document> WithHeads(const TempFolder& store, Engine& engine,
                                          const std::string& name, const std::string& heads,
                                          Status* status = nullptr) {
  auto document = OpenChanged(engine, store.path(), name, store.path() + "/copy" + heads,
                              [&](SectionKind kind, const std::string& bytes) {
                                if (kind != SectionKind::kModel) return std::optional(bytes);
                                Json json = *ParseJson(bytes);
                                Json::Object object = *json.object();
                                object["retrieval_heads"] = *ParseJson(heads);
                                return std::optional(Json(std::move(object)).Dump());
                              });
  if (status != nullptr) *status = document.status();
  return document.ok() ? *document : nullptr;
}

TEST(RetrievalHeadsTest, ChooseTheFocusTogetherWithWords) {
  const TempFolder store;
  const auto engine = EngineIn(store, ReaderModel());
  const auto report =
      engine->Index(ReadWholeFile(SourcePath("tools/demo/document.txt")), IndexOptions());
  ASSERT_TRUE(report.ok()) << report.status().message();
  const std::shared_ptr<const Model> model = *Model::Load(Env::Default(), ReaderModel());
  const auto threads = std::make_shared<ThreadPool>(2);
  const auto open = [&](const std::string& heads) {
    return DocumentSession::Create(WithHeads(store, *engine, report->document, heads), model,
                                   *DefaultBackend(), threads, 0);
  };
  // Heads by hand: any will do, because only their effect is looked at.
  const auto session = open("[[1,0,0],[4,1,1],[5,0,1]]");
  ASSERT_TRUE(session.ok()) << session.status().message();
  AskOptions ask;
  ask.focus = "only";
  ask.max_tokens = 8;
  const auto answer = (*session)->Ask("Where does the Douquouth committee rent a hall?", ask);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->kv.rule, "words+heads");
  EXPECT_LT(answer->kv.read_fraction_prefill, 0.2);
  EXPECT_GT(answer->kv.bytes_read, 0u);
  // Its words choose nothing, its heads do.
  const auto alone = (*open("[[1,0,0],[4,1,1]]"))->Ask("And why is it so?", ask);
  ASSERT_TRUE(alone.ok()) << alone.status().message();
  EXPECT_EQ(alone->kv.rule, "words+heads");
  EXPECT_LT(alone->kv.read_fraction_prefill, 0.2);
  // The receipt counts both readings of the question: more bytes than one by words alone.
  ask.max_tokens = 1;
  constexpr char kCommittee[] = "Where does the Douquouth committee rent a hall?";
  const auto both = (*open("[[1,1,0]]"))->Ask(kCommittee, ask);
  const auto once = (*open("[]"))->Ask(kCommittee, ask);
  ASSERT_TRUE(both.ok() && once.ok());
  EXPECT_EQ(once->kv.rule, "words");
  EXPECT_GT(both->kv.bytes_read, once->kv.bytes_read + once->kv.bytes_read / 4);
  // A head that the model does not have.
  EXPECT_EQ(open("[[0,4000,0]]").status().code(), Code::kCorrupt);
  Status status;
  EXPECT_EQ(WithHeads(store, *engine, report->document, "[[4000,0,0]]", &status), nullptr);
  EXPECT_EQ(status.code(), Code::kCorrupt);
}

}  // namespace
}  // namespace lectern
