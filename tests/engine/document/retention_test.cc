// Documents of which only a share is stored, from end to end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "engine/indexing/index_document.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::InventedText;
using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;

const std::string& Text() {
  static const std::string text = InventedText(16000, 5);
  return text;
}

IndexOptions Keep(double keep, const std::string& method, double representatives = 0) {
  IndexOptions options;
  options.retention = {keep, method, representatives};
  options.name = method + (keep < 1 ? "" : " whole");
  return options;
}

std::unique_ptr<Engine> MakeEngine(const std::string& store) {
  auto engine = Engine::Create({.store = store, .model = TinyModel(), .num_threads = 2});
  EXPECT_TRUE(engine.ok());
  return std::move(engine).value();
}

const std::vector<std::string> kMethods = {"kvcrush", "kv-compress", "pyramid"};

const TempFolder& SharedStore() {
  static const TempFolder store;
  return store;
}

// A quarter of a document by each method, and the whole of it. No test changes them.
Engine& SharedEngine() {
  static const std::unique_ptr<Engine> engine = [] {
    auto made = MakeEngine(SharedStore().path());
    for (const std::string& method : kMethods) {
      const auto report = made->Index(Text(), Keep(0.25, method));
      EXPECT_TRUE(report.ok()) << report.status().message();
    }
    EXPECT_TRUE(made->Index(Text(), Keep(1, "kv-compress")).ok());
    return made;
  }();
  return *engine;
}

std::unique_ptr<DocumentSession> OpenSession(Engine& engine, const std::string& name) {
  auto session = engine.Open(name);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return std::unique_ptr<DocumentSession>(
      static_cast<DocumentSession*>(std::move(session).value().release()));
}

uint64_t LayerBytes(Engine& engine, const std::string& name) {
  uint64_t bytes = 0;
  const auto shards = engine.Shards(*engine.Find(name));
  for (const ShardSummary& shard : *shards) {
    if (shard.file.starts_with("layer-")) bytes += shard.bytes;
  }
  return bytes;
}

class KeptDocumentTest : public ::testing::TestWithParam<std::string> {};

TEST_P(KeptDocumentTest, AQuarterOfTheRowsTakesThreeTenthsOfTheBytesAtMost) {
  EXPECT_LE(LayerBytes(SharedEngine(), GetParam()),
            0.30 * LayerBytes(SharedEngine(), "kv-compress whole"));
}

// Each stored row is the one of its position, and sinks and window are among them.
TEST_P(KeptDocumentTest, RowsAreThoseOfTheirPositions) {
  const auto whole = OpenSession(SharedEngine(), "kv-compress whole");
  const auto kept = OpenSession(SharedEngine(), GetParam());
  uint64_t stored = 0;
  for (uint32_t layer = 0; layer < kept->indexed().num_layers(); ++layer) {
    const auto all_heads = *whole->indexed().Heads(layer), heads = *kept->indexed().Heads(layer);
    for (size_t h = 0; h < heads.size(); ++h) {
      const auto by_position = [](const HeadIndex& head) {
        std::vector<std::pair<uint32_t, std::vector<std::byte>>> rows;
        const auto add = [&](IndexRange block) {
          const TypedRows keys = head.Keys(block), values = head.Values(block);
          for (uint32_t i = 0; i < block.size(); ++i) {
            std::vector<std::byte> row(keys.row(i), keys.row(i) + keys.row_bytes());
            row.insert(row.end(), values.row(i), values.row(i) + values.row_bytes());
            rows.emplace_back(head.positions()[block.begin + i], std::move(row));
          }
        };
        add({0, head.num_exact()});
        for (uint32_t i = 0; i < head.levels().back().num_clusters(); ++i) add(head.ClusterRows(i));
        std::sort(rows.begin(), rows.end());
        return rows;
      };
      const auto all = by_position(all_heads[h]), some = by_position(heads[h]);
      stored += some.size();
      ASSERT_EQ(some.size(), heads[h].num_rows());
      for (const auto& row : some) ASSERT_TRUE(row == all[row.first]);
      for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(some[i].first, i);
      for (uint32_t i = 1; i <= 100; ++i) {
        EXPECT_EQ(some[some.size() - i].first, all.size() - i);
      }
    }
  }
  EXPECT_NEAR(kept->indexed().kept_share(), 0.25, 0.005);
  const ShardHeader& shape = kept->indexed().shape();
  EXPECT_EQ(static_cast<double>(stored),
            std::round(kept->indexed().kept_share() * static_cast<double>(shape.num_tokens) *
                       shape.num_layers * shape.num_kv_heads));
}

TEST_P(KeptDocumentTest, BudgetsAreSharesOfTheWholeDocument) {
  const auto session = OpenSession(SharedEngine(), GetParam());
  EXPECT_EQ(session->dense_bytes(),
            OpenSession(SharedEngine(), "kv-compress whole")->dense_bytes());
  AskOptions options;
  options.max_tokens = 4;
  options.kv_budget = 0.15f;
  const auto some = session->Ask("Which road?", options);
  ASSERT_TRUE(some.ok()) << some.status().message();
  EXPECT_EQ(some->kv.rule, "default");
  EXPECT_EQ(some->kv.keep, 0.25);
  EXPECT_EQ(some->kv.retention, GetParam());
  EXPECT_LE(some->kv.read_fraction_prefill, 0.15);
  EXPECT_GT(some->kv.read_fraction_prefill, 0.14);
  EXPECT_LE(*some->kv.read_fraction_decode, 0.15);
  EXPECT_GT(*some->kv.read_fraction_decode, 0.1);  // a token reads fewer rows
  options.kv_budget = 1;
  const auto all = session->Ask("Which road?", options);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->kv.rule, "exact");
  EXPECT_NEAR(all->kv.read_fraction_prefill, session->indexed().kept_share(), 1e-9);
  options.kv_budget = 0.001f;
  const auto refused = session->Ask("Which road?", options);
  EXPECT_EQ(refused.status().code(), Code::kBudgetTooSmall);
  const std::string& message = refused.status().message();
  options.kv_budget = std::stof(message.substr(message.rfind(' ')));
  EXPECT_LT(options.kv_budget, 0.15f);
  const auto least = session->Ask("Which road?", options);
  ASSERT_TRUE(least.ok()) << least.status().message();
  EXPECT_LE(least->kv.read_fraction_prefill, options.kv_budget * 1.0001);
}

INSTANTIATE_TEST_SUITE_P(Methods, KeptDocumentTest, ::testing::ValuesIn(kMethods),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

// --- the store ---

TEST(KeptStoreTest, EachRecipeIsADocumentOfItsOwn) {
  Engine& engine = SharedEngine();
  std::set<DocumentId> ids;
  const auto rows = *engine.List();
  for (const DocumentRow& row : rows) ids.insert(row.id);
  EXPECT_EQ(ids.size(), 4u);
  // The method means nothing where the whole document is kept: it stays the same document.
  const auto again = engine.Index(Text(), Keep(1, "kvcrush"));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->existed);
  EXPECT_TRUE(engine.Index(Text(), Keep(1, "kv-compress"))->existed);  // the name, back again
  const auto kept = engine.Index(Text(), Keep(0.25, "pyramid"));
  EXPECT_TRUE(kept->existed);
  EXPECT_EQ(kept->retention.keep, 0.25);
  EXPECT_EQ(kept->retention.method, "pyramid");
}

// How many different tokens the clusters of the first layer hold, in the mean.
double TokensPerCluster(const Document& document) {
  size_t tokens = 0, clusters = 0;
  const std::span<const HeadIndex> heads = *document.Heads(0);
  for (const HeadIndex& head : heads) {
    clusters += head.levels().back().num_clusters();
    for (uint32_t i = 0; i < head.levels().back().num_clusters(); ++i) {
      std::set<int32_t> of_cluster;
      const IndexRange rows = head.ClusterRows(i);
      for (uint32_t row = rows.begin; row < rows.end; ++row) {
        of_cluster.insert(document.tokens()[head.positions()[row]]);
      }
      tokens += of_cluster.size();
    }
  }
  return static_cast<double>(tokens) / static_cast<double>(clusters);
}

// In the first layer a key is its token's, turned by its position: those of one token meet again
// only where each is turned back by its own position, which is not its place among the kept rows.
TEST(KeptStoreTest, ClustersWithoutPositionsAreOfTheSameRows) {
  const TempFolder store;  // of its own: elsewhere the document is there already
  const auto engine = MakeEngine(store.path());
  IndexOptions options = Keep(0.25, "kv-compress");
  options.cluster_keys = "unrotated";
  ASSERT_TRUE(engine->Index(Text(), options).ok());
  const auto unrotated = OpenSession(*engine, "kv-compress");
  const TempFolder other_store;
  const auto other_engine = MakeEngine(other_store.path());
  options.cluster_keys = "stored";
  ASSERT_TRUE(other_engine->Index(Text(), options).ok());
  const auto stored = OpenSession(*other_engine, "kv-compress");
  for (uint32_t layer = 0; layer < stored->indexed().num_layers(); ++layer) {
    const auto one = *stored->indexed().Heads(layer), other = *unrotated->indexed().Heads(layer);
    for (size_t h = 0; h < one.size(); ++h) {
      const auto positions = [](const HeadIndex& head) {
        return std::set<uint32_t>(head.positions().begin(), head.positions().end());
      };
      EXPECT_EQ(positions(one[h]), positions(other[h]));
    }
  }
  EXPECT_LT(TokensPerCluster(unrotated->indexed()), 0.5 * TokensPerCluster(stored->indexed()));
  AskOptions ask;
  ask.max_tokens = 4;
  ask.kv_budget = 1;
  const auto whole = unrotated->Ask("Which road?", ask), same = stored->Ask("Which road?", ask);
  ASSERT_TRUE(whole.ok() && same.ok());
  EXPECT_EQ(whole->text, same->text);
  ask.kv_budget = 0.15f;
  const auto some = unrotated->Ask("Which road?", ask);
  ASSERT_TRUE(some.ok()) << some.status().message();
  EXPECT_LE(some->kv.read_fraction_prefill, 0.15);
}

TEST(KeptStoreTest, AResumedRunHasTheSameBytes) {
  const TempFolder store;
  Result<IndexReport> report = Status(Code::kInternal, "");
  int runs = 0;
  for (; runs < 200; ++runs) {
    IndexOptions options = Keep(0.25, "kvcrush");
    options.checkpoint_seconds = 0;
    int calls = 0;
    options.on_progress = [&](const IndexProgress&) { return ++calls <= 2 + runs; };
    report = MakeEngine(store.path())->Index(Text(), options);
    if (report.ok()) break;
    ASSERT_EQ(report.status().code(), Code::kCancelled) << report.status().message();
  }
  ASSERT_TRUE(report.ok());
  EXPECT_GT(runs, 3);
  const DocumentRow whole = *SharedEngine().Find("kvcrush");
  ASSERT_EQ(report->generation, whole.generation);  // which shards name
  const auto shards = *SharedEngine().Shards(whole);
  for (const ShardSummary& shard : shards) {
    const auto file = [&](const std::string& in) {
      return ReadWholeFile(DocumentDirectory(in, whole.id, whole.generation) + "/" + shard.file);
    };
    EXPECT_TRUE(file(store.path()) == file(SharedStore().path())) << shard.file;
  }
}

TEST(KeptStoreTest, TravelsRecoversAndIsMadeAgain) {
  const TempFolder store, other;
  const std::string bundle = other.path() + "/kept.lectern";
  ASSERT_TRUE(SharedEngine().Export("kv-compress", bundle).ok());
  const auto engine = MakeEngine(store.path());
  ASSERT_TRUE(engine->Import(bundle, "").ok());
  EXPECT_TRUE(engine->Verify("", true)->empty());
  AskOptions options;
  options.max_tokens = 6;
  const auto before = OpenSession(SharedEngine(), "kv-compress")->Ask("Which road?", options);
  const auto after = OpenSession(*engine, "")->Ask("Which road?", options);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(after->text, before->text);
  EXPECT_EQ(after->kv.bytes_read, before->kv.bytes_read);

  std::filesystem::remove(store.path() + "/catalog.db");
  ASSERT_TRUE(engine->Recover().ok());
  const auto kept = engine->Find("kv-compress");
  ASSERT_TRUE(kept.ok());
  const auto existing = engine->Index(Text(), Keep(0.25, "kv-compress"));
  ASSERT_TRUE(existing.ok());
  EXPECT_TRUE(existing->existed);
  EXPECT_EQ(existing->retention.keep, 0.25);

  IndexOptions again = Keep(0.25, "kv-compress");
  again.again = true;
  const auto anew = engine->Index(Text(), again);
  ASSERT_TRUE(anew.ok()) << anew.status().message();
  EXPECT_GT(anew->generation, kept->generation);
  EXPECT_EQ(LayerBytes(*engine, ""), LayerBytes(SharedEngine(), "kv-compress"));

  ASSERT_TRUE(
      engine->ChangePlan("", {.layer_budget = "pyramid", .head_budget = "", .kv_budget = 0}).ok());
  EXPECT_EQ(OpenSession(*engine, "")->indexed().retention().keep, 0.25);
}

TEST(KeptStoreTest, AShortDocumentKeepsEverything) {
  const TempFolder store;
  const auto engine = MakeEngine(store.path());
  const auto kept = engine->Index(InventedText(700, 1), Keep(0.25, "kvcrush"));
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->retention.keep, 1);
  EXPECT_TRUE(engine->Index(InventedText(700, 1), Keep(1, "kvcrush"))->existed);
}

TEST(KeptStoreTest, WrongValuesAreRefused) {
  const auto refused = [](const IndexOptions& options) {
    return SharedEngine().Index(Text(), options).status();
  };
  EXPECT_EQ(refused(Keep(0, "kvcrush")).param(), "keep");
  EXPECT_EQ(refused(Keep(0.01, "kvcrush")).param(), "keep");
  EXPECT_EQ(refused(Keep(0.5, "none")).param(), "retention");
  EXPECT_EQ(refused(Keep(0.5, "kvcrush", 2)).param(), "representatives");
}

// --- conversations ---

// Two heads of 100 rows, of which 128 may stay: 8 blocks. Nobody looks at the second head's first
// rows, so it loses all but its last 32; the first head only a block of four rows.
TEST(SessionRowsTest, HeadsCompeteForTheCap) {
  SessionRows rows(2, Dtype::kF32, 4);
  const std::vector<float> numbers(400, 1.0f);
  for (size_t head = 0; head < 2; ++head) {
    std::vector<float> keys(400);
    for (size_t i = 0; i < 400; ++i) keys[i] = static_cast<float>(i / 4 + 1000 * head);
    rows.Append(*DefaultBackend(), head, {keys.data(), 100, 4}, {numbers.data(), 100, 4});
    for (size_t i = 0; i < 100; ++i) {
      rows.squared_attention(head)[i] = head == 0 ? static_cast<float>(i % 50 + 1) : 0.0f;
    }
  }
  rows.Compress(64);
  EXPECT_EQ(rows.num_rows(0), 96u);
  EXPECT_EQ(rows.num_rows(1), 32u);
  EXPECT_EQ(rows.tokens(1)[0], 68u);
  // The first head's scores are 1 … 50, 1 … 50: of the first 68 rows the four least are gone.
  EXPECT_EQ(rows.tokens(0)[0], 2u);
  EXPECT_EQ(rows.tokens(0)[47], 49u);
  EXPECT_EQ(rows.tokens(0)[48], 52u);
  const std::vector<float> keys = testing::Floats(rows.Keys(0, 96));
  for (size_t i = 0; i < 96; ++i) EXPECT_EQ(keys[4 * i], static_cast<float>(rows.tokens(0)[i]));
  rows.Truncate(80);
  EXPECT_EQ(rows.num_rows(0), 76u);
  EXPECT_EQ(rows.num_rows(1), 12u);
  // The next token is 60 in every head, also in one that has no rows before it any more.
  rows.Truncate(60);
  EXPECT_EQ(rows.num_rows(1), 0u);
  for (size_t head = 0; head < 2; ++head) {
    rows.Append(*DefaultBackend(), head, {numbers.data(), 2, 4}, {numbers.data(), 2, 4});
    EXPECT_EQ(rows.tokens(head).back(), 61u);
    EXPECT_EQ(rows.tokens(head)[rows.num_rows(head) - 2], 60u);
  }
}

const std::string& Conversation(size_t i) {
  static const std::vector<std::string> questions = [] {
    std::vector<std::string> made;
    for (uint64_t seed = 0; seed < 5; ++seed) made.push_back(InventedText(150, seed));
    return made;
  }();
  return questions[i];
}

TEST(ConversationTest, StaysWithinItsCap) {
  const auto session = OpenSession(SharedEngine(), "kv-compress");
  AskOptions options;
  options.max_tokens = 8;
  options.max_session_rows = 64;
  const size_t heads = session->indexed().num_layers() * session->indexed().shape().num_kv_heads;
  size_t tokens = 0;
  for (size_t i = 0; i < 5; ++i) {
    const auto answer = session->Ask(Conversation(i), options);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    tokens = session->num_past();
    EXPECT_LE(answer->kv.session_rows, 64u);
    EXPECT_LE(session->rows().total_rows(), 64 * heads);
    for (size_t h = 0; h < heads; ++h) {
      const auto kept = session->rows().tokens(h);
      for (size_t j = 1; j <= std::min<size_t>(32, tokens); ++j) {
        EXPECT_EQ(kept[kept.size() - j], tokens - j);
      }
    }
  }
  EXPECT_GT(tokens, 128u);
}

TEST(ConversationTest, ACapThatIsNotReachedChangesNothing) {
  const auto session = OpenSession(SharedEngine(), "kv-compress");
  const auto capped = OpenSession(SharedEngine(), "kv-compress");
  AskOptions options;
  options.max_tokens = 8;
  for (size_t i = 0; i < 2; ++i) {
    options.max_session_rows = 0;
    const auto answer = session->Ask(Conversation(i), options);
    options.max_session_rows = 100000;
    const auto same = capped->Ask(Conversation(i), options);
    EXPECT_EQ(same->text, answer->text);
    EXPECT_EQ(same->kv.bytes_read, answer->kv.bytes_read);
    EXPECT_EQ(same->kv.session_rows, session->num_past());
  }
  options.max_session_rows = 63;
  EXPECT_EQ(capped->Ask("Who?", options).status().param(), "max_session_rows");
}

}  // namespace
}  // namespace lectern
