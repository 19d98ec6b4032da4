// Every call of Env, of its files and of SQLite fails once, those that only read too: a typed
// error, what is in the store is as before or after, and doing it again gets there.
//
// LECTERN_CALL_STRIDE: every how many-th call is made to fail (3; 29 under AddressSanitizer).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>

#include "store/bundle.h"
#include "tests/store/counted_env.h"
#include "tests/store/sample_shard.h"
#include "tests/store/older_catalog.h"
#include "tests/store/sample_store.h"
#include "tests/store/simulated_disk.h"

// ---- The calls ----

namespace {

struct Plan {
  bool counts = false;
  int64_t num_calls = 0;
  int64_t fail_at = -1;
  int sqlite_error = SQLITE_IOERR;
  int system_error = 0;  // that SQLite names as the reason
} plan;

bool Fails() { return plan.counts && plan.num_calls++ == plan.fail_at; }

// SQLite's own function behind ours of the same name; what it calls itself is not counted.
template <typename... Parameters, typename... Arguments>
int CallReal(int (*real)(Parameters...), Arguments... arguments) {
  const bool counts = std::exchange(plan.counts, false);
  const int rc = real(arguments...);
  plan.counts = counts;
  return rc;
}

}  // namespace

#define REAL(name) \
  static const auto real = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name))

extern "C" {
int sqlite3_open_v2(const char* name, sqlite3** db, int flags, const char* vfs) {
  REAL(sqlite3_open_v2);
  const int rc = CallReal(real, name, db, flags, vfs);
  return Fails() ? plan.sqlite_error : rc;
}
int sqlite3_prepare_v2(sqlite3* db, const char* sql, int bytes, sqlite3_stmt** statement,
                       const char** tail) {
  REAL(sqlite3_prepare_v2);
  if (!Fails()) return CallReal(real, db, sql, bytes, statement, tail);
  *statement = nullptr;
  return plan.sqlite_error;
}
int sqlite3_step(sqlite3_stmt* statement) {
  REAL(sqlite3_step);
  return Fails() ? plan.sqlite_error : CallReal(real, statement);
}
int sqlite3_system_errno(sqlite3*) { return plan.system_error; }
// Only for rolling back, which ends a transaction even where it fails.
int sqlite3_exec(sqlite3* db, const char* sql, int (*row)(void*, int, char**, char**), void* to,
                 char** error) {
  REAL(sqlite3_exec);
  return CallReal(real, db, sql, row, to, error);
}
int sqlite3_bind_int64(sqlite3_stmt* statement, int index, sqlite3_int64 value) {
  REAL(sqlite3_bind_int64);
  return Fails() ? plan.sqlite_error : CallReal(real, statement, index, value);
}
}

namespace lectern {
namespace {

constexpr char kInjected[] = "injected", kDamaged[] = "damaged";
const std::string kStore = std::string(kSimulatedRoot) + "/store";
const std::string kOther = std::string(kSimulatedRoot) + "/other";
const std::string kBundle = std::string(kSimulatedRoot) + "/a.lectern";

Status Count() { return Fails() ? Status(Code::kIoError, kInjected) : Status(); }

// ---- What is done ----

// Adds a document of a few blocks.
Status Add(Env& env, uint8_t id, const std::string& name) {
  return AddSampleDocument(env, kStore, SampleId(id), name, std::string(150000, name[0])).status();
}

// A second attempt finds what the first one did.
Status Unless(Code done, const Status& status) { return status.code() == done ? Status() : status; }

Status Export(Env& env) {
  return AsWriter(env, kStore, [&](Catalog& catalog) -> Status {
    LECTERN_ASSIGN(const auto row, catalog.FindReady(SampleId(1)));
    return Unless(Code::kInvalidArgument, ExportDocument(env, kStore, *row, kBundle));
  });
}

Status Import(Env& env, const std::string& name) {
  return AsWriter(env, kOther, [&](Catalog& catalog) {
    return ImportDocument(env, kOther, catalog, kBundle, KeepName(name), uint64_t{1} << 30).status();
  });
}

// A document that cannot be read now is refused here, and taken up by the next recovery.
Status Recover(Env& env) {
  LECTERN_ASSIGN(const auto recovered,
                 RecoverCatalog(env, kStore, [](std::string_view) { return std::string("/m"); }));
  return recovered.refused.empty() ? Status() : recovered.refused[0].status;
}

// Leaves what only a collection removes, and an unfinished document that it must keep.
void LeaveThings(SimulatedDisk& disk) {
  const auto catalog = *Catalog::Open(disk, CatalogPath(kStore), Catalog::Mode::kReadWrite);
  for (const bool resumable : {false, true}) {
    DocumentRow row;
    row.id = SampleId(7);
    row.generation = *catalog->BeginDocument(row);
    const std::string directory = DocumentDirectory(kStore, row.id, row.generation);
    ASSERT_TRUE(disk.MakeDirectory(directory).ok());
    if (!resumable) continue;
    ASSERT_TRUE(disk.OpenWritable(directory + "/" + kCheckpointFile, false).ok());
  }
  ASSERT_TRUE(disk.MakeDirectory(DocumentDirectory(kStore, SampleId(8), 88)).ok());
  ASSERT_TRUE(disk.MakeDirectory(kStore + "/docs/not-ours").ok());
  ASSERT_TRUE(disk.MakeDirectory(kStore + "/docs/" + ToHex(SampleId(1)) + "/x1").ok());
  ASSERT_TRUE(disk.OpenWritable(kStore + "/tmp/x.part", false).ok());
}

void ForgetDocument(SimulatedDisk& disk) {
  const auto catalog = *Catalog::Open(disk, CatalogPath(kStore), Catalog::Mode::kReadWrite);
  ASSERT_TRUE(catalog->Forget((*catalog->FindReady(SampleId(1)))->generation).ok());
}

void RemoveCatalog(SimulatedDisk& disk) { ASSERT_TRUE(disk.Remove(CatalogPath(kStore)).ok()); }

void DamageCatalog(SimulatedDisk& disk) {
  std::string& bytes = disk.node(disk.image().Find(CatalogPath(kStore))).Writable();
  const size_t at = bytes.find("/m");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = '?';
}

void MakeCatalogOlder(SimulatedDisk& disk) { MakeOlder(disk, CatalogPath(kStore)); }

struct Step {
  const char* name;
  std::function<Status(Env&)> run;
  std::function<void(SimulatedDisk&)> prepare = nullptr;
};

std::vector<Step> Life() {
  const auto collect = [](Env& env) {
    return AsWriter(env, kStore, [&](Catalog& catalog) {
      return CollectGarbage(env, kStore, catalog).status();
    });
  };
  const auto remove = [](Env& env) {
    return AsWriter(env, kStore, [&](Catalog& catalog) {
      return Unless(Code::kNotFound, RemoveDocument(env, kStore, catalog, SampleId(2)));
    });
  };
  const auto move_name = [](Env& env) {
    return AsWriter(env, kStore, [](Catalog& catalog) {
      return catalog.ChangeNames(SampleId(1), Named("moved"));
    });
  };
  const auto remove_name = [](Env& env) {
    return AsWriter(env, kStore, [](Catalog& catalog) {
      return Unless(Code::kNotFound, catalog.RemoveName("moved").status());
    });
  };
  const auto discard = [](Env& env) {
    return AsWriter(env, kStore, [&](Catalog& catalog) -> Status {
      LECTERN_ASSIGN(const auto rows, catalog.List());
      for (const DocumentRow& row : rows) {
        if (row.state != DocumentState::kBuilding) continue;
        LECTERN_RETURN_IF_ERROR(DiscardGeneration(env, kStore, catalog, row));
      }
      return {};
    });
  };
  const auto measure = [](Env& env) {
    const std::string directory = DocumentDirectory(kStore, SampleId(1), 3);
    LECTERN_RETURN_IF_ERROR(CheckFreeSpace(env, kStore, 1));
    return CheckQuota(env, kStore, uint64_t{1} << 30, 1, directory);
  };
  return {
      {"index a", [](Env& env) { return Add(env, 1, "a"); }},
      {"index b", [](Env& env) { return Add(env, 2, "b"); }},
      {"index a again", [](Env& env) { return Add(env, 1, "a"); }},
      {"remove b", remove},
      {"collect", collect, LeaveThings},
      {"read", [](Env& env) { return ReadSampleStore(env, kStore).status(); }},
      {"measure", measure},
      {"export", Export},
      {"import", [](Env& env) { return Import(env, ""); }},
      {"name what was imported", [](Env& env) { return Import(env, "c"); }},
      {"recover what the catalog lacks", Recover, ForgetDocument},
      {"recover without a catalog", Recover, RemoveCatalog},
      {"recover a damaged catalog", Recover, DamageCatalog},
      {"move a name", move_name},
      {"remove a name", remove_name},
      {"bring an older catalog up to date", collect, MakeCatalogOlder},
      {"recover what is whole", Recover},
      {"discard", discard, LeaveThings},
      {"seal", [](Env& env) { return SealStore(env, kStore); }},
  };
}

// Describes both stores as a reader sees them, every byte verified.
Result<std::string> Look(Env& env) {
  std::string seen;
  for (const std::string& store : {kStore, kOther}) {
    auto opened = Catalog::Open(env, CatalogPath(store), Catalog::Mode::kReadOnly);
    if (opened.status().code() == Code::kNotFound) continue;
    LECTERN_ASSIGN(const auto catalog, std::move(opened));
    LECTERN_ASSIGN(const auto rows, catalog->List());
    for (const DocumentRow& row : rows) {
      if (row.state != DocumentState::kReady) continue;
      const std::string directory = DocumentDirectory(store, row.id, row.generation);
      LECTERN_ASSIGN(const auto found, ReadGeneration(env, directory, row.id, row.generation));
      seen += store + " " + ToHex(row.id) + " " + row.name + " " +
              std::to_string(found.row.bytes_on_disk) + "\n";
    }
  }
  return seen;
}

int64_t Stride() {
  const char* const value = std::getenv("LECTERN_CALL_STRIDE");
  return value == nullptr ? (kIsSanitized ? 29 : 3) : std::strtoll(value, nullptr, 10);
}

// ---- The test ----

Status RunStep(const Step& step, SimulatedDisk& disk, int64_t fail_at,
               int sqlite_error = SQLITE_IOERR, int system_error = 0) {
  CountedEnv env(disk, Count);
  plan = {.counts = true,
          .num_calls = 0,
          .fail_at = fail_at,
          .sqlite_error = sqlite_error,
          .system_error = system_error};
  const Status status = step.run(env);
  plan.counts = false;
  return status;
}

struct Tried {
  uint64_t calls = 0, absorbed = 0;
};

void FailEach(const Step& step, const DiskImage& image, Tried& tried) {
  SimulatedDisk whole(image);
  const std::string before = Look(whole).ok() ? *Look(whole) : kDamaged;
  const Status done = RunStep(step, whole, -1);
  ASSERT_TRUE(done.ok()) << step.name << ": " << done.message();
  const int64_t num_calls = plan.num_calls;
  const std::string after = *Look(whole);
  for (int64_t at = num_calls % Stride(); at < num_calls; at += Stride()) {
    const std::string where = std::string(step.name) + ", call " + std::to_string(at) + ": ";
    SimulatedDisk disk(image);
    const Status status = RunStep(step, disk, at);
    ++tried.calls;
    tried.absorbed += status.ok();
    ASSERT_TRUE(status.ok() || status.code() == Code::kIoError) << where << status.message();
    const auto seen = Look(disk);
    if (status.ok() || before != kDamaged) {
      ASSERT_TRUE(seen.ok()) << where << seen.status().message();
      ASSERT_TRUE(*seen == after || (!status.ok() && *seen == before)) << where << *seen;
    }
    const Status again = step.run(disk);
    ASSERT_TRUE(again.ok()) << where << "again: " << again.message();
    ASSERT_EQ(*Look(disk), after) << where;
  }
}

TEST(EveryCallTest, FailingOnceItIsATypedErrorAndCanBeRepeated) {
  Tried tried;
  SimulatedDisk disk;
  for (const Step& step : Life()) {
    if (step.prepare) step.prepare(disk);
    FailEach(step, disk.image(), tried);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(step.run(disk).ok()) << step.name;
  }
  std::printf("trust: failing calls of Env and SQLite: %llu, %llu absorbed, 0 stores damaged\n",
              static_cast<unsigned long long>(tried.calls),
              static_cast<unsigned long long>(tried.absorbed));
}

TEST(EveryCallTest, EveryErrorOfSqliteHasItsCode) {
  const struct {
    int sqlite_error, system_error;
    Code code;
  } cases[] = {{SQLITE_FULL, 0, Code::kNoSpace},
               {SQLITE_BUSY, 0, Code::kLocked},
               {SQLITE_LOCKED, 0, Code::kLocked},
               {SQLITE_PROTOCOL, 0, Code::kLocked},
               {SQLITE_READONLY_ROLLBACK, 0, Code::kLocked},
               {SQLITE_READONLY, 0, Code::kReadOnly},
               {SQLITE_PERM, 0, Code::kReadOnly},
               {SQLITE_AUTH, 0, Code::kReadOnly},
               {SQLITE_NOTADB, 0, Code::kCorrupt},
               {SQLITE_FORMAT, 0, Code::kCorrupt},
               {SQLITE_CORRUPT, 0, Code::kCorrupt},
               {SQLITE_ERROR, 0, Code::kCorrupt},
               {SQLITE_SCHEMA, 0, Code::kCorrupt},
               {SQLITE_NOMEM, 0, Code::kOutOfMemory},
               {SQLITE_IOERR_NOMEM, 0, Code::kOutOfMemory},
               {SQLITE_TOOBIG, 0, Code::kLimitExceeded},
               {SQLITE_CANTOPEN, 0, Code::kReadOnly},
               {SQLITE_CANTOPEN, EMFILE, Code::kLimitExceeded},
               {SQLITE_IOERR, 0, Code::kIoError},
               {SQLITE_IOERR_WRITE, ENOSPC, Code::kNoSpace},
               {SQLITE_MISUSE, 0, Code::kInternal}};
  SimulatedDisk disk;
  ASSERT_TRUE(Add(disk, 1, "a").ok());
  const Step read = {"read", [](Env& env) { return ReadSampleStore(env, kStore).status(); }};
  for (const auto& c : cases) {
    for (const int64_t at : {2, 3, 30}) {  // opening the catalog, its first statement, a later one
      const Status status = RunStep(read, disk, at, c.sqlite_error, c.system_error);
      EXPECT_EQ(CodeName(status.code()), CodeName(c.code)) << c.sqlite_error << " at " << at;
    }
  }
}

// A catalog that SQLite finds damaged anywhere is rebuilt.
TEST(EveryCallTest, RecoversWhereverSqliteFindsDamage) {
  SimulatedDisk disk;
  ASSERT_TRUE(Add(disk, 1, "a").ok());
  const std::string whole = *Look(disk);
  const Step recover = {"recover", Recover};
  int num_rebuilt = 0;
  for (int64_t at = 5; at < 60; ++at) {
    SimulatedDisk damaged(disk.image());
    if (RunStep(recover, damaged, at, SQLITE_CORRUPT).ok()) ++num_rebuilt;
    ASSERT_TRUE(recover.run(damaged).ok()) << at;
    EXPECT_EQ(*Look(damaged), whole) << at;
  }
  EXPECT_GT(num_rebuilt, 20);
}

}  // namespace
}  // namespace lectern
