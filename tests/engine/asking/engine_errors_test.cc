// Every wrong input has its own typed error with the way out, and the store is as before.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/document/document.h"
#include "engine/engine.h"
#include "engine/indexing/text_file.h"
#include "tests/engine/test_documents.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

namespace fs = std::filesystem;
using testing::InventedText;
using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

class EngineErrorsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> NewEngine(const std::string& model = TinyModel()) {
    auto engine = Engine::Create({.store = store_.path(), .model = model, .num_threads = 2});
    EXPECT_TRUE(engine.ok());
    return std::move(engine).value();
  }
  IndexReport IndexOne(const std::string& name = "manual") {
    IndexOptions options;
    options.name = name;
    const auto report = NewEngine()->Index(InventedText(9000, 1), options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return *report;
  }
  std::string ShardPath(const IndexReport& report, const char* file = "layer-001.shard") {
    return store_.path() + "/docs/" + report.document + "/" + std::to_string(report.generation) +
           "/" + file;
  }
  // Opens and asks: damage in rows shows when they are read.
  Status AskStatus(float budget = 1.0f, const std::string& model = "") {
    auto session = NewEngine(model)->Open("");
    if (!session.ok()) return session.status();
    AskOptions options;
    options.kv_budget = budget;
    options.max_tokens = 2;
    return (*session)->Ask("Which road?", options).status();
  }
  static void Expect(const Status& status, Code code, const std::string& word) {
    EXPECT_EQ(CodeName(status.code()), CodeName(code)) << status.message();
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }
  TempFolder store_;
};

TEST_F(EngineErrorsTest, EveryErrorOfAFileNamesItsParameter) {
  const std::string folder = store_.path();
  WriteWholeFile(folder + "/empty.txt", "");
  WriteWholeFile(folder + "/a.pdf", "%PDF-1.7");
  for (const auto& [path, code] :
       {std::pair(folder + "/none.txt", Code::kNotFound), std::pair(folder, Code::kInvalidArgument),
        std::pair(folder + "/empty.txt", Code::kEmptyDocument),
        std::pair(folder + "/a.pdf", Code::kInvalidArgument),
        // Longer than a name may be.
        std::pair("/" + std::string(5000, 'x'), kIsWindows ? Code::kNotFound : Code::kIoError),
        std::pair(folder + std::string("/a\0b", 4), Code::kInvalidArgument)}) {
    const Status status = ReadTextFile(Env::Default(), path).status();
    EXPECT_EQ(CodeName(status.code()), CodeName(code)) << status.message();
    EXPECT_EQ(status.param(), "path") << status.message();
  }
}

TEST_F(EngineErrorsTest, NoEvidenceIsNoError) {
  IndexOne();
  auto session = NewEngine("")->Open("");
  ASSERT_TRUE(session.ok());
  AskOptions options;
  options.max_tokens = 2;
  options.max_evidence = 0;
  const auto answer = (*session)->Ask("Which road?", options);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_TRUE(answer->evidence.empty());
}

TEST_F(EngineErrorsTest, WrongModel) {
  IndexOne();
  Expect(AskStatus(1, ReaderModel()), Code::kModelMismatch, "index the document again");
  // A new plan is measured with the model, so that another one is no good for it either.
  const PlanChange change = {.layer_budget = "pyramid", .head_budget = {}, .kv_budget = 0.3f};
  Expect(NewEngine(ReaderModel())->ChangePlan("", change), Code::kModelMismatch, "give that model");
}

TEST_F(EngineErrorsTest, TruncatedShard) {
  const auto report = IndexOne();
  fs::resize_file(ShardPath(report), fs::file_size(ShardPath(report)) - 1000);
  Expect(AskStatus(), Code::kTruncated, "index the document again");
  const auto damage = NewEngine("")->Verify("", false);
  ASSERT_TRUE(damage.ok());
  ASSERT_EQ(damage->size(), 1u);
  EXPECT_EQ(damage->front().name, "manual");
}

TEST_F(EngineErrorsTest, FlippedByteInRows) {
  const auto report = IndexOne();
  std::string shard = ReadWholeFile(ShardPath(report));
  shard[shard.size() / 3] ^= 1;
  WriteWholeFile(ShardPath(report), shard);
  Expect(AskStatus(), Code::kChecksumMismatch, "index the document again");
  const auto quick = NewEngine("")->Verify("manual", true);
  ASSERT_TRUE(quick.ok());
  ASSERT_EQ(quick->size(), 1u);
  EXPECT_EQ(CodeName(quick->front().status.code()), CodeName(Code::kChecksumMismatch));
}

TEST_F(EngineErrorsTest, MissingShard) {
  const auto report = IndexOne();
  fs::remove(ShardPath(report));
  Expect(AskStatus(), Code::kMissingFile, "layer-001.shard");
}

TEST_F(EngineErrorsTest, ShardOfAnotherGeneration) {
  const auto report = IndexOne();
  IndexOptions options;
  options.name = "other";
  const auto other = NewEngine()->Index(InventedText(9000, 2), options);
  ASSERT_TRUE(other.ok());
  WriteWholeFile(ShardPath(report), ReadWholeFile(ShardPath(*other)));
  auto session = NewEngine("")->Open("manual");
  EXPECT_EQ(CodeName(session.status().code()), CodeName(Code::kCorrupt));
  EXPECT_TRUE(NewEngine("")->Open("other").ok());  // damage stays with its document
}

TEST_F(EngineErrorsTest, DamagedDocumentCanBeIndexedAgainAfterRemoval) {
  const auto report = IndexOne();
  fs::remove(ShardPath(report));
  ASSERT_TRUE(NewEngine("")->Remove("manual").ok());
  EXPECT_FALSE(fs::exists(store_.path() + "/docs/" + report.document + "/1"));
  IndexOne();
  EXPECT_TRUE(AskStatus().ok());
}

TEST_F(EngineErrorsTest, EmptyDocument) {
  Expect(NewEngine()->Index("", {}).status(), Code::kEmptyDocument, "empty");
  Expect(NewEngine()->Index(" \n\t\r\n", {}).status(), Code::kEmptyDocument, "empty");
}

// A longer document is indexed in parts (parts_test.cc), unless not even those have room.
TEST_F(EngineErrorsTest, DocumentLongerThanTheModelAllows) {
  const TempFolder model;
  for (const auto& file : fs::directory_iterator(TinyModel())) fs::copy(file, model.path());
  const std::string config = ReadWholeFile(model.path() + "/config.json");
  const size_t at = config.find("32768");
  ASSERT_NE(at, std::string::npos);
  const auto set_positions = [&](const std::string& positions) {
    WriteWholeFile(model.path() + "/config.json", std::string(config).replace(at, 5, positions));
  };
  set_positions("100");
  Expect(NewEngine(model.path())->Index(InventedText(9000, 1), {}).status(), Code::kContextTooLong,
         "100 positions");
  EXPECT_TRUE(NewEngine(model.path())->List()->empty());
  set_positions("1000");
  // A document that fits, a question that does not.
  const auto engine = NewEngine(model.path());
  ASSERT_TRUE(engine->Index(InventedText(1200, 1), {}).ok());
  auto session = engine->Open("");
  ASSERT_TRUE(session.ok());
  Expect((*session)->Ask(InventedText(9000, 2), {}).status(), Code::kContextTooLong, "1000");
  EXPECT_TRUE((*session)->Ask("Which road?", {}).ok());
}

TEST_F(EngineErrorsTest, ReadOnlyStore) {
  IndexOne();
  fs::permissions(store_.path(), fs::perms::owner_read | fs::perms::owner_exec);
  if (std::ofstream(store_.path() + "/x").is_open()) {
    GTEST_SKIP() << "root, or Windows, writes there: tests/tools covers it unprivileged";
  }
  Expect(NewEngine()->Index(InventedText(9000, 3), {}).status(), Code::kReadOnly, store_.path());
  EXPECT_TRUE(AskStatus().ok());
  fs::permissions(store_.path(), fs::perms::owner_all);
}

TEST_F(EngineErrorsTest, BudgetThatIsTooSmall) {
  IndexOne();
  const Status status = AskStatus(0.01f);
  Expect(status, Code::kBudgetTooSmall, "smallest possible is");
  const double smallest =
      std::stod(status.message().substr(status.message().find("possible is ") + 12));
  EXPECT_TRUE(AskStatus(static_cast<float>(smallest)).ok());
  EXPECT_EQ(AskStatus(static_cast<float>(smallest) * 0.98f).code(), Code::kBudgetTooSmall);
}

// It is a rule's own affair what it makes of the budget.
TEST_F(EngineErrorsTest, OnlyRulesWithAByteBudgetNeedASmallestOne) {
  IndexOne();
  const auto session = std::move(NewEngine()->Open("")).value();
  for (const std::string rule : {"default", "cap", "threshold", "top-p"}) {
    AskOptions options;
    options.kv_budget = 0.01f;
    options.rule = rule;
    options.max_tokens = 2;
    const Status status = session->Ask("Which road?", options).status();
    const bool has_budget = rule == "default" || rule == "cap";
    EXPECT_EQ(status.code(), has_budget ? Code::kBudgetTooSmall : Code::kOk) << rule;
  }
}

TEST_F(EngineErrorsTest, OptionsOutOfRange) {
  IndexOne();
  const auto engine = NewEngine();
  auto session = engine->Open("");
  ASSERT_TRUE(session.ok());
  const auto ask = [&](auto change) {
    AskOptions options;
    change(options);
    return (*session)->Ask("Which road?", options).status();
  };
  EXPECT_EQ(ask([](AskOptions& o) { o.kv_budget = 1.5f; }).param(), "kv_budget");
  EXPECT_EQ(ask([](AskOptions& o) { o.kv_budget = NAN; }).param(), "kv_budget");
  EXPECT_EQ(ask([](AskOptions& o) { o.sampling.temperature = -1; }).param(), "temperature");
  EXPECT_EQ(ask([](AskOptions& o) { o.sampling.top_p = 0; }).param(), "top_p");
  const Status rule = ask([](AskOptions& o) { o.rule = "best"; });
  Expect(rule, Code::kInvalidArgument, "default, threshold, cap or top-p");
  EXPECT_EQ(rule.param(), "rule");
  for (const double mass : {-0.5, 1.0, double{NAN}}) {
    EXPECT_EQ(ask([mass](AskOptions& o) { o.rule = "top-p", o.mass = mass; }).param(), "mass");
  }
  Expect(ask([](AskOptions& o) { o.mass = 0.9; }), Code::kInvalidArgument, "rule top-p alone");
  EXPECT_EQ(ask([](AskOptions& o) { o.max_tokens = 0; }).param(), "max_tokens");
  IndexOptions index;
  index.num_levels = 4;
  EXPECT_EQ(engine->Index("some text", index).status().param(), "levels");
  index = {};
  index.cluster_keys = "turned";
  Expect(engine->Index("some text", index).status(), Code::kInvalidArgument,
         "unrotated or stored, not \"turned\"");
  EXPECT_EQ(engine->Index("some text", index).status().param(), "cluster_keys");
  index = {};
  index.kv_budget = 0;
  EXPECT_EQ(engine->Index("some text", index).status().param(), "kv_budget");
  index = {};
  index.kv_dtype = Dtype::kQ8;  // the tiny model's head_dim is 16
  EXPECT_EQ(engine->Index("some text", index).status().param(), "kv_type");
}

TEST_F(EngineErrorsTest, NoStoreNoDocumentSeveralDocuments) {
  Expect(NewEngine()->Open("").status(), Code::kNotFound, "index a document first");
  IndexOne("a");
  Expect(NewEngine()->Open("b").status(), Code::kNotFound, "\"a\"");
  IndexOptions options;
  options.name = "c";
  ASSERT_TRUE(NewEngine()->Index(InventedText(500, 7), options).ok());
  Expect(NewEngine()->Open("").status(), Code::kAmbiguous, "\"c\"");
}

TEST_F(EngineErrorsTest, InterruptedDocumentIsNotReady) {
  IndexOptions options;
  options.name = "half";
  // In the prefill, however many reports there are before it.
  int calls = 0;
  options.on_progress = [&](const IndexProgress& progress) {
    return progress.stage != IndexProgress::Stage::kPrefill || ++calls < 3;
  };
  Expect(NewEngine()->Index(InventedText(15000, 8), options).status(), Code::kCancelled,
         "goes on from token");
  Expect(NewEngine()->Open("half").status(), Code::kNotReady, "again");
}

TEST_F(EngineErrorsTest, ModelFolderThatIsGone) {
  const TempFolder model;
  fs::create_directory(model.path() + "/m");
  for (const auto& file : fs::directory_iterator(TinyModel())) fs::copy(file, model.path() + "/m");
  ASSERT_TRUE(NewEngine(model.path() + "/m")->Index(InventedText(9000, 1), {}).ok());
  fs::remove_all(model.path() + "/m");
  Expect(AskStatus(), Code::kNotFound, model.path());
}

TEST_F(EngineErrorsTest, AModelFolderMayConsistOfLinks) {
  const TempFolder model;
  for (const auto& file : fs::directory_iterator(TinyModel())) {
    std::error_code error;
    fs::create_symlink(file.path(), model.path() + "/" + file.path().filename().string(), error);
    if (error == std::errc::function_not_supported) GTEST_SKIP() << "no links here";
    ASSERT_FALSE(error) << error.message();
  }
  EXPECT_TRUE(NewEngine(model.path())->Index(InventedText(900, 1), {}).ok());
}

TEST_F(EngineErrorsTest, DamagedCheckpointStartsAnewAndEndsWithTheSameBytes) {
  const TempFolder other;
  auto whole = Engine::Create({.store = other.path(), .model = TinyModel(), .num_threads = 2});
  const std::string text = InventedText(15000, 9);
  const auto expected = (*whole)->Index(text, {});
  ASSERT_TRUE(expected.ok());
  for (const char* file : {"checkpoint", "spill-000", "spill-001"}) {
    IndexOptions options;
    options.checkpoint_seconds = 0;
    // In the prefill, however many reports there are before it.
    int calls = 0;
    options.on_progress = [&](const IndexProgress& progress) {
      return progress.stage != IndexProgress::Stage::kPrefill || ++calls < 4;
    };
    ASSERT_EQ(NewEngine()->Index(text, options).status().code(), Code::kCancelled);
    const std::string directory = store_.path() + "/docs/" + expected->document + "/";
    for (const auto& generation : fs::directory_iterator(directory)) {
      std::string bytes = ReadWholeFile(generation.path().string() + "/" + file);
      bytes[100] ^= 4;
      WriteWholeFile(generation.path().string() + "/" + file, bytes);
    }
    const auto report = NewEngine()->Index(text, {});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->resumed_tokens, 0u) << file;
    EXPECT_TRUE(AskStatus().ok());
    ASSERT_TRUE(NewEngine()->Remove(report->document).ok());
  }
}

}  // namespace
}  // namespace lectern
