// Tests allocations. No token of an answer allocates. Where the n-th allocation fails, alone or with
// all after it, in opening, asking and indexing, the C API says out of memory, nothing leaks, the
// same call succeeds afterwards, and the store is whole.
//
// "Allocation": operator new, of ours and of the C++ libraries that we call; what only calls malloc
// (SQLite, OpenSSL) is left alone. Each failure has a process of its own. One that ends in an abort
// or a leak inside of a library is counted and named; one of ours is an error.
//
// LECTERN_ALLOCATIONS: how many are sampled (12) in each case; "all": every one of opening and
// asking, the first 2000 and 2000 others of indexing. LECTERN_SEED: of the sample (1).
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>

#include "engine/forward/step_batch.h"
#include "engine/lectern_c.h"
#include "tests/engine/test_documents.h"

namespace {

// ---- operator new ----

std::atomic<uint64_t> num_allocations{0};
std::atomic<int64_t> num_live{0};
std::atomic<uint64_t> fail_at{UINT64_MAX};
std::atomic<bool> fails_on{false};  // and all after it
char* failed_in = nullptr;          // where to write the library that asked; kLibraryBytes
constexpr size_t kLibraryBytes = 64;

const char* BaseName(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// Whose code called operator new from `caller`, the standard library between them left out. Nothing
// is written for ours.
void NoteLibrary(void* caller) {
  void* frames[64];
  const int count = backtrace(frames, 64);
  Dl_info ours, info;
  if (dladdr(reinterpret_cast<void*>(&NoteLibrary), &ours) == 0) return;
  int i = 0;
  while (i < count && frames[i] != caller) ++i;
  for (; i < count && dladdr(frames[i], &info) != 0; ++i) {
    if (std::strncmp(BaseName(info.dli_fname), "libstdc++", 9) == 0) continue;
    if (info.dli_fbase == ours.dli_fbase) return;
    std::strncpy(failed_in, BaseName(info.dli_fname), kLibraryBytes - 1);
    return;
  }
}

void* Allocate(size_t bytes, size_t alignment, void* caller) noexcept {
  const uint64_t n = num_allocations.fetch_add(1, std::memory_order_relaxed);
  const uint64_t at = fail_at.load(std::memory_order_relaxed);
  if (n == at || (n > at && fails_on)) {
    if (n == at && failed_in != nullptr) NoteLibrary(caller);
    return nullptr;
  }
  void* const memory =
      alignment == 0
          ? std::malloc(bytes == 0 ? 1 : bytes)
          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory != nullptr) num_live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void* AllocateOrThrow(size_t bytes, size_t alignment, void* caller) {
  void* const memory = Allocate(bytes, alignment, caller);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void Release(void* memory) noexcept {
  if (memory != nullptr) num_live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

#define CALLER __builtin_return_address(0)
void* operator new(size_t bytes) { return AllocateOrThrow(bytes, 0, CALLER); }
void* operator new[](size_t bytes) { return AllocateOrThrow(bytes, 0, CALLER); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, static_cast<size_t>(alignment), CALLER);
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, static_cast<size_t>(alignment), CALLER);
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, 0, CALLER);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, 0, CALLER);
}
#undef CALLER
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete[](void* memory) noexcept { Release(memory); }
void operator delete(void* memory, size_t) noexcept { Release(memory); }
void operator delete[](void* memory, size_t) noexcept { Release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { Release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { Release(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { Release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { Release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { Release(memory); }

namespace lectern {
namespace {

using testing::InventedText;
using testing::TempFolder;
using testing::TinyModel;

// ---- What is done, over the C API ----

constexpr char kQuestion[] = "Who crossed the old bridge?";

// The report of a process in which an allocation failed.
struct Outcome {
  uint64_t num_allocations;
  lectern_code code, again;
  int64_t leaked;
  int descriptors_leaked;
  bool intact;
  char failed_in[kLibraryBytes];
  char message[256];  // of the first error
};

char* first_message = nullptr;  // where to write it; of Outcome

void Take(lectern_error* error) {
  size_t length = 0;
  const char* const message = error ? lectern_error_message(error, &length) : nullptr;
  if (message != nullptr && first_message != nullptr && first_message[0] == 0) {
    std::strncpy(first_message, message, sizeof(Outcome::message) - 1);
  }
  lectern_error_free(error);
}

lectern_code CreateEngine(const std::string& store, uint64_t threads, lectern_engine** engine) {
  static const std::string model = TinyModel();
  lectern_engine_options options{};
  options.struct_size = sizeof options;
  options.store = store.data();
  options.store_len = store.size();
  options.model = model.data();
  options.model_len = model.size();
  options.num_threads = threads;
  lectern_error* error = nullptr;
  const lectern_code code = lectern_engine_create(&options, engine, &error);
  Take(error);
  return code;
}

lectern_code OpenSession(lectern_engine* engine, lectern_session** session) {
  lectern_error* error = nullptr;
  const lectern_code code = lectern_session_open(engine, "kept", 4, session, &error);
  Take(error);
  return code;
}

// `is_answered`: the session has had its answer, which may not have become JSON.
lectern_code Ask(lectern_session* session, bool* is_answered = nullptr) {
  lectern_ask_options options{};
  options.struct_size = sizeof options;
  options.max_tokens = 3;
  lectern_answer* answer = nullptr;
  lectern_error* error = nullptr;
  lectern_code code =
      lectern_session_ask(session, kQuestion, sizeof kQuestion - 1, &options, &answer, &error);
  Take(error);
  if (is_answered != nullptr) *is_answered = code == LECTERN_OK;
  if (code == LECTERN_OK) {
    lectern_text* json = nullptr;
    code = lectern_answer_json(answer, LECTERN_OFFSET_UTF8, &json, nullptr);
    lectern_text_free(json);
  }
  lectern_answer_free(answer);
  return code;
}

lectern_code Index(lectern_engine* engine, const char* name, const std::string& text) {
  lectern_index_options options{};
  options.struct_size = sizeof options;
  options.name = name;
  options.name_len = std::strlen(name);
  lectern_index_report* report = nullptr;
  lectern_error* error = nullptr;
  const lectern_code code =
      lectern_engine_index(engine, text.data(), text.size(), &options, &report, &error);
  Take(error);
  lectern_index_report_free(report);
  return code;
}

bool IsWhole(lectern_engine* engine, size_t num_documents) {
  size_t num_ready = 0, num_damaged = 0;
  const auto count_ready = [](const lectern_document* document, void* user) {
    *static_cast<size_t*>(user) += std::string_view(document->state) == "ready";
  };
  const auto count = [](const lectern_damage*, void* user) { ++*static_cast<size_t*>(user); };
  return lectern_engine_list(engine, count_ready, &num_ready, nullptr, nullptr) == LECTERN_OK &&
         lectern_engine_verify(engine, "", 0, 1, count, &num_damaged, nullptr, nullptr) ==
             LECTERN_OK &&
         num_ready >= num_documents && num_damaged == 0;
}

// ---- A case: what is there before, what fails, what has to work afterwards ----

class Case {
 public:
  virtual ~Case() = default;
  virtual void SetUp() {}  // in the process of the failure, before it
  virtual lectern_code Attempt() = 0;
  // Allocations that the last attempt rightly left behind.
  virtual int64_t Kept() const { return 0; }
  virtual void TearDown() {}
  virtual bool IsIntact(bool /*was_repeated*/) { return true; }
};

class OpenCase : public Case {
 public:
  explicit OpenCase(const std::string& store) : store_(store) {}
  lectern_code Attempt() override {
    lectern_engine* engine = nullptr;
    lectern_session* session = nullptr;
    lectern_code code = CreateEngine(store_, 1, &engine);
    if (code == LECTERN_OK) code = OpenSession(engine, &session);
    lectern_session_free(session);
    lectern_engine_free(engine);
    return code;
  }

 private:
  const std::string store_;
};

class AskCase : public Case {
 public:
  AskCase(const std::string& store, uint64_t threads) : store_(store), threads_(threads) {}
  void SetUp() override {
    CreateEngine(store_, threads_, &engine_);
    OpenSession(engine_, &session_);
    // Memory that a session keeps from one question to the next is no leak; the first alone has
    // nothing before its question.
    Ask(session_);
    Ask(session_);
  }
  lectern_code Attempt() override { return Ask(session_, &is_answered_); }
  int64_t Kept() const override { return is_answered_ ? 1 : 0; }  // the question, for follow-ups
  void TearDown() override {
    lectern_session_free(session_);
    lectern_engine_free(engine_);
  }

 private:
  const std::string store_;
  const uint64_t threads_;
  lectern_engine* engine_ = nullptr;
  lectern_session* session_ = nullptr;
  bool is_answered_ = false;
};

class IndexCase : public Case {
 public:
  IndexCase(const std::string& store, const std::string& scratch, std::string text,
            uint64_t threads)
      : store_(store), copy_(scratch + "/store"), text_(std::move(text)), threads_(threads) {}
  void SetUp() override {
    std::filesystem::remove_all(copy_);
    std::filesystem::copy(store_, copy_, std::filesystem::copy_options::recursive);
  }
  lectern_code Attempt() override {
    lectern_engine* engine = nullptr;
    lectern_code code = CreateEngine(copy_, threads_, &engine);
    if (code == LECTERN_OK) code = Index(engine, "new", text_);
    lectern_engine_free(engine);
    return code;
  }
  bool IsIntact(bool was_repeated) override {
    lectern_engine* engine = nullptr;
    const bool whole =
        CreateEngine(copy_, 1, &engine) == LECTERN_OK && IsWhole(engine, was_repeated ? 2 : 1);
    lectern_engine_free(engine);
    return whole;
  }

 private:
  const std::string store_, copy_, text_;
  const uint64_t threads_;
};

// ---- One failure in a process of its own ----

int OpenDescriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    count += entry.is_symlink();
  }
  return count;
}

class Sweep {
 public:
  // `seldom`: the attempt takes so long that only one in so many is repeated.
  Sweep(const char* name, Case& tried, uint64_t seldom = 1)
      : name_(name), case_(tried), seldom_(seldom) {
    void* const shared =
        mmap(nullptr, sizeof(Outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    outcome_ = static_cast<Outcome*>(shared);
  }
  ~Sweep() { munmap(outcome_, sizeof(Outcome)); }
  Sweep(const Sweep&) = delete;

  // Allocations of an attempt that succeeds.
  uint64_t Count() {
    Try(UINT64_MAX, false, true);
    EXPECT_EQ(outcome_->code, LECTERN_OK) << name_;
    EXPECT_EQ(outcome_->leaked, 0) << name_ << ": without any failure";
    return outcome_->num_allocations;
  }

  void Run(const std::set<uint64_t>& points, uint64_t total) {
    for (const uint64_t n : points) {
      for (const bool sticky : {false, true}) {
        Check(n, sticky, Try(n, sticky, num_tried_ % seldom_ == 0));
        ++num_tried_;
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
    std::string libraries;
    for (const auto& [library, count] : libraries_) {
      libraries += ", " + std::to_string(count) + " " + library;
    }
    std::printf(
        "trust: allocations of %s: %llu of %llu failed, once and on: %llu typed, %llu absorbed, "
        "0 leaks or crashes of ours%s\n",
        name_, static_cast<unsigned long long>(points.size()),
        static_cast<unsigned long long>(total), static_cast<unsigned long long>(num_typed_),
        static_cast<unsigned long long>(num_absorbed_), libraries.c_str());
  }

 private:
  // The wait status of the process.
  int Try(uint64_t n, bool sticky, bool repeats) {
    std::memset(outcome_, 0, sizeof *outcome_);
    const pid_t child = fork();
    if (child == 0) RunChild(n, sticky, repeats);
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  }

  [[noreturn]] void RunChild(uint64_t n, bool sticky, bool repeats) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(120);
    case_.SetUp();
    failed_in = outcome_->failed_in;
    first_message = outcome_->message;
    const int descriptors = OpenDescriptors();
    // A worker may still hold the end of its last job: here …
    int64_t live = num_live;
    for (int ms = 0; ms < 10; ++ms) {
      usleep(1000);
      live = std::min<int64_t>(live, num_live);
    }
    fails_on = sticky;
    num_allocations = 0;
    fail_at = n;
    outcome_->code = case_.Attempt();
    fail_at = UINT64_MAX;
    outcome_->num_allocations = num_allocations;
    // … and there.
    live += case_.Kept();
    for (int ms = 0; ms < 1000 && num_live > live; ++ms) usleep(1000);
    outcome_->leaked = num_live - live;
    outcome_->descriptors_leaked = OpenDescriptors() - descriptors;
    outcome_->intact = !repeats || case_.IsIntact(false);
    outcome_->again = repeats ? case_.Attempt() : LECTERN_OK;
    outcome_->intact = outcome_->intact && (!repeats || case_.IsIntact(true));
    case_.TearDown();
    _exit(0);
  }

  void Check(uint64_t n, bool sticky, int status) {
    const Outcome& o = *outcome_;
    const std::string where = std::string(name_) + ", allocation " + std::to_string(n) +
                              (sticky ? " and on" : "") + " in \"" + o.failed_in + "\"";
    if (o.failed_in[0] != 0 && (status != 0 || o.leaked > 0)) {
      ++libraries_[std::string(status != 0 ? "aborts in " : "leaks in ") + o.failed_in];
      return;
    }
    ASSERT_EQ(status, 0) << where << ": the process ended by signal " << WTERMSIG(status);
    ASSERT_TRUE(o.code == LECTERN_OK || o.code == LECTERN_OUT_OF_MEMORY)
        << where << ": " << lectern_code_name(o.code) << ", " << o.message;
    ASSERT_EQ(o.again, LECTERN_OK) << where << ": the repetition";
    ASSERT_TRUE(o.intact) << where << ": the store is damaged";
    ASSERT_EQ(o.leaked, 0) << where;
    ASSERT_EQ(o.descriptors_leaked, 0) << where;
    ++(o.code == LECTERN_OK ? num_absorbed_ : num_typed_);
  }

  const char* const name_;
  Case& case_;
  const uint64_t seldom_;
  Outcome* outcome_;
  uint64_t num_tried_ = 0, num_typed_ = 0, num_absorbed_ = 0;
  std::map<std::string, uint64_t> libraries_;
};

// ---- Which ones ----

std::string Wanted() {
  const char* const value = std::getenv("LECTERN_ALLOCATIONS");
  return value == nullptr ? "12" : value;
}

// The first `all_first` of all, and a sample of the others.
std::set<uint64_t> Points(uint64_t total, uint64_t all_first) {
  const char* const seed = std::getenv("LECTERN_SEED");
  std::mt19937_64 random(seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10));
  const bool all = Wanted() == "all";
  std::set<uint64_t> points;
  for (uint64_t n = 0; all && n < std::min(total, all_first); ++n) points.insert(n);
  const uint64_t sampled = all ? 2000 : std::strtoull(Wanted().c_str(), nullptr, 10);
  const uint64_t wanted = std::min<uint64_t>(points.size() + sampled, total);
  while (points.size() < wanted) points.insert(random() % total);
  return points;
}

// `all_first`, `seldom`: of Points and Sweep.
void FailAllocations(const char* name, Case& tried, uint64_t all_first, uint64_t seldom = 1) {
  Sweep sweep(name, tried, seldom);
  const uint64_t total = sweep.Count();
  sweep.Run(Points(total, all_first), total);
}

class AllocationsTest : public ::testing::Test {
 protected:
  // One document, unclustered or not; and what is set up once in a process has been.
  void MakeStore(const std::string& text) {
    void* frames[4];
    (void)backtrace(frames, 4);  // loads a library
    lectern_engine* engine = nullptr;
    lectern_session* session = nullptr;
    ASSERT_EQ(CreateEngine(store(), 1, &engine), LECTERN_OK);
    ASSERT_EQ(Index(engine, "kept", text), LECTERN_OK);
    ASSERT_EQ(OpenSession(engine, &session), LECTERN_OK);
    ASSERT_EQ(Ask(session), LECTERN_OK);
    lectern_session_free(session);
    lectern_engine_free(engine);
  }
  std::string store() const { return folder_.path() + "/kept"; }
  const std::string& scratch() const { return folder_.path(); }
  static std::string Clustered(uint64_t seed) { return InventedText(6000, seed); }

 private:
  TempFolder folder_;
};

// A step keeps its memory for the next one, so the first answers of a session may allocate.
TEST_F(AllocationsTest, TokensTakeNone) {
  MakeStore(Clustered(1));
  for (const uint64_t threads : {1, 2}) {
    for (const float kv_budget : {0.2f, 1.0f}) {
      lectern_engine* engine = nullptr;
      lectern_session* session = nullptr;
      ASSERT_EQ(CreateEngine(store(), threads, &engine), LECTERN_OK);
      ASSERT_EQ(OpenSession(engine, &session), LECTERN_OK);
      std::vector<uint64_t> after_piece;
      after_piece.reserve(1000);
      lectern_ask_options options{};
      options.struct_size = sizeof options;
      options.max_tokens = 64;
      options.kv_budget = kv_budget;
      options.text_user = &after_piece;
      options.on_text = [](const char*, size_t, void* user) {
        static_cast<std::vector<uint64_t>*>(user)->push_back(num_allocations);
        return int32_t{0};
      };
      for (int i = 0; i < 4; ++i) {
        after_piece.clear();
        lectern_answer* answer = nullptr;
        ASSERT_EQ(lectern_session_ask(session, kQuestion, sizeof kQuestion - 1, &options, &answer,
                                      nullptr),
                  LECTERN_OK);
        lectern_answer_free(answer);
      }
      ASSERT_GT(after_piece.size(), 20u);
      EXPECT_EQ(after_piece.back() - after_piece[1], 0u)
          << after_piece.size() << " pieces, " << threads << " threads, budget " << kv_budget;
      lectern_session_free(session);
      lectern_engine_free(engine);
    }
  }
}

TEST_F(AllocationsTest, OpeningADocument) {
  MakeStore(InventedText(300, 1));
  OpenCase open(store());
  FailAllocations("opening", open, UINT64_MAX);
}

TEST_F(AllocationsTest, AskingAClusteredDocument) {
  MakeStore(Clustered(1));
  AskCase ask(store(), 1);
  FailAllocations("asking", ask, UINT64_MAX);
}

TEST_F(AllocationsTest, AskingOnTwoThreads) {
  MakeStore(Clustered(1));
  AskCase ask(store(), 2);
  FailAllocations("asking on two threads", ask, 0);
}

// Else the next pass would go on with a step whose session has left.
TEST_F(AllocationsTest, AStepThatFindsNoMemoryTakesNoPartInTheNextPass) {
  const auto model = Model::Load(Env::Default(), TinyModel());
  ASSERT_TRUE(model.ok());
  const auto threads = std::make_shared<ThreadPool>(1);
  const Transformer transformer(**model, *DefaultBackend(), *threads);
  Activations a((*model)->config(), 1, 1);
  std::vector<float> logits((*model)->config().vocab_size);
  const int32_t id = 7;
  uint64_t num_failed = 0;
  for (bool has_failed = true; has_failed;) {
    StepBatch batch(*model, *DefaultBackend(), threads);
    StepBatch::Seat seat;
    const auto run = [&] {
      transformer.Embed({&id, 1}, 0, a);
      return batch.Run(
          seat, a, {logits.data(), 1, logits.size()},
          [](uint32_t, Activations&, size_t) { return Status(); }, nullptr);
    };
    num_allocations = 0;
    fail_at = num_failed;
    try {
      (void)run();
      has_failed = false;
    } catch (const std::bad_alloc&) {
      ++num_failed;
    }
    fail_at = UINT64_MAX;
    ASSERT_TRUE(run().ok());
    EXPECT_EQ(batch.counts().tokens, has_failed ? 1u : 2u) << num_failed;
  }
  EXPECT_GE(num_failed, 2u);
}

TEST_F(AllocationsTest, IndexingASmallDocument) {
  MakeStore(InventedText(300, 1));
  IndexCase index(store(), scratch(), InventedText(500, 2), 1);
  FailAllocations("indexing", index, 2000);
}

TEST_F(AllocationsTest, IndexingAClusteredDocument) {
  if (std::getenv("LECTERN_ALLOCATIONS") == nullptr) GTEST_SKIP() << "takes long; trust.sh --full";
  MakeStore(InventedText(300, 1));
  IndexCase index(store(), scratch(), Clustered(2), 2);
  FailAllocations("indexing with clusters on two threads", index, 2000, 10);
}

}  // namespace
}  // namespace lectern
