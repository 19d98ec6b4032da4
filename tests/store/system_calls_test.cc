// Every system call of the store and of SQLite, on a real file system: the process is killed there,
// or the call fails, once or from then on. The store opens, shows what it showed before or after,
// and doing the same again gets there.
//
// LECTERN_FAULT_STRIDE: every how many-th call is made to fail (17); 1: all. Killed is it at each.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "store/bundle.h"
#include "tests/store/failing_calls.h"
#include "tests/store/sample_shard.h"
#include "tests/store/sample_store.h"

namespace lectern {
namespace {

namespace fs = std::filesystem;

uint64_t Stride() {
  const char* const value = std::getenv("LECTERN_FAULT_STRIDE");
  return value == nullptr ? (kIsSanitized ? 211 : 17) : std::strtoull(value, nullptr, 10);
}

struct Step {
  const char* name;
  std::function<Status(Env&, const std::string& store)> run;
  std::function<void(const std::string& store)> prepare = nullptr;  // the store before it
};

Status Add(Env& env, const std::string& store, uint8_t id, const std::string& name) {
  return AddSampleDocument(env, store, SampleId(id), name, "Text of " + name).status();
}

// Leaves files that only a collection removes.
void LeaveThings(const std::string& store) {
  Env& env = Env::Default();
  const auto catalog = *Catalog::Open(env, CatalogPath(store), Catalog::Mode::kReadWrite);
  DocumentRow row;
  row.id = SampleId(7);
  row.generation = *catalog->BeginDocument(row);
  const std::string begun = DocumentDirectory(store, row.id, row.generation);
  ASSERT_TRUE(env.MakeDirectory(begun).ok());
  WriteBytes(begun + "/spill-000", "rows");
  ASSERT_TRUE(env.MakeDirectory(DocumentDirectory(store, SampleId(8), 88)).ok());
  WriteBytes(store + "/tmp/x.part", "a part");
}

void RemoveCatalog(const std::string& store) { fs::remove(CatalogPath(store)); }

void DamageCatalog(const std::string& store) {
  std::string bytes = ReadBytes(CatalogPath(store));
  const size_t at = bytes.find("/models/reader");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = '?';
  WriteBytes(CatalogPath(store), bytes);
}

// A document that cannot be read now is refused here, and taken up by the next recovery.
Status Recover(Env& env, const std::string& store) {
  LECTERN_ASSIGN(const auto recovered, RecoverCatalog(env, store, [](std::string_view) {
                   return std::string("/models/reader");
                 }));
  return recovered.refused.empty() ? Status() : recovered.refused[0].status;
}

std::vector<Step> Life() {
  return {
      {"index a", [](Env& env, const std::string& store) { return Add(env, store, 1, "a"); }},
      {"index b", [](Env& env, const std::string& store) { return Add(env, store, 2, "b"); }},
      {"index a again", [](Env& env, const std::string& store) { return Add(env, store, 1, "a"); }},
      {"remove b",
       [](Env& env, const std::string& store) {
         return AsWriter(env, store, [&](Catalog& catalog) {
           const Status removed = RemoveDocument(env, store, catalog, SampleId(2));
           return removed.code() == Code::kNotFound ? Status() : removed;  // before we were killed
         });
       }},
      {"collect",
       [](Env& env, const std::string& store) {
         return AsWriter(env, store, [&](Catalog& catalog) {
           return CollectGarbage(env, store, catalog).status();
         });
       },
       LeaveThings},
      {"export and import",
       [](Env& env, const std::string& store) {
         const std::string bundle = ParentDirectory(store) + "/a.lectern", other = store + ".other";
         (void)env.Remove(bundle);
         (void)env.Remove(bundle + ".part");
         return AsWriter(env, store, [&](Catalog& catalog) -> Status {
           const auto row = catalog.FindReady(SampleId(1));
           if (!row.ok()) return row.status();
           LECTERN_RETURN_IF_ERROR(ExportDocument(env, store, **row, bundle));
           return AsWriter(env, other, [&](Catalog& target) {
             return ImportDocument(env, other, target, bundle, KeepName()).status();
           });
         });
       }},
      {"recover what is whole", Recover},
      {"recover without a catalog", Recover, RemoveCatalog},
      {"recover a damaged catalog", Recover, DamageCatalog},
      {"seal", [](Env& env, const std::string& store) { return SealStore(env, store); }},
  };
}

// Documents that a reader sees, with every byte verified.
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
    LECTERN_ASSIGN(const auto found, ReadGeneration(env, directory, row.id, row.generation));
    seen += ToHex(row.id) + " " + row.name + " " + std::to_string(found.row.bytes_on_disk) + "\n";
  }
  return seen;
}

constexpr char kDamaged[] = "damaged";

class SystemCallsTest : public testing::Test {
 protected:
  // A copy of the store as it is before the step.
  void Reset() const {
    fs::remove_all(work_);
    fs::copy(before_, work_, fs::copy_options::recursive);
  }

  void Try(const Step& step, const CallPlan& with, const std::string& seen_before,
           const std::string& seen_after) {
    Reset();
    const std::string store = work_ + "/store";
    const int result = RunWithPlan([&] { return step.run(Env::Default(), store); }, with);
    const std::string where = std::string(step.name) + ", call " + std::to_string(with.at) +
                              (with.sticky ? " and on" : "") + ", error " +
                              std::to_string(with.error);
    ++num_tried_;
    ASSERT_NE(result, 2) << where;
    ASSERT_EQ(result == -1, with.fault == CallFault::kKill) << where;
    num_absorbed_ += result == 0;
    const auto seen = Look(store);
    // Damage is mended by the next recovery at the latest.
    if (result == 0 || seen_before != kDamaged) {
      ASSERT_TRUE(seen.ok()) << where << ": " << seen.status().message();
      ASSERT_TRUE(*seen == seen_after || (result != 0 && *seen == seen_before)) << where << *seen;
    }
    const Status again = step.run(Env::Default(), store);
    ASSERT_TRUE(again.ok()) << where << "; again: " << again.message();
    ASSERT_EQ(*Look(store), seen_after) << where;
  }

  // Runs `check(step, number of calls, seen before, seen after)` for every step of a store's life.
  void ForEachStep(const std::function<void(const Step&, int64_t, const std::string&,
                                            const std::string&)>& check) {
    fs::create_directory(before_);
    for (const Step& step : Life()) {
      if (step.prepare) step.prepare(before_ + "/store");
      Reset();
      const std::string store = work_ + "/store";
      const auto looked = Look(store);
      const std::string seen_before = looked.ok() ? *looked : kDamaged;
      TheCallPlan() = CallPlan();
      ASSERT_TRUE(step.run(Env::Default(), store).ok()) << step.name;
      const int64_t num_calls = TheCallPlan().num_calls;
      const std::string seen_after = *Look(store);
      check(step, num_calls, seen_before, seen_after);
      if (HasFatalFailure()) return;
      Reset();
      ASSERT_TRUE(step.run(Env::Default(), store).ok());
      fs::remove_all(before_);
      fs::rename(work_, before_);
    }
  }

  const TempDirectory dir_{MemoryDirectory()};
  const std::string before_ = dir_ / "before", work_ = dir_ / "work";
  uint64_t num_tried_ = 0, num_absorbed_ = 0;
};

void Report(const char* what, uint64_t tried, uint64_t absorbed,
            std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("trust: %s: %llu system calls, %llu absorbed, 0 stores damaged; %.1f s\n", what,
              static_cast<unsigned long long>(tried), static_cast<unsigned long long>(absorbed),
              seconds.count());
}

TEST_F(SystemCallsTest, BeingKilledAtAnyOfThemLosesNothing) {
  if (!kCanKill) GTEST_SKIP() << "processes_test kills on Windows";
  const auto start = std::chrono::steady_clock::now();
  ForEachStep([&](const Step& step, int64_t num_calls, const std::string& seen_before,
                  const std::string& seen_after) {
    for (int64_t at = 0; at < num_calls && !HasFatalFailure(); at += kIsSanitized ? 20 : 1) {
      Try(step, {.fault = CallFault::kKill, .at = at}, seen_before, seen_after);
    }
  });
  Report("kill -9", num_tried_, num_absorbed_, start);
}

TEST_F(SystemCallsTest, AnyOfThemFailingIsATypedErrorAndCanBeRepeated) {
  const auto start = std::chrono::steady_clock::now();
  uint64_t which = 0;
  ForEachStep([&](const Step& step, int64_t num_calls, const std::string& seen_before,
                  const std::string& seen_after) {
    for (const int error : ErrorsOfCalls()) {
      for (const bool sticky : {false, true}) {
        const CallFault fault = error == 0 ? CallFault::kShortWrite : CallFault::kError;
        for (auto at = static_cast<int64_t>(++which % Stride());
             at < num_calls && !HasFatalFailure(); at += static_cast<int64_t>(Stride())) {
          Try(step, {.fault = fault, .error = error, .sticky = sticky, .at = at}, seen_before,
              seen_after);
        }
      }
    }
  });
  Report(kErrorsOfCalls, num_tried_, num_absorbed_, start);
}

}  // namespace
}  // namespace lectern
