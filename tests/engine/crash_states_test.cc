// Power fails at any moment of indexing, indexing again, removing, collecting, recovering, sealing:
// what was acknowledged is there, nothing is half there, every store opens.
//
// LECTERN_CRASH_STATES: how many states to try (20000). LECTERN_SEED: of the random ones (1).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "engine/index_document.h"
#include "store/crc32c.h"
#include "store/store.h"
#include "tests/engine/test_documents.h"
#include "tests/store/simulated_disk.h"

namespace lectern {
namespace {

using Survivors = CrashStates::Survivors;
using testing::InventedText;
using testing::TinyModel;

const std::string kStore = std::string(kSimulatedRoot) + "/store";

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// ---- What is done ----

const Model& TheModel() {
  static const auto model = Model::Load(Env::Default(), TinyModel());
  return **model;
}

Status Index(Env& env, const std::string& name, uint64_t seed, size_t bytes, bool again = false) {
  static ThreadPool threads(1);
  const IndexContext context = {.env = env,
                                .store = kStore,
                                .model = TheModel(),
                                .backend = *DefaultBackend(),
                                .threads = threads};
  IndexOptions options;
  options.name = name;
  options.again = again;
  options.checkpoint_seconds = 0;
  return IndexDocument(context, InventedText(bytes, seed), options).status();
}

// Runs with the lock held and the catalog open.
template <typename Action>
Status AsWriter(Env& env, Action action) {
  LECTERN_ASSIGN(const auto lock, LockStore(env, kStore));
  LECTERN_ASSIGN(const auto catalog,
                 Catalog::Open(env, CatalogPath(kStore), Catalog::Mode::kReadWrite));
  return action(*catalog);
}

Result<DocumentRow> Find(Catalog& catalog, const std::string& name) {
  LECTERN_ASSIGN(const auto row, catalog.FindReadyByName(name));
  if (!row) return Status(Code::kNotFound, "no document " + name);
  return *row;
}

Status RemoveNamed(Env& env, const std::string& name) {
  return AsWriter(env, [&](Catalog& catalog) -> Status {
    const auto row = Find(catalog, name);
    if (!row.ok()) return row.status();
    return RemoveDocument(env, kStore, catalog, row->id);
  });
}

Status Collect(Env& env) {
  return AsWriter(env,
                  [&](Catalog& catalog) { return CollectGarbage(env, kStore, catalog).status(); });
}

struct Step {
  std::string name;
  std::function<Status(Env&)> run;
  // Run again after a crash inside of it: "no such document" means that it was done.
  bool may_be_done = false;
};

std::vector<Step> Life() {
  return {{"index a", [](Env& env) { return Index(env, "a", 1, 300); }},
          {"index b", [](Env& env) { return Index(env, "b", 2, 700); }},
          {"index a again", [](Env& env) { return Index(env, "a", 1, 300, /*again=*/true); }},
          {"remove b", [](Env& env) { return RemoveNamed(env, "b"); }, true},
          {"move the name a", [](Env& env) { return Index(env, "a", 3, 200); }},
          {"index b anew", [](Env& env) { return Index(env, "b", 2, 700); }},
          {"collect", Collect},
          {"seal", [](Env& env) { return SealStore(env, kStore); }}};
}

// ---- What is seen ----

// id -> name, generation, text, checksums of every shard. `stable`: without what a second attempt
// may number otherwise.
using Visible = std::map<std::string, std::string>;

Result<Visible> Look(Env& env, bool stable = false) {
  Visible visible;
  auto opened = Catalog::Open(env, CatalogPath(kStore), Catalog::Mode::kReadOnly);
  if (opened.status().code() == Code::kNotFound) return visible;
  LECTERN_ASSIGN(const auto catalog, std::move(opened));
  LECTERN_ASSIGN(const auto rows, catalog->List());
  for (const DocumentRow& row : rows) {
    if (row.state != DocumentState::kReady) continue;
    LECTERN_ASSIGN(const auto shards, catalog->Shards(row.generation));
    const std::string directory = DocumentDirectory(kStore, row.id, row.generation);
    LECTERN_ASSIGN(const auto found, ReadGeneration(env, directory, row.id, row.generation));
    std::string seen = row.name + " " + std::to_string(found.row.text_bytes);
    if (found.shards.size() != shards.size()) {
      return Status(Code::kCorrupt, directory + ": not the shards of the catalog");
    }
    for (const ShardSummary& shard : found.shards) {
      bool same = false;
      for (const ShardSummary& s : shards) {
        same |= s.file == shard.file && s.bytes == shard.bytes && s.table_crc == shard.table_crc;
      }
      if (!same) return Status(Code::kCorrupt, directory + "/" + shard.file + ": another file");
      seen += " " + std::to_string(shard.bytes);
      if (!stable) seen += "/" + std::to_string(shard.table_crc);
    }
    if (!stable) seen += " generation " + std::to_string(row.generation);
    if (!visible.emplace(ToHex(row.id), seen).second) {
      return Status(Code::kCorrupt, ToHex(row.id) + " is there twice");
    }
  }
  return visible;
}

// Everything in `docs` has a row, every row that needs files has them.
Status CheckNoOrphans(Env& env) {
  LECTERN_ASSIGN(const auto catalog,
                 Catalog::Open(env, CatalogPath(kStore), Catalog::Mode::kReadOnly));
  LECTERN_ASSIGN(const auto rows, catalog->List());
  std::set<std::string> wanted, found;
  for (const DocumentRow& row : rows) {
    wanted.insert(DocumentDirectory(kStore, row.id, row.generation));
  }
  LECTERN_ASSIGN(const auto ids, env.List(kStore + "/docs"));
  for (const std::string& id : ids) {
    LECTERN_ASSIGN(const auto generations, env.List(kStore + "/docs/" + id));
    if (generations.empty()) return Status(Code::kCorrupt, id + ": an empty directory is left");
    for (const std::string& generation : generations) {
      found.insert(kStore + "/docs/" + id + "/" + generation);
    }
  }
  if (wanted != found) return Status(Code::kCorrupt, "rows and directories differ");
  LECTERN_ASSIGN(const auto temporary, env.List(kStore + "/tmp"));
  return temporary.empty() ? Status() : Status(Code::kCorrupt, "a temporary file is left");
}

// ---- A recorded life ----

struct Recording {
  std::vector<Step> steps;
  std::vector<Visible> visible = {{}};  // before each step, and at the end
  std::vector<Visible> stable = {{}};
  DiskImage before;
  std::vector<DiskChange> log;  // with a mark after each step
};

// Runs the steps. A bug or fault that makes a step fail ends the recording there.
Recording Record(std::vector<Step> steps, const DiskImage& before, const DiskBug& bug = {},
                 const decltype(SimulatedDisk::fault)& fault = nullptr) {
  Recording recording;
  SimulatedDisk disk(before);
  recording.before = disk.image();
  recording.visible = {Look(disk).ok() ? *Look(disk) : Visible()};
  recording.stable = {Look(disk, true).ok() ? *Look(disk, true) : Visible()};
  disk.Record();
  disk.bug = bug;
  disk.fault = fault;
  for (Step& step : steps) {
    const Status status = step.run(disk);
    EXPECT_TRUE(status.ok()) << step.name << ": " << status.message();
    disk.Mark(step.name);
    disk.fault = nullptr;
    recording.visible.push_back(*Look(disk));
    recording.stable.push_back(*Look(disk, true));
    recording.steps.push_back(std::move(step));
  }
  recording.log = disk.log();
  return recording;
}

// ---- The check of one state ----

struct Totals {
  uint64_t states = 0, redone = 0, nested = 0, violations = 0;
  std::string first;
};

class Checker {
 public:
  Checker(const Recording& recording, uint64_t seed, Totals& totals)
      : recording_(recording), seed_(seed), totals_(totals) {}

  // `random_states` after each change beside the fixed ones; 0 redone_every: none is.
  void Run(uint64_t random_states, uint64_t redo_every, bool stop_at_first) {
    CrashStates crash(recording_.before, recording_.log);
    while (true) {
      TryAll(crash, random_states, redo_every);
      if ((stop_at_first && totals_.violations > 0) || crash.AtEnd()) return;
      if (crash.Advance().kind == DiskChange::Kind::kMark) ++step_;
    }
  }

 private:
  void TryAll(const CrashStates& crash, uint64_t random_states, uint64_t redo_every) {
    static constexpr Survivors kFixed[] = {Survivors::kAll, Survivors::kNone, Survivors::kNamesOnly,
                                           Survivors::kDataOnly};
    const uint64_t num_fixed = crash.HasPending() ? std::size(kFixed) : 1;
    for (uint64_t i = 0; i < num_fixed + (num_fixed > 1 ? random_states : 0); ++i) {
      std::mt19937_64 random(seed_ * 0x9E3779B97F4A7C15 + crash.position() * 1000003 + i);
      const Survivors survivors = i < num_fixed ? kFixed[i]
                                  : i % 4 == 0  ? Survivors::kPrefix
                                                : Survivors::kSubset;
      const DiskImage image = crash.Make(survivors, random);
      const Status status = Try(image, redo_every, random);
      ++totals_.states;
      if (status.ok()) continue;
      if (totals_.violations++ == 0) {
        totals_.first = "change " + std::to_string(crash.position()) + ", variant " +
                        std::to_string(i) + ", seed " + std::to_string(seed_) + ", " + StepName() +
                        ": " + status.message();
      }
    }
  }

  std::string StepName() const {
    return step_ < recording_.steps.size() ? "in \"" + recording_.steps[step_].name + "\""
                                           : "at the end";
  }

  bool IsAllowed(const Visible& seen, const std::vector<Visible>& of_steps) const {
    return seen == of_steps[step_] || (step_ + 1 < of_steps.size() && seen == of_steps[step_ + 1]);
  }

  Status Try(const DiskImage& image, uint64_t redo_every, std::mt19937_64& random) {
    SimulatedDisk disk(image);
    LECTERN_ASSIGN(const Visible seen, Look(disk));
    if (!IsAllowed(seen, recording_.visible)) {
      return Status(Code::kCorrupt, "what is seen is neither before nor after the step");
    }
    LECTERN_RETURN_IF_ERROR(Recover(disk, seen));
    if (redo_every == 0 || step_ == recording_.steps.size() || random() % redo_every != 0) {
      return {};
    }
    ++totals_.redone;
    LECTERN_RETURN_IF_ERROR(CrashInRecovery(image, seen, random));
    const Status redone = recording_.steps[step_].run(disk);
    if (!redone.ok() &&
        !(recording_.steps[step_].may_be_done && redone.code() == Code::kNotFound)) {
      return redone;
    }
    LECTERN_ASSIGN(const Visible after, Look(disk, true));
    if (after == recording_.stable[step_ + 1]) return {};
    return Status(Code::kCorrupt, "the step, done again, does not end where it ended before");
  }

  // The next writer's collection: changes nothing that is seen and leaves nothing unknown.
  static Status Recover(SimulatedDisk& disk, const Visible& seen) {
    const Status collected = AsWriter(disk, [&](Catalog& catalog) -> Status {
      LECTERN_ASSIGN(const Collected done, CollectGarbage(disk, kStore, catalog));
      if (done.unknown.empty()) return {};
      return Status(Code::kCorrupt, done.unknown[0] + ": a removed document came back");
    });
    if (collected.code() == Code::kReadOnly) return {};  // sealed
    LECTERN_RETURN_IF_ERROR(collected);
    LECTERN_ASSIGN(const Visible still, Look(disk));
    if (still != seen) return Status(Code::kCorrupt, "collecting changed what is seen");
    return CheckNoOrphans(disk);
  }

  // A second loss of power while the first is being cleaned up.
  Status CrashInRecovery(const DiskImage& image, const Visible& seen, std::mt19937_64& random) {
    SimulatedDisk disk(image);
    disk.Record();
    LECTERN_RETURN_IF_ERROR(Recover(disk, seen));
    CrashStates crash(image, disk.log());
    while (!crash.AtEnd()) {
      crash.Advance();
      for (const Survivors survivors : {Survivors::kNone, Survivors::kSubset}) {
        SimulatedDisk again(crash.Make(survivors, random));
        ++totals_.nested;
        LECTERN_ASSIGN(const Visible still, Look(again));
        if (still != seen) return Status(Code::kCorrupt, "a crash while collecting lost something");
        LECTERN_RETURN_IF_ERROR(Recover(again, seen));
      }
    }
    return {};
  }

  const Recording& recording_;
  const uint64_t seed_;
  Totals& totals_;
  size_t step_ = 0;
};

void Report(const char* what, const Totals& totals, uint64_t seed,
            std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf(
      "trust: %s: %llu crash states (%llu of them in recoveries), %llu steps done again, "
      "%llu violations; seed %llu, %.1f s\n",
      what, static_cast<unsigned long long>(totals.states + totals.nested),
      static_cast<unsigned long long>(totals.nested),
      static_cast<unsigned long long>(totals.redone),
      static_cast<unsigned long long>(totals.violations), static_cast<unsigned long long>(seed),
      seconds.count());
}

TEST(CrashStatesTest, NothingAcknowledgedIsLostAndNothingIsHalfThere) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t wanted = FromEnvironment("LECTERN_CRASH_STATES", 20000);
  const uint64_t seed = FromEnvironment("LECTERN_SEED", 1);
  const Recording recording = Record(Life(), DiskImage());
  ASSERT_EQ(recording.steps.size(), Life().size());
  Totals totals;
  const uint64_t per_change = wanted / recording.log.size();
  Checker(recording, seed, totals).Run(per_change > 4 ? per_change - 4 : 1, 100, false);
  Report("index, index again, remove, collect, seal", totals, seed, start);
  EXPECT_EQ(totals.violations, 0u) << totals.first;
}

}  // namespace
}  // namespace lectern
