// Every system call that index-document makes to read, change or lock files: the program is killed
// there, or the call fails, once or from then on. What was indexed before is whole, the new
// document is all there or not at all, and the same command again ends with the bytes of one that
// nothing happened to, by going on where it was.
//
// LECTERN_CALL_STRIDE: one call in so many, of each kind of failure (397); 1: all, but with
// clusters, where a run takes five times as long, one in five with each error: every call has some
// of them.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>

#include "store/crc32c.h"
#include "store/store.h"
#include "tests/store/failing_calls.h"
#include "tests/store/sample_shard.h"
#include "tests/store/sample_store.h"
#include "tests/system_differences.h"
#include "tests/tools/planned_program.h"

namespace lectern {
namespace {

namespace fs = std::filesystem;

constexpr char kProgram[] = LECTERN_FAILING_PROGRAM;
constexpr char kModel[] = LECTERN_SOURCE_DIR "/tests/golden/tiny";

int64_t Stride() {
  const char* const value = std::getenv("LECTERN_CALL_STRIDE");
  return value == nullptr ? 397 : std::strtoll(value, nullptr, 10);
}

// About 14 tokens each.
std::string Sentences(int begin, int end) {
  std::string text;
  for (int i = begin; i < end; ++i) text += "Lot " + std::to_string(i) + " was sold. ";
  return text;
}

// An error of Windows' calls. The search for retrieval heads takes it for a lack of memory, as it
// should, and the document is indexed without them: with other bytes.
constexpr int kNotEnoughMemory = 8;

struct Step {
  const char* name;
  std::string text;
  uint64_t reused_tokens;
  int64_t errors_stride;
};

// The second takes over the first 512 tokens of the first; the third has clusters.
std::vector<Step> Life() {
  return {{"index", Sentences(100, 160), 0, 1},
          {"index after an edit", Sentences(100, 155) + Sentences(700, 715), 512, 1},
          {"index with clusters", Sentences(300, 450), 0, 5}};
}

struct Outcome {
  int exit_status = 0;  // -1: killed
  std::string output;   // of either kind
};

// Documents that a reader sees, with every byte of their files.
Result<std::string> Look(const std::string& store) {
  Env& env = Env::Default();
  std::string seen;
  auto opened = Catalog::Open(env, CatalogPath(store), Catalog::Mode::kReadOnly);
  if (opened.status().code() == Code::kNotFound) return seen;
  LECTERN_ASSIGN(const auto catalog, std::move(opened));
  LECTERN_ASSIGN(const auto rows, catalog->List());
  for (const DocumentRow& row : rows) {
    if (row.state != DocumentState::kReady) continue;
    const std::string directory = DocumentDirectory(store, row.id, row.generation);
    LECTERN_RETURN_IF_ERROR(ReadGeneration(env, directory, row.id, row.generation).status());
    seen += ToHex(row.id) + " " + row.name + " " + std::to_string(row.generation);
    LECTERN_ASSIGN(const auto shards, catalog->Shards(row.generation));
    for (const ShardSummary& shard : shards) {
      const std::string bytes = ReadBytes(directory + "/" + shard.file);
      seen += " " + shard.file + " " + std::to_string(Crc32c(0, bytes.data(), bytes.size()));
    }
    seen += "\n";
  }
  return seen;
}

// The paths of everything in the store's docs and tmp.
std::string Names(const std::string& store) {
  std::vector<std::string> names;
  for (const char* part : {"/docs", "/tmp"}) {
    for (const auto& entry : fs::recursive_directory_iterator(store + part)) {
      names.push_back(entry.path().generic_string());
    }
  }
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string& name : names) all += name + "\n";
  return all;
}

class IndexSystemCallsTest : public testing::Test {
 protected:
  void SetUp() override {
    WriteBytes(plan_path_, std::string(sizeof(CallPlan), '\0'));
    program_.emplace(plan_path_);
    SetVariable("OPENBLAS_NUM_THREADS", "1");
    fs::create_directory(before_);
  }

  Outcome Run(const Step& step, const CallPlan& with) {
    program_->plan() = with;
    WriteBytes(text_, step.text);
    const int status =
        program_->Run({kProgram, "--store", store_, "--model", kModel, "--threads", "1", "--name",
                       "manual", "--progress", "none", "--json", text_},
                      output_);
    return {status, ReadBytes(output_)};
  }

  // A copy of the store as it is before the step.
  void Reset() const {
    fs::remove_all(work_);
    fs::copy(before_, work_, fs::copy_options::recursive);
  }

  struct Uninterrupted {
    std::string seen_before, seen, names;
  };

  void Try(const Step& step, const CallPlan& with, const Uninterrupted& expected) {
    Reset();
    const Outcome first = Run(step, with);
    const std::string where = std::string(step.name) + ", call " + std::to_string(with.at) +
                              (with.sticky ? " and on" : "") + ", error " +
                              std::to_string(with.error) + ": " + first.output;
    ++counts_.tried;
    ASSERT_EQ(first.exit_status == -1, with.fault == CallFault::kKill) << where;
    counts_.absorbed += first.exit_status == 0;
    if (first.exit_status > 0) {
      ASSERT_NE(first.output.find("\"code\":"), std::string::npos) << where;
      ASSERT_EQ(first.output.find("\"internal\""), std::string::npos) << where;
    }
    const auto seen = Look(store_);
    ASSERT_TRUE(seen.ok()) << where << seen.status().message();
    ASSERT_TRUE(*seen == expected.seen || (first.exit_status != 0 && *seen == expected.seen_before))
        << where << *seen;
    counts_.resumed += *seen == expected.seen_before && HasCheckpoint();
    if (first.exit_status != 0) {
      const Outcome again = Run(step, {});
      ASSERT_EQ(again.exit_status, 0) << where << "; again: " << again.output;
      ASSERT_EQ(*Look(store_), expected.seen) << where;
    }
    // The next collection removes the leftovers of a failure, and nothing else.
    ASSERT_TRUE(Collect().ok()) << where;
    ASSERT_EQ(*Look(store_), expected.seen) << where;
    ASSERT_EQ(Names(store_), expected.names) << where;
  }

  Status Collect() const {
    Env& env = Env::Default();
    return AsWriter(env, store_, [&](Catalog& catalog) {
      return CollectGarbage(env, store_, catalog).status();
    });
  }

  bool HasCheckpoint() const {
    if (!fs::exists(store_ + "/docs")) return false;
    for (const auto& entry : fs::recursive_directory_iterator(store_ + "/docs")) {
      if (entry.path().filename() == "checkpoint") return true;
    }
    return false;
  }

  // check(step, number of calls, what it ends with) for every step.
  void ForEachStep(const std::function<void(const Step&, int64_t, const Uninterrupted&)>& check) {
    for (const Step& step : Life()) {
      Reset();
      Uninterrupted expected;
      expected.seen_before = *Look(store_);
      const Outcome outcome = Run(step, {});
      ASSERT_EQ(outcome.exit_status, 0) << step.name << ": " << outcome.output;
      const int64_t num_calls = program_->plan().num_calls;
      ASSERT_GT(num_calls, 200);
      ASSERT_NE(outcome.output.find("\"reused_tokens\":" + std::to_string(step.reused_tokens)),
                std::string::npos)
          << outcome.output;
      expected.seen = *Look(store_);
      expected.names = Names(store_);
      const std::string next = work_ + ".next";
      fs::rename(work_, next);
      counts_ = {};
      check(step, num_calls, expected);
      if (HasFatalFailure()) return;
      fs::remove_all(before_);
      fs::rename(next, before_);
    }
  }

  void Report(const Step& step, const char* fault) const {
    std::printf(
        "trust: index-document (%s), %s: %d system calls, %d absorbed, %d gone on with, "
        "0 stores damaged\n",
        step.name, fault, counts_.tried, counts_.absorbed, counts_.resumed);
  }

  const TempDirectory dir_{MemoryDirectory()};
  const std::string before_ = dir_ / "before", work_ = dir_ / "work", store_ = work_ + "/store",
                    plan_path_ = dir_ / "plan", text_ = dir_ / "text", output_ = dir_ / "output";
  std::optional<PlannedProgram> program_;
  struct Counts {
    int tried = 0, absorbed = 0, resumed = 0;
  } counts_;  // of the step
};

TEST_F(IndexSystemCallsTest, BeingKilledAtAnyOfThemLosesNothing) {
  uint64_t num_resumed = 0;
  ForEachStep([&](const Step& step, int64_t num_calls, const Uninterrupted& expected) {
    for (int64_t at = num_calls * 3 / 4 % Stride(); at < num_calls && !HasFatalFailure();
         at += Stride()) {
      Try(step, {.fault = CallFault::kKill, .at = at}, expected);
    }
    num_resumed += counts_.resumed;
    Report(step, "kill -9");
  });
  EXPECT_GT(num_resumed, 0u);
}

TEST_F(IndexSystemCallsTest, AnyOfThemFailingIsATypedErrorAndCanBeRepeated) {
  int64_t which = 0;
  ForEachStep([&](const Step& step, int64_t num_calls, const Uninterrupted& expected) {
    const int64_t stride = Stride() * step.errors_stride;
    for (const int error : ErrorsOfCalls()) {
      if (error == kNotEnoughMemory && kIsWindows) continue;
      for (const bool sticky : {false, true}) {
        const CallFault fault = error == 0 ? CallFault::kShortWrite : CallFault::kError;
        for (int64_t at = which++ * 61 % stride; at < num_calls && !HasFatalFailure();
             at += stride) {
          Try(step, {.fault = fault, .error = error, .sticky = sticky, .at = at}, expected);
        }
      }
    }
    Report(step, kErrorsOfCalls);
  });
}

}  // namespace
}  // namespace lectern
