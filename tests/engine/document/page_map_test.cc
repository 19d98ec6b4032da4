// Pages of a document: stored, kept through everything that keeps the document, checked, and told
// of each passage.
#include "engine/document/page_map.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include "engine/document/document.h"
#include "engine/document/passages.h"
#include "engine/document/word_index.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::InventedText;
using testing::OpenChanged;
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

TEST(PageMapTest, LabelsAreALineForEachPage) {
  EXPECT_TRUE(ArePageLabels("", 3));
  EXPECT_TRUE(ArePageLabels("xii\n\nA-3\n", 3));
  EXPECT_TRUE(ArePageLabels("\u0661\n", 1));
  for (const std::string wrong :
       {"xii\n", "xii\n\nA-3", "xii\n\nA-3\n\n", "\xFF\n\n\n", "\t\n\n\n"}) {
    EXPECT_FALSE(ArePageLabels(wrong, 3)) << wrong;
  }
  const Pages pages = {{3, 2, 0}, {7, 4, 0}, {9, 5, 0}};
  EXPECT_EQ(PageLabelAt(pages, "xii\n\nA-3\n", 2), "");
  EXPECT_EQ(PageLabelAt(pages, "xii\n\nA-3\n", 6), "xii");
  EXPECT_EQ(PageLabelAt(pages, "xii\n\nA-3\n", 7), "");
  EXPECT_EQ(PageLabelAt(pages, "xii\n\nA-3\n", 1000), "A-3");
  EXPECT_EQ(PageLabelAt(pages, "", 7), "");
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

TEST_F(StoredPagesTest, LabelsAreKeptReplacedAndChecked) {
  const auto labels = [this] {
    const auto row = engine_->Find("paged");
    const auto document =
        Document::Open(Env::Default(), DocumentDirectory(store_, row->id, row->generation), *row,
                       *engine_->Shards(*row));
    return document.ok() ? std::string((*document)->contents().page_labels()) : "damaged";
  };
  IndexOptions labelled = With(pages_);
  Index(labelled);
  EXPECT_EQ(labels(), "");
  labelled.page_labels = "i\n\nA-3\n";
  EXPECT_FALSE(Index(labelled).existed);
  EXPECT_EQ(labels(), "i\n\nA-3\n");
  EXPECT_TRUE(Index(labelled).existed);
  IndexOptions again = With({});
  again.again = true;
  Index(again);
  EXPECT_EQ(labels(), "i\n\nA-3\n");
  labelled.page_labels = "i\n";
  EXPECT_EQ(engine_->Index(text_, labelled).status().param(), "page_labels");
  const auto document =
      OpenChanged(*engine_, store_, "paged", folder_.path() + "/damaged",
                  [](SectionKind kind, const std::string& bytes) {
                    return std::optional(kind == SectionKind::kPageLabels ? "i\n\nA-3 " : bytes);
                  });
  EXPECT_EQ(document.status().code(), Code::kCorrupt);
}

// A shard that verifies and lies.
TEST_F(StoredPagesTest, ThatAreDamagedAreFound) {
  Index(With(pages_));
  for (const std::string damage : {"order", "beyond", "size", "none"}) {
    const auto document = OpenChanged(
        *engine_, store_, "paged", folder_.path() + "/" + damage,
        [&](SectionKind kind, const std::string& bytes) {
          std::string written = bytes;
          if (kind != SectionKind::kPageMap) return std::optional(written);
          Pages pages = pages_;
          if (damage == "order") std::swap(pages[0], pages[1]);
          if (damage == "beyond") pages[2].text_begin = text_.size();
          std::memcpy(written.data(), pages.data(), written.size());
          if (damage == "size") written.pop_back();
          return std::optional(written);
        });
    EXPECT_EQ(document.status().code(), damage == "none" ? Code::kOk : Code::kCorrupt) << damage;
  }
}

// Passages are stored as SplitPassages finds them. Documents without them are split when opened;
// damaged ones are refused.
TEST_F(StoredPagesTest, PassagesAreStoredAndChecked) {
  Index(With(pages_));
  const std::vector<Passage> expected = SplitPassages(text_, pages_);
  for (const std::string damage : {"none", "absent", "order", "beyond", "size"}) {
    const auto document = OpenChanged(
        *engine_, store_, "paged", folder_.path() + "/" + damage,
        [&](SectionKind kind, const std::string& bytes) -> std::optional<std::string> {
          if (kind != SectionKind::kPassages) return bytes;
          EXPECT_EQ(bytes.size(), expected.size() * sizeof(Passage));
          if (damage == "absent") return std::nullopt;
          std::string written = bytes;
          std::vector<Passage> passages = expected;
          if (damage == "order") std::swap(passages[0], passages[1]);
          if (damage == "beyond") passages.back().end = text_.size() + 1;
          std::memcpy(written.data(), passages.data(), written.size());
          if (damage == "size") written.pop_back();
          return written;
        });
    const bool is_good = damage == "none" || damage == "absent";
    ASSERT_EQ(document.status().code(), is_good ? Code::kOk : Code::kCorrupt) << damage;
    if (!is_good) continue;
    const std::span<const Passage> passages = (*document)->passages();
    EXPECT_TRUE(std::ranges::equal(passages, expected)) << damage;
  }
}

// Words are stored with the passages, made where they are absent, and refused where they are
// others'.
TEST_F(StoredPagesTest, WordsAreStoredMadeAndChecked) {
  Index(With(pages_));
  const auto scores = [](const WordIndex& index) { return index.Score("farmer river")->covered; };
  const std::string words = *WordIndex::Build(text_, SplitPassages(text_, pages_));
  const auto expected = scores(**WordIndex::Open(words));
  for (const std::string damage : {"none", "absent", "others", "size"}) {
    const std::string others = *WordIndex::Build("One.", SplitPassages("One.", {}));
    const auto document = OpenChanged(
        *engine_, store_, "paged", folder_.path() + "/words-" + damage,
        [&](SectionKind kind, const std::string& bytes) -> std::optional<std::string> {
          if (kind != SectionKind::kWords) return bytes;
          EXPECT_EQ(bytes, words);
          if (damage == "absent") return std::nullopt;
          return damage == "others" ? others : damage == "size" ? bytes.substr(0, 512) : bytes;
        });
    ASSERT_TRUE(document.ok()) << document.status().message();
    const auto index = (*document)->words();
    const bool is_good = damage == "none" || damage == "absent";
    ASSERT_EQ(index.status().code(), is_good ? Code::kOk : Code::kCorrupt) << damage;
    if (is_good) {
      EXPECT_EQ(scores(**index), expected) << damage;
    }
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
  options.page_labels = "\niv\n\n";
  ASSERT_TRUE(engine_->Index(text, options).ok());
  auto session = engine_->Open("paged");
  ASSERT_TRUE(session.ok());
  const auto answer = (*session)->Ask("Who designed the Fethol bridge?", {});
  ASSERT_TRUE(answer.ok());
  ASSERT_FALSE(answer->evidence.empty());
  EXPECT_EQ(answer->evidence[0].text, fact);
  EXPECT_EQ(answer->evidence[0].page, 4u);
  EXPECT_EQ(answer->evidence[0].page_label, "iv");
}

}  // namespace
}  // namespace lectern
