// Pages of a document: stored, kept through everything that keeps the document, checked, and told
// of each passage.
#include "engine/document/page_map.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "engine/document/document.h"
#include "engine/document/passages.h"
#include "store/shard_writer.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::InventedText;
using testing::ReaderModel;
using testing::TempFolder;
using testing::TinyModel;

using Pages = std::vector<PageMapEntry>;

TEST(PageMapTest, HasAscendingPlacesInsideTheText) {
  EXPECT_TRUE(IsPageMap(Pages{}, 0));
  EXPECT_TRUE(IsPageMap(Pages{{0, 1, 0}, {5, 2, 0}, {9, 7, 0}}, 10));
  for (const Pages& wrong :
       {Pages{{0, 0, 0}}, Pages{{10, 1, 0}}, Pages{{0, 1, 1}}, Pages{{0, 1, 0}, {0, 2, 0}},
        Pages{{0, 1, 0}, {5, 1, 0}}, Pages{{5, 1, 0}, {4, 2, 0}}, Pages{{0, 2, 0}, {5, 1, 0}}}) {
    EXPECT_FALSE(IsPageMap(wrong, 10));
  }
}

TEST(PageMapTest, APlaceIsOnThePageThatBeganLast) {
  const Pages pages = {{3, 2, 0}, {7, 4, 0}};
  EXPECT_EQ(PageAt(pages, 2), std::nullopt);
  EXPECT_EQ(PageAt(pages, 3), 2u);
  EXPECT_EQ(PageAt(pages, 6), 2u);
  EXPECT_EQ(PageAt(pages, 7), 4u);
  EXPECT_EQ(PageAt(pages, 1000), 4u);
  EXPECT_EQ(PageAt({}, 0), std::nullopt);
}

class StoredPagesTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> Open(const std::string& store) {
    return std::move(Engine::Create({.store = store, .model = TinyModel(), .num_threads = 2}))
        .value();
  }
  static IndexOptions With(Pages pages) {
    IndexOptions options;
    options.name = "paged";
    options.pages = std::move(pages);
    return options;
  }
  IndexReport Index(const IndexOptions& options) {
    auto report = engine_->Index(text_, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? std::move(report).value() : IndexReport();
  }
  static Pages StoredBy(Engine& engine, const std::string& store) {
    const auto row = engine.Find("paged");
    const auto shards = engine.Shards(*row);
    const auto document = Document::Open(
        Env::Default(), DocumentDirectory(store, row->id, row->generation), *row, *shards);
    EXPECT_TRUE(document.ok()) << document.status().message();
    if (!document.ok()) return {};
    return {(*document)->pages().begin(), (*document)->pages().end()};
  }
  Pages Stored() { return StoredBy(*engine_, store_); }

  TempFolder folder_;
  const std::string store_ = folder_.path() + "/store";
  const std::string text_ = InventedText(7000, 3);  // clustered
  const Pages pages_ = {{0, 1, 0}, {1000, 2, 0}, {4000, 5, 0}};
  std::unique_ptr<Engine> engine_ = Open(store_);
};

TEST_F(StoredPagesTest, AreKeptThroughEverything) {
  const IndexReport first = Index(With(pages_));
  EXPECT_EQ(Stored(), pages_);
  // The same again, with them and without, does nothing.
  EXPECT_TRUE(Index(With(pages_)).existed);
  EXPECT_TRUE(Index(With({})).existed);
  EXPECT_EQ(Stored(), pages_);
  // Anew, without saying so.
  IndexOptions again = With({});
  again.again = true;
  EXPECT_EQ(Index(again).document, first.document);
  EXPECT_EQ(Stored(), pages_);
  ASSERT_TRUE(
      engine_->ChangePlan("paged", {.layer_budget = "", .head_budget = "", .kv_budget = 0.5f})
          .ok());
  EXPECT_EQ(Stored(), pages_);
  // Elsewhere, and without a catalog.
  const std::string file = folder_.path() + "/one.lectern", elsewhere = folder_.path() + "/other";
  ASSERT_TRUE(engine_->Export("paged", file).ok());
  const auto other = Open(elsewhere);
  ASSERT_TRUE(other->Import(file, "").ok());
  EXPECT_EQ(StoredBy(*other, elsewhere), pages_);
  engine_.reset();
  std::filesystem::remove(store_ + "/catalog.db");
  engine_ = Open(store_);
  ASSERT_TRUE(engine_->Recover().ok());
  EXPECT_EQ(Stored(), pages_);
}

TEST_F(StoredPagesTest, SurviveAnInterruption) {
  IndexOptions stopped = With(pages_);
  stopped.checkpoint_seconds = 0;
  stopped.on_progress = [](const IndexProgress& progress) {
    return progress.stage != IndexProgress::Stage::kCluster;
  };
  EXPECT_EQ(engine_->Index(text_, stopped).status().code(), Code::kCancelled);
  EXPECT_GT(Index(With(pages_)).resumed_tokens, 0u);
  EXPECT_EQ(Stored(), pages_);
}

// No part of the identity: the document stays the same one and its rows are used again.
TEST_F(StoredPagesTest, ThatAreOthersReplaceThem) {
  const IndexReport plain = Index(With({}));
  EXPECT_EQ(Stored(), Pages());
  const auto estimate = engine_->Estimate(text_, With(pages_));
  ASSERT_TRUE(estimate.ok());
  EXPECT_FALSE(estimate->existed);
  const IndexReport paged = Index(With(pages_));
  EXPECT_EQ(paged.document, plain.document);
  EXPECT_FALSE(paged.existed);
  EXPECT_GT(paged.reused_tokens, 0u);
  EXPECT_EQ(Stored(), pages_);
  const Pages others = {{0, 1, 0}, {2000, 2, 0}};
  EXPECT_FALSE(Index(With(others)).existed);
  EXPECT_EQ(Stored(), others);
  EXPECT_EQ(engine_->List()->size(), 1u);
}

TEST_F(StoredPagesTest, ThatCannotBeAreRefused) {
  const auto refused = [this](const std::string& text, const Pages& pages) {
    const auto report = engine_->Index(text, With(pages));
    EXPECT_EQ(report.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(report.status().param(), "pages");
  };
  refused("Short text.", {{11, 1, 0}});
  refused("Short text.", {{0, 2, 0}, {5, 1, 0}});
  refused("Short \xFF text.", {{0, 1, 0}});  // places would move
  refused("\xEF\xBB\xBFShort text.", {{0, 1, 0}});
  EXPECT_FALSE(std::filesystem::exists(store_ + "/catalog.db"));
}

// A shard that verifies and lies.
TEST_F(StoredPagesTest, ThatAreDamagedAreFound) {
  Index(With(pages_));
  const auto row = *engine_->Find("paged");
  auto shards = *engine_->Shards(row);
  const std::string directory = DocumentDirectory(store_, row.id, row.generation);
  Env& env = Env::Default();
  for (const std::string damage : {"order", "beyond", "size", "none"}) {
    const std::string copy = folder_.path() + "/" + damage;
    std::filesystem::copy(directory, copy);
    std::filesystem::remove(copy + "/" + kDocumentFile);
    const auto reader = ShardReader::Open(env, directory + "/" + kDocumentFile,
                                          {.kind = ShardKind::kDocument,
                                           .layer = 0,
                                           .document_id = row.id.data(),
                                           .fingerprint = row.fingerprint.data(),
                                           .generation = row.generation,
                                           .table_crc = std::nullopt},
                                          Io::kPread);
    ASSERT_TRUE(reader.ok());
    auto writer =
        ShardWriter::Create(env, folder_.path(), copy, kDocumentFile, (*reader)->header());
    ASSERT_TRUE(writer.ok());
    for (const SectionEntry& section : (*reader)->sections()) {
      const auto kind = static_cast<SectionKind>(section.kind);
      const auto bytes = *(*reader)->Section(kind, 0, 0);
      std::vector<std::byte> written(bytes.begin(), bytes.end());
      if (kind == SectionKind::kPageMap) {
        Pages pages = pages_;
        if (damage == "order") std::swap(pages[0], pages[1]);
        if (damage == "beyond") pages[2].text_begin = text_.size();
        std::memcpy(written.data(), pages.data(), written.size());
        if (damage == "size") written.pop_back();
      }
      ASSERT_TRUE((*writer)->AddSection(kind, 0, 0, written.data(), written.size()).ok());
    }
    const ShardSummary summary = *(*writer)->Finish();
    for (ShardSummary& shard : shards) {
      if (shard.file == kDocumentFile) shard = summary;
    }
    const auto document = Document::Open(env, copy, row, shards);
    EXPECT_EQ(document.status().code(), damage == "none" ? Code::kOk : Code::kCorrupt) << damage;
  }
}

// Passages are stored as SplitPassages finds them. Documents without them are split when opened;
// damaged ones are refused.
TEST_F(StoredPagesTest, PassagesAreStoredAndChecked) {
  Index(With(pages_));
  const auto row = *engine_->Find("paged");
  auto shards = *engine_->Shards(row);
  const std::string directory = DocumentDirectory(store_, row.id, row.generation);
  const std::vector<Passage> expected = SplitPassages(text_, pages_);
  Env& env = Env::Default();
  for (const std::string damage : {"none", "absent", "order", "beyond", "size"}) {
    const std::string copy = folder_.path() + "/" + damage;
    std::filesystem::copy(directory, copy);
    std::filesystem::remove(copy + "/" + kDocumentFile);
    const auto reader = ShardReader::Open(env, directory + "/" + kDocumentFile,
                                          {.kind = ShardKind::kDocument,
                                           .layer = 0,
                                           .document_id = row.id.data(),
                                           .fingerprint = row.fingerprint.data(),
                                           .generation = row.generation,
                                           .table_crc = std::nullopt},
                                          Io::kPread);
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ((*reader)->Section(SectionKind::kPassages, 0, 0)->size(),
              expected.size() * sizeof(Passage));
    auto writer =
        ShardWriter::Create(env, folder_.path(), copy, kDocumentFile, (*reader)->header());
    ASSERT_TRUE(writer.ok());
    for (const SectionEntry& section : (*reader)->sections()) {
      const auto kind = static_cast<SectionKind>(section.kind);
      const auto bytes = *(*reader)->Section(kind, 0, 0);
      std::vector<std::byte> written(bytes.begin(), bytes.end());
      if (kind == SectionKind::kPassages) {
        if (damage == "absent") continue;
        std::vector<Passage> passages = expected;
        if (damage == "order") std::swap(passages[0], passages[1]);
        if (damage == "beyond") passages.back().end = text_.size() + 1;
        std::memcpy(written.data(), passages.data(), written.size());
        if (damage == "size") written.pop_back();
      }
      ASSERT_TRUE((*writer)->AddSection(kind, 0, 0, written.data(), written.size()).ok());
    }
    const ShardSummary summary = *(*writer)->Finish();
    for (ShardSummary& shard : shards) {
      if (shard.file == kDocumentFile) shard = summary;
    }
    const auto document = Document::Open(env, copy, row, shards);
    const bool is_good = damage == "none" || damage == "absent";
    ASSERT_EQ(document.status().code(), is_good ? Code::kOk : Code::kCorrupt) << damage;
    if (!is_good) continue;
    const std::span<const Passage> passages = (*document)->passages();
    EXPECT_TRUE(std::ranges::equal(passages, expected)) << damage;
  }
}

// The bundled reader finds the sentence, wherever it stands.
TEST_F(StoredPagesTest, PassagesSayTheirs) {
  engine_ = std::move(Engine::Create({.store = store_, .model = ReaderModel(), .num_threads = 2}))
                .value();
  const std::string fact = "The Fethol bridge was designed by Mara Tolvin.";
  const std::string text = "The Osk mill was built in 1804. It is made of stone.\n\n" + fact +
                           "\n\nThe Lund tower is 40 m tall.\n";
  IndexOptions options = With({{0, 3, 0}, {text.find(fact), 4, 0}, {text.find("The Lund"), 9, 0}});
  ASSERT_TRUE(engine_->Index(text, options).ok());
  auto session = engine_->Open("paged");
  ASSERT_TRUE(session.ok());
  const auto answer = (*session)->Ask("Who designed the Fethol bridge?", {});
  ASSERT_TRUE(answer.ok());
  ASSERT_FALSE(answer->evidence.empty());
  EXPECT_EQ(answer->evidence[0].text, fact);
  EXPECT_EQ(answer->evidence[0].page, 4u);
}

}  // namespace
}  // namespace lectern
