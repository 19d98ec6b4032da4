// Documents and weights by Io::kPread: the same answers as mapped; every byte that is used was
// loaded and verified before; what happens to the files meanwhile is an error, never a signal.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/engine/test_documents.h"
#include "tests/store/env_for_tests.h"

namespace lectern {
namespace {

using testing::InventedText;
using testing::TempFolder;
using testing::TinyModel;

constexpr char kQuestion[] = "Which quiet farmer crossed the river?";

// Memory that cannot be touched where nothing was loaded.
class GuardedMirror : public MappedFile {
 public:
  explicit GuardedMirror(std::unique_ptr<MappedFile> file, const bool& fails)
      : file_(std::move(file)), fails_(fails) {
    data_ = ::mmap(nullptr, size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  ~GuardedMirror() override { ::munmap(data_, size()); }
  const std::byte* data() const override { return static_cast<const std::byte*>(data_); }
  uint64_t size() const override { return file_->size(); }
  Status Load(uint64_t offset, uint64_t bytes) const override {
    if (fails_) return Status(Code::kIoError, "injected");
    EXPECT_EQ(offset % 65536, 0u);
    ::mprotect(At(offset), bytes, PROT_READ | PROT_WRITE);
    LECTERN_RETURN_IF_ERROR(file_->ReadAt(offset, At(offset), bytes));
    ::mprotect(At(offset), bytes, PROT_READ);
    return {};
  }
  Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
    return file_->ReadAt(offset, to, bytes);
  }
  void WillNeed(uint64_t, uint64_t) const override {}
  void DontNeed(uint64_t offset, uint64_t bytes) const override {
    ::mprotect(At(offset), bytes, PROT_NONE);
  }

 private:
  char* At(uint64_t offset) const { return static_cast<char*>(data_) + offset; }
  const std::unique_ptr<MappedFile> file_;
  const bool& fails_;
  void* data_;
};

class GuardedEnv : public ForwardingEnv {
 public:
  Result<std::unique_ptr<MappedFile>> Mirror(const std::string& path) override {
    LECTERN_ASSIGN(auto file, ForwardingEnv::Mirror(path));
    return std::unique_ptr<MappedFile>(new GuardedMirror(std::move(file), fails));
  }
  bool fails = false;
};

// A store with one document, indexed once; each test has a copy.
class IoTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static const TempFolder original;
    static const bool indexed = [] {
      auto engine = Engine::Create({.store = original.path(), .model = TinyModel()});
      return (*engine)->Index(InventedText(14000, 5), {}).ok();
    }();
    ASSERT_TRUE(indexed);
    std::filesystem::copy(original.path(), store_, std::filesystem::copy_options::recursive);
    engine_ = NewEngine(Io::kPread, TinyModel());
    row_ = std::move((*engine_->List())[0]);
  }

  std::unique_ptr<Engine> NewEngine(Io io, const std::string& model) {
    return std::move(Engine::Create({.store = store_, .model = model, .num_threads = 2, .io = io}))
        .value();
  }
  std::unique_ptr<DocumentSession> OpenSession(Env& env, Io io) {
    const auto shards = engine_->Shards(row_);
    auto document = Document::Open(env, Directory(), row_, *shards, {.io = io, .ram = ram_});
    EXPECT_TRUE(document.ok()) << document.status().message();
    static const auto model =
        std::move(Model::Load(Env::Default(), TinyModel(), {.io = io, .store = ""})).value();
    return std::move(DocumentSession::Create(*document, model, *DefaultBackend(),
                                             std::make_shared<ThreadPool>(2), 0))
        .value();
  }
  std::string Directory() const { return DocumentDirectory(store_, row_.id, row_.generation); }

  const TempFolder folder_;
  const std::string store_ = folder_.path() + "/store";
  std::unique_ptr<Engine> engine_;
  DocumentRow row_;
  std::shared_ptr<RamLimit> ram_;  // of OpenSession
};

AskOptions AtBudget(float budget) {
  AskOptions options;
  options.kv_budget = budget;
  options.max_tokens = 5;
  return options;
}

// Every way to read: each touches other sections in another order.
std::vector<AskOptions> AllWays() {
  std::vector<AskOptions> ways = {AtBudget(0.15f), AtBudget(0.5f), AtBudget(1)};
  for (const char* rule : {"threshold", "cap", "top-p"}) {
    ways.push_back(AtBudget(0.15f));
    ways.back().rule = rule;
  }
  ways.push_back(AtBudget(0.15f));
  ways.back().tail = false;
  ways.push_back(AtBudget(0.15f));
  ways.back().max_missed = 0.3;
  ways.push_back(AtBudget(0.15f));
  ways.back().layer_budget = "kv-compress";
  ways.back().head_budget = "kv-compress";
  ways.push_back(AtBudget(0.15f));
  ways.back().fallback = Fallback::kExact;
  return ways;
}

TEST_F(IoTest, EveryByteIsVerifiedBeforeItIsUsed) {
  GuardedEnv guarded;
  for (const AskOptions& options : AllWays()) {
    const auto mapped = OpenSession(Env::Default(), Io::kMmap)->Ask(kQuestion, options);
    const auto read = OpenSession(guarded, Io::kPread)->Ask(kQuestion, options);
    ASSERT_TRUE(mapped.ok() && read.ok()) << read.status().message();
    EXPECT_EQ(read->text, mapped->text);
    EXPECT_EQ(read->kv.bytes_read, mapped->kv.bytes_read);
    ASSERT_EQ(read->evidence.size(), mapped->evidence.size());
    for (size_t i = 0; i < read->evidence.size(); ++i) {
      EXPECT_EQ(read->evidence[i].mass, mapped->evidence[i].mass);
    }
  }
}

TEST_F(IoTest, AFileThatIsCutUnderARunningSessionIsAnError) {
  const auto has_read_all = NewEngine(Io::kPread, TinyModel());
  auto other = has_read_all->Open("");
  const auto before = (*other)->Ask(kQuestion, AtBudget(1));
  auto session = engine_->Open("");
  ASSERT_TRUE(session.ok() && before.ok());
  const std::string path = Directory() + "/" + LayerFile(1);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, 70000);
  const auto cut = (*session)->Ask(kQuestion, AtBudget(1));
  EXPECT_EQ(cut.status().code(), Code::kTruncated);
  EXPECT_NE(cut.status().message().find(path), std::string::npos);
  EXPECT_NE(cut.status().message().find("ends before byte"), std::string::npos);
  const auto after = (*(other = has_read_all->Open("")))->Ask(kQuestion, AtBudget(1));
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(after->text, before->text);
  // It is long again, but not what it was.
  std::filesystem::resize_file(path, size);
  EXPECT_EQ((*session)->Ask(kQuestion, AtBudget(1)).status().code(), Code::kChecksumMismatch);
}

TEST_F(IoTest, AfterAnErrorOfTheDiskTheSessionGoesOn) {
  GuardedEnv guarded;
  const auto expected = OpenSession(Env::Default(), Io::kMmap)->Ask(kQuestion, AtBudget(1));
  const auto session = OpenSession(guarded, Io::kPread);
  guarded.fails = true;
  EXPECT_EQ(session->Ask(kQuestion, AtBudget(1)).status().code(), Code::kIoError);
  guarded.fails = false;
  const auto answer = session->Ask(kQuestion, AtBudget(1));
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->text, expected->text);
}

TEST_F(IoTest, WeightsAreInMemoryOnceTheModelIsOpen) {
  const std::string copy = folder_.path() + "/model";
  std::filesystem::copy(TinyModel(), copy, std::filesystem::copy_options::recursive);
  const auto engine = NewEngine(Io::kPread, copy);
  const auto before = (*engine->Open(""))->Ask(kQuestion, AtBudget(1));
  ASSERT_TRUE(before.ok()) << before.status().message();
  for (const char* file : {"model.safetensors", "tokenizer.model", "config.json"}) {
    std::filesystem::permissions(copy + "/" + file, std::filesystem::perms::owner_all);
    std::filesystem::resize_file(copy + "/" + file, 1);
  }
  const auto after = (*engine->Open(""))->Ask(kQuestion, AtBudget(1));
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(after->text, before->text);
}

// The limit fits exactly: the pages of each layer are let go when the next layer is read.
TEST_F(IoTest, PagesOfDocumentsKeepALimit) {
  const auto expected = OpenSession(Env::Default(), Io::kMmap)->Ask(kQuestion, AtBudget(1));
  GuardedEnv guarded;  // a page that went too early would be a crash
  ram_ = std::make_shared<RamLimit>(uint64_t{1} << 40);
  uint64_t least = 0;
  {
    const auto session = OpenSession(guarded, Io::kPread);
    const auto answer = session->Ask(kQuestion, AtBudget(1));
    ASSERT_TRUE(answer.ok());
    least = ram_->reserved();
    EXPECT_GT(ram_->pages(), 0);
  }
  EXPECT_EQ(ram_->reserved(), 0u);
  EXPECT_EQ(ram_->pages(), 0);
  for (const Io io : {Io::kMmap, Io::kPread}) {
    ram_ = std::make_shared<RamLimit>(least);
    const auto session = OpenSession(guarded, io);
    session->probe().on_layer = [&](const LayerStep&) { EXPECT_EQ(ram_->pages(), 0); };
    const auto answer = session->Ask(kQuestion, AtBudget(1));
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer->text, expected->text);
    // A question that there is no room for: what the conversation takes stays counted.
    session->probe().on_layer = nullptr;
    EXPECT_EQ(session->Ask(kQuestion, AtBudget(1)).status().code(), Code::kOutOfMemory);
    EXPECT_EQ(ram_->reserved(), least);
  }
  ram_ = std::make_shared<RamLimit>(least - 1);
  const Status refused = OpenSession(guarded, Io::kPread)->Ask(kQuestion, AtBudget(1)).status();
  EXPECT_EQ(refused.code(), Code::kOutOfMemory);
  EXPECT_EQ(refused.param(), "max_ram");
}

// Half of what it would like is set aside for pages: it uses all of that and no more.
TEST_F(IoTest, ManyThreadsKeepALimit) {
  const auto expected = (*engine_->Open(""))->Ask(kQuestion, AtBudget(1));
  GuardedEnv guarded;
  ram_ = std::make_shared<RamLimit>(uint64_t{1} << 40);
  const auto first = OpenSession(guarded, Io::kPread);
  ASSERT_TRUE(first->Ask(kQuestion, AtBudget(1)).ok());
  const uint64_t all = ram_->reserved() + static_cast<uint64_t>(ram_->pages());
  ram_ = std::make_shared<RamLimit>(3 * all);
  const auto opened = OpenSession(guarded, Io::kPread);
  const std::shared_ptr<const Document> document(std::shared_ptr<void>(), &opened->indexed());
  static const auto model = std::move(Model::Load(Env::Default(), TinyModel())).value();
  std::vector<std::thread> threads;
  std::vector<std::string> said(3);
  for (std::string& answer : said) {
    threads.emplace_back([&] {
      const auto session = std::move(DocumentSession::Create(document, model, *DefaultBackend(),
                                                             std::make_shared<ThreadPool>(1), 0))
                               .value();
      for (int i = 0; i < 3; ++i) {
        answer = session->Ask(kQuestion, AtBudget(1))->text;
        session->Forget();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& answer : said) EXPECT_EQ(answer, expected->text);
}

// A plan is changed within the limit or not at all.
TEST_F(IoTest, ChangingAPlanKeepsALimit) {
  const PlanChange change = {.layer_budget = "", .head_budget = "", .kv_budget = 0.3f};
  bool done = false, refused_to_copy = false;
  for (uint64_t limit = 1 << 20; !done; limit += limit / 16) {
    ASSERT_LT(limit, uint64_t{1} << 30);
    const auto engine = std::move(Engine::Create({.store = store_,
                                                  .model = TinyModel(),
                                                  .num_threads = 2,
                                                  .io = Io::kPread,
                                                  .max_ram_bytes = limit}))
                            .value();
    const Status changed = engine->ChangePlan("", change);
    done = changed.ok();
    if (done) break;
    ASSERT_EQ(changed.code(), Code::kOutOfMemory) << changed.message();
    EXPECT_EQ(changed.param(), "max_ram");
    refused_to_copy |= changed.message().find("copying the document") != std::string::npos;
    EXPECT_EQ((*engine_->List())[0].generation, row_.generation);
  }
  EXPECT_TRUE(refused_to_copy);
  EXPECT_GT((*engine_->List())[0].generation, row_.generation);
}

TEST_F(IoTest, ManyThreadsLoadOneDocument) {
  const auto expected = (*engine_->Open(""))->Ask(kQuestion, AtBudget(0.3f));
  const auto engine = NewEngine(Io::kPread, TinyModel());  // nothing is loaded yet
  std::vector<std::thread> threads;
  std::vector<std::string> said(4);
  for (std::string& answer : said) {
    threads.emplace_back([&] {
      auto session = engine->Open("");
      if (session.ok()) answer = (*session)->Ask(kQuestion, AtBudget(0.3f))->text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& answer : said) EXPECT_EQ(answer, expected->text);
}

}  // namespace
}  // namespace lectern
