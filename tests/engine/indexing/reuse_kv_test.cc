// An edited document takes over what did not change: the same bytes as from scratch.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "engine/document/kv_spill.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::InventedText;
using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

IndexOptions Named(Dtype dtype = Dtype::kF16) {
  IndexOptions options;
  options.name = "manual";
  options.kv_dtype = dtype;
  return options;
}

struct Store {
  Store() = default;
  explicit Store(const Store& other) { std::filesystem::copy(other.path, path, kAll); }
  static constexpr auto kAll = std::filesystem::copy_options::recursive;

  TempFolder folder;
  const std::string path = folder.path() + "/store";
  std::unique_ptr<Engine> engine =
      std::move(Engine::Create({.store = path, .model = TinyModel(), .num_threads = 2})).value();

  IndexReport Index(const std::string& text, const IndexOptions& options) {
    auto report = engine->Index(text, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return std::move(report).value();
  }
  std::string Directory(const IndexReport& report) const {
    return path + "/docs/" + report.document + "/" + std::to_string(report.generation);
  }
  std::map<std::string, std::string> Shards(const IndexReport& report) const {
    std::map<std::string, std::string> shards;
    for (const auto& entry : std::filesystem::directory_iterator(Directory(report))) {
      shards[entry.path().filename().string()] = ReadWholeFile(entry.path());
    }
    return shards;
  }
};

const std::string& Original() {
  static const std::string text = InventedText(7000, 5);
  return text;
}

// Another sentence at 70 %.
std::string Edited() {
  std::string text = Original();
  const size_t at = text.find(". ", text.size() * 7 / 10) + 2;
  return text.insert(at, "A red fox came by. ");
}

// A copy of a store where only this is.
Store With(const std::string& text, Dtype dtype = Dtype::kF16) {
  static std::map<std::pair<std::string, Dtype>, Store> stores;
  Store& store = stores[{text, dtype}];
  store.Index(text, Named(dtype));
  return Store(store);
}

// The shards of a store with the same generations that never saw the text before.
const std::map<std::string, std::string>& FromScratch(const std::string& text, Dtype dtype) {
  static std::map<std::pair<std::string, Dtype>, std::map<std::string, std::string>> made;
  auto& shards = made[{text, dtype}];
  if (!shards.empty()) return shards;
  Store store;
  IndexOptions other = Named(dtype);
  other.name = "other";
  store.Index("Something else.", other);
  shards = store.Shards(store.Index(text, Named(dtype)));
  return shards;
}

uint64_t Reused(const std::string& before, const std::string& after, Dtype dtype = Dtype::kF16) {
  Store store = With(before, dtype);
  const IndexReport report = store.Index(after, Named(dtype));
  const auto made = store.Shards(report);
  EXPECT_EQ(made.size(), 3u);
  for (const auto& [file, bytes] : FromScratch(after, dtype)) {
    EXPECT_TRUE(made.at(file) == bytes) << file;
  }
  EXPECT_EQ(report.reused_tokens % kChunkTokens, 0u);
  return report.reused_tokens;
}

TEST(ReuseKvTest, AnEditAt70PercentTakesOverWhatComesBefore) {
  const uint64_t tokens = With(Original()).Index(Original(), Named()).tokens;
  const uint64_t reused = Reused(Original(), Edited());
  EXPECT_GT(reused, tokens * 6 / 10);
  EXPECT_LT(reused, tokens * 3 / 4);
}

TEST(ReuseKvTest, AppendingComputesLittleMoreThanWhatIsAppended) {
  const std::string longer = Original() + InventedText(Original().size() / 20, 7);
  const uint64_t tokens = With(Original()).Index(Original(), Named()).tokens;
  EXPECT_GT(Reused(Original(), longer) + kChunkTokens, tokens);
  // And taking it away again: all but what the last tokens' queries need.
  EXPECT_GT(Reused(longer, Original()) + 2 * kChunkTokens, tokens);
}

TEST(ReuseKvTest, OtherKvTypesThatAreStoredAsTheyAreComputed) {
  EXPECT_GT(Reused(Original(), Edited(), Dtype::kF32), 0u);
}

TEST(ReuseKvTest, ShortDocumentsHaveNoSumsToTakeOver) {
  const std::string brief = Original().substr(0, 2500);
  EXPECT_GT(Reused(brief, brief + "One more sentence."), 0u);
  EXPECT_GT(Reused(Original(), brief), 0u);
  EXPECT_EQ(Reused(brief, Original()), 0u);  // it has clusters now
}

TEST(ReuseKvTest, NothingIsTakenOverWhereItIsNotTheSame) {
  Store store = With(Original());
  IndexOptions unnamed = Named(), again = Named();
  unnamed.name.clear();
  again.again = true;
  EXPECT_EQ(store.Index(Edited(), again).reused_tokens, 0u);
  EXPECT_EQ(store.Index(Edited() + "More.", unnamed).reused_tokens, 0u);
  EXPECT_EQ(store.Index(Edited() + "And more.", Named(Dtype::kF32)).reused_tokens, 0u);
}

TEST(ReuseKvTest, ADamagedDocumentIsNotTakenOver) {
  for (const char* file : {"layer-001.shard", "document.shard"}) {
    Store store = With(Original());
    const std::string path = store.Directory(store.Index(Original(), Named())) + "/" + file;
    std::string bytes = ReadWholeFile(path);
    for (size_t at = 5000; at < bytes.size(); at += 65536) bytes[at] ^= 4;
    WriteWholeFile(path, bytes);
    const IndexReport report = store.Index(Edited(), Named());
    EXPECT_EQ(report.reused_tokens, 0u);
    EXPECT_TRUE(store.Shards(report) == FromScratch(Edited(), Dtype::kF16)) << file;
  }
}

TEST(ReuseKvTest, AnInterruptedRunGoesOnFromThere) {
  Store store = With(Original());
  IndexOptions interrupted = Named();
  interrupted.on_progress = [](const IndexProgress& progress) {
    return progress.stage != IndexProgress::Stage::kPrefill;
  };
  EXPECT_EQ(store.engine->Index(Edited(), interrupted).status().code(), Code::kCancelled);
  const IndexReport report = store.Index(Edited(), Named());
  EXPECT_GT(report.resumed_tokens, 0u);
  EXPECT_EQ(report.reused_tokens, 0u);  // it was the interrupted run that did
  EXPECT_TRUE(store.Shards(report) == FromScratch(Edited(), Dtype::kF16));
}

TEST(ReuseKvTest, ARunThatComputesAllAnewGoesOnFromNoRunThatTookRowsOver) {
  Store store = With(Original());
  const auto stop = [](const IndexProgress& progress) {
    return progress.stage != IndexProgress::Stage::kPrefill || progress.done == 0;
  };
  IndexOptions cut = Named(), again = Named(), cut_again = Named();
  again.again = cut_again.again = true;
  cut.on_progress = cut_again.on_progress = stop;
  EXPECT_EQ(store.engine->Index(Edited(), cut).status().code(), Code::kCancelled);
  const IndexReport report = store.Index(Edited(), again);
  EXPECT_EQ(report.resumed_tokens + report.reused_tokens, 0u);
  // The other way round nothing is lost.
  const std::string more = Edited() + "More.";
  EXPECT_EQ(store.engine->Index(more, cut_again).status().code(), Code::kCancelled);
  EXPECT_GT(store.Index(more, Named()).resumed_tokens, 0u);
}

}  // namespace
}  // namespace lectern
