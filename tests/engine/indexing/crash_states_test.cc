// Power fails at any moment of indexing, indexing again, removing, collecting, recovering, sealing:
// what was acknowledged is there, nothing is half there, every store opens.
//
// LECTERN_CRASH_STATES: how many states to try (10000). LECTERN_SEED: of the random ones (1).
// LECTERN_FAULT_STRIDE (7), LECTERN_CLUSTERED_FAULT_STRIDE (900): one call in so many fails.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <unordered_set>

#include "engine/document/find_document.h"
#include "engine/indexing/change_plan.h"
#include "engine/indexing/index_document.h"
#include "store/crc32c.h"
#include "store/store.h"
#include "tests/engine/test_documents.h"
#include "tests/store/older_catalog.h"
#include "tests/store/sample_store.h"
#include "tests/store/simulated_disk.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

using Survivors = CrashStates::Survivors;
using testing::InventedText;
using testing::TinyModel;

constexpr size_t kClusteredBytes = 6000;  // of text: 2,048 tokens and some
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

IndexContext ContextOf(Env& env) {
  static ThreadPool threads(1);
  return {.env = env,
          .store = kStore,
          .model = TheModel(),
          .backend = *DefaultBackend(),
          .threads = threads};
}

Status Index(Env& env, const std::string& name, uint64_t seed, size_t bytes, bool again = false) {
  IndexOptions options;
  options.name = name;
  options.again = again;
  options.checkpoint_seconds = 0;
  return IndexDocument(ContextOf(env), InventedText(bytes, seed), options).status();
}

Result<DocumentRow> Find(Catalog& catalog, const std::string& name) {
  LECTERN_ASSIGN(const auto row, catalog.FindReadyByName(name));
  if (!row) return Status(Code::kNotFound, "no document " + name);
  return *row;
}

Status RemoveNamed(Env& env, const std::string& name) {
  return AsWriter(env, kStore, [&](Catalog& catalog) -> Status {
    return lectern::RemoveNamed(env, kStore, catalog, name).status();
  });
}

// A text from a file, under the name that this gives or one of its own.
Status IndexFrom(Env& env, const std::string& source, uint64_t seed, const std::string& name = "") {
  IndexOptions options;
  options.name = name;
  options.source = PathFromRoot(source);
  options.checkpoint_seconds = 0;
  return IndexDocument(ContextOf(env), InventedText(250, seed), options).status();
}

// A next version that is interrupted, so that it could go on: of more than one checkpoint.
Status BeginFrom(Env& env, const std::string& source, uint64_t seed) {
  IndexOptions options;
  options.source = PathFromRoot(source);
  options.checkpoint_seconds = 0;
  options.on_progress = [](const IndexProgress& progress) {
    return progress.stage != IndexProgress::Stage::kPrefill || progress.done == 0;
  };
  const auto report = IndexDocument(ContextOf(env), InventedText(2500, seed), options);
  return report.status().code() == Code::kCancelled ? Status() : report.status();
}

Status ChangePlanOf(Env& env, const std::string& name, float kv_budget) {
  const auto id = [&]() -> Result<DocumentId> {
    LECTERN_ASSIGN(const auto catalog,
                   Catalog::Open(env, CatalogPath(kStore), Catalog::Mode::kReadWrite));
    LECTERN_ASSIGN(const DocumentRow row, Find(*catalog, name));
    return row.id;
  }();
  LECTERN_RETURN_IF_ERROR(id.status());
  PlanChange change;
  change.kv_budget = kv_budget;
  return ChangePlan(ContextOf(env), *id, change);
}

Status Collect(Env& env) {
  return AsWriter(env, kStore,
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
          {"index b anew", [](Env& env) { return Index(env, "b", 2, 1100); }},
          // Takes over its first 512 tokens.
          {"append to b", [](Env& env) { return Index(env, "b", 2, 1250); }},
          {"collect", Collect},
          {"seal", [](Env& env) { return SealStore(env, kStore); }}};
}

// Texts from files f.txt and g.txt in /w and f.txt in /v.
std::vector<Step> LifeOfNames() {
  return {{"index f", [](Env& env) { return IndexFrom(env, "/w/f.txt", 1); }},
          {"the same bytes in g", [](Env& env) { return IndexFrom(env, "/w/g.txt", 1); }},
          {"f changes, g keeps the old", [](Env& env) { return IndexFrom(env, "/w/f.txt", 2); }},
          {"g changes, too: the old goes", [](Env& env) { return IndexFrom(env, "/w/g.txt", 2); }},
          {"another f", [](Env& env) { return IndexFrom(env, "/v/f.txt", 3); }},
          {"it takes the name f", [](Env& env) { return IndexFrom(env, "/v/f.txt", 3, "f.txt"); }},
          {"one of its names goes", [](Env& env) { return RemoveNamed(env, "v/f.txt"); }, true},
          {"begin a version of g", [](Env& env) { return BeginFrom(env, "/w/g.txt", 4); }},
          {"index another one", [](Env& env) { return IndexFrom(env, "/w/g.txt", 5); }},
          {"the last name of f goes", [](Env& env) { return RemoveNamed(env, "f.txt"); }, true},
          {"collect", Collect}};
}

// With clusters, whose document.shard is written again when its margin is known.
std::vector<Step> ClusteredLife() {
  return {{"index c", [](Env& env) { return Index(env, "c", 4, kClusteredBytes); }},
          {"plan c", [](Env& env) { return ChangePlanOf(env, "c", 0.3f); }},
          {"index a", [](Env& env) { return Index(env, "a", 1, 300); }},
          {"plan a", [](Env& env) { return ChangePlanOf(env, "a", 0.5f); }}};
}

// ---- What is seen ----

// id -> name, generation, text, checksums of every shard. `stable`: without what a second attempt
// may number otherwise.
using Visible = std::map<std::string, std::string>;

Result<Visible> LookThrough(Env& env, const Catalog& catalog, bool stable) {
  Visible visible;
  LECTERN_ASSIGN(const auto rows, catalog.List());
  for (const DocumentRow& row : rows) {
    if (row.state != DocumentState::kReady) continue;
    LECTERN_ASSIGN(const auto shards, catalog.Shards(row.generation));
    const std::string directory = DocumentDirectory(kStore, row.id, row.generation);
    LECTERN_ASSIGN(const auto found, ReadGeneration(env, directory, row.id, row.generation));
    std::string seen = std::to_string(found.row.text_bytes);
    for (const DocumentName& name : row.names) seen += " " + name.name + "=" + name.source;
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

Result<Visible> Look(Env& env, bool stable = false) {
  auto catalog = Catalog::Open(env, CatalogPath(kStore), Catalog::Mode::kReadOnly);
  if (catalog.status().code() == Code::kNotFound) return Visible();
  LECTERN_RETURN_IF_ERROR(catalog.status());
  return LookThrough(env, *catalog.value(), stable);
}

// Everything in `docs` has a row, every row that needs files has them; a document that is ready has
// its shards and nothing else.
Status CheckNoOrphans(Env& env, const Catalog& catalog) {
  LECTERN_ASSIGN(const auto rows, catalog.List());
  std::set<std::string> wanted, found;
  for (const DocumentRow& row : rows) {
    const std::string directory = DocumentDirectory(kStore, row.id, row.generation);
    wanted.insert(directory);
    if (row.state != DocumentState::kReady) continue;
    LECTERN_ASSIGN(const auto files, env.List(directory));
    LECTERN_ASSIGN(const auto shards, catalog.Shards(row.generation));
    if (files.size() != shards.size()) {
      return Status(Code::kCorrupt, directory + ": something lies beside its shards");
    }
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
  uint64_t states = 0, different = 0, redone = 0, nested = 0, violations = 0;
  std::string first;
};

class Checker {
 public:
  Checker(const Recording& recording, uint64_t seed, Totals& totals)
      : recording_(recording), seed_(seed), totals_(totals) {}

  // `random_states` after each `stride`th change beside the fixed ones; 0 redone_every: none is.
  void Run(uint64_t random_states, uint64_t redo_every, bool stop_at_first, uint64_t stride = 1) {
    CrashStates crash(recording_.before, recording_.log);
    while (true) {
      if (crash.position() % stride == 0) TryAll(crash, random_states, redo_every);
      if ((stop_at_first && totals_.violations > 0) || crash.AtEnd()) return;
      if (crash.Advance().kind != DiskChange::Kind::kMark) continue;
      ++step_;
      tried_.clear();
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
      ++totals_.states;
      if (!tried_.insert(image.Digest()).second) continue;  // equal to one of this step
      ++totals_.different;
      const Status status = Try(image, redo_every, random);
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
    const Status collected = AsWriter(disk, kStore, [&](Catalog& catalog) -> Status {
      LECTERN_ASSIGN(const Collected done, CollectGarbage(disk, kStore, catalog));
      if (!done.unknown.empty()) {
        return Status(Code::kCorrupt, done.unknown[0] + ": a removed document came back");
      }
      LECTERN_ASSIGN(const Visible still, LookThrough(disk, catalog, false));
      if (still != seen) return Status(Code::kCorrupt, "collecting changed what is seen");
      return CheckNoOrphans(disk, catalog);
    });
    return collected.code() == Code::kReadOnly ? Status() : collected;  // sealed
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
  std::unordered_set<uint64_t> tried_;  // digests of the disks of this step
};

DiskImage ImageAtEnd(const Recording& recording) {
  CrashStates crash(recording.before, recording.log);
  while (!crash.AtEnd()) crash.Advance();
  std::mt19937_64 unused;
  return crash.Make(Survivors::kAll, unused);
}

void Report(const char* what, const Totals& totals, uint64_t seed,
            std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf(
      "trust: %s: %llu crash states, %llu different ones tried (%llu of them in recoveries), "
      "%llu steps done again, %llu violations; seed %llu, %.1f s\n",
      what, static_cast<unsigned long long>(totals.states + totals.nested),
      static_cast<unsigned long long>(totals.different + totals.nested),
      static_cast<unsigned long long>(totals.nested),
      static_cast<unsigned long long>(totals.redone),
      static_cast<unsigned long long>(totals.violations), static_cast<unsigned long long>(seed),
      seconds.count());
}

TEST(CrashStatesTest, NothingAcknowledgedIsLostAndNothingIsHalfThere) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t wanted = FromEnvironment("LECTERN_CRASH_STATES", 10000);
  const uint64_t seed = FromEnvironment("LECTERN_SEED", 1);
  const Recording recording = Record(Life(), DiskImage());
  ASSERT_EQ(recording.steps.size(), Life().size());
  Totals totals;
  const uint64_t per_change = wanted / recording.log.size();
  Checker(recording, seed, totals).Run(per_change > 4 ? per_change - 4 : 1, 100, false);
  Report("index, index again, remove, collect, seal", totals, seed, start);
  EXPECT_EQ(totals.violations, 0u) << totals.first;
}

// States and repetitions take longer here: a tenth of them.
TEST(CrashStatesTest, TheSameHoldsWithClustersAndChangedPlans) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t wanted = FromEnvironment("LECTERN_CRASH_STATES", 10000) / 10;
  const uint64_t seed = FromEnvironment("LECTERN_SEED", 1);
  const Recording recording = Record(ClusteredLife(), DiskImage());
  ASSERT_EQ(recording.steps.size(), ClusteredLife().size());
  const auto writes_document = [](const DiskChange& change) {
    return change.kind == DiskChange::Kind::kLink && change.name == kDocumentFile;
  };
  EXPECT_EQ(std::count_if(recording.log.begin(), recording.log.end(), writes_document), 6)
      << "twice where there are clusters";
  Totals totals;
  const uint64_t per_change = wanted / recording.log.size();
  Checker(recording, seed, totals)
      .Run(per_change > 4 ? per_change - 4 : 0, 400, false, per_change < 4 ? 3 : 1);
  Report("index with clusters, change plans", totals, seed, start);
  EXPECT_EQ(totals.violations, 0u) << totals.first;
}

// The lock file, by which a store is known, is the first of its files to be durable: otherwise what
// is left of a new store would be taken for a folder of other things, and refused.
TEST(CrashStatesTest, ANewStoreIsKnownWhateverIsLeftOfIt) {
  const Step begin = {"begin a store",
                      [](Env& env) { return LockStore(env, kStore).status(); }};
  const Recording recording = Record({begin}, DiskImage());
  Totals totals;
  Checker(recording, /*seed=*/1, totals).Run(/*random_states=*/200, 0, /*stop_at_first=*/false);
  EXPECT_GT(totals.different, 4u);
  EXPECT_EQ(totals.violations, 0u) << totals.first;
}

TEST(CrashStatesTest, NamesMoveWholeOrNotAtAll) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t wanted = FromEnvironment("LECTERN_CRASH_STATES", 10000) / 4;
  const uint64_t seed = FromEnvironment("LECTERN_SEED", 1);
  const Recording recording = Record(LifeOfNames(), DiskImage());
  ASSERT_EQ(recording.steps.size(), LifeOfNames().size());
  // After each step: how many documents there are.
  const size_t documents[] = {0, 1, 1, 2, 1, 2, 2, 2, 2, 2, 1, 1};
  for (size_t i = 0; i < recording.visible.size(); ++i) {
    EXPECT_EQ(recording.visible[i].size(), documents[i]) << i;
  }
  Totals totals;
  const uint64_t per_change = wanted / recording.log.size();
  Checker(recording, seed, totals).Run(per_change > 4 ? per_change - 4 : 0, 40, false);
  Report("names: versions, copies, other names, removed names", totals, seed, start);
  EXPECT_EQ(totals.violations, 0u) << totals.first;
}

// A store of an older Lectern, at the first thing that is done to it.
TEST(CrashStatesTest, AnOlderCatalogIsBroughtUpToDateWholeOrNotAtAll) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t wanted = FromEnvironment("LECTERN_CRASH_STATES", 10000) / 20;
  const uint64_t seed = FromEnvironment("LECTERN_SEED", 1);
  SimulatedDisk older(ImageAtEnd(Record({Life()[0], Life()[1]}, DiskImage())));
  MakeOlder(older, CatalogPath(kStore));
  const std::vector<Step> steps = {
      {"collect", Collect},
      {"name a", [](Env& env) { return IndexFrom(env, "/w/a", 1); }},
  };
  for (size_t first = 0; first < steps.size(); ++first) {
    const Recording recording = Record({steps[first]}, older.image());
    ASSERT_EQ(recording.visible[0].size(), 2u);
    ASSERT_EQ(recording.visible[1].size(), first == 0 ? 2u : 3u);
    Totals totals;
    const uint64_t per_change = wanted / recording.log.size();
    Checker(recording, seed, totals).Run(per_change > 4 ? per_change - 4 : 1, 10, false);
    Report(first == 0 ? "an older catalog, collected" : "an older catalog, indexed into", totals,
           seed, start);
    EXPECT_EQ(totals.violations, 0u) << totals.first;
  }
}

// ---- The catalog rebuilt ----

struct Damage {
  std::string name;
  std::function<void(DiskImage&)> apply;
};

// The kinds of damage that RecoverCatalog mends.
std::vector<Damage> Damages() {
  return {{"no catalog",
           [](DiskImage& image) {
             auto& names = image.nodes[static_cast<size_t>(image.Find(kStore))].names;
             names.erase("catalog.db");
             names.erase("catalog.db-journal");
           }},
          {"no database",
           [](DiskImage& image) {
             const int node = image.Find(CatalogPath(kStore));
             image.nodes[static_cast<size_t>(node)].Writable().replace(0, 100, 100, 'x');
           }},
          {"a damaged row", [](DiskImage& image) {
             const int node = image.Find(CatalogPath(kStore));
             std::string& bytes = image.nodes[static_cast<size_t>(node)].Writable();
             const size_t at = bytes.find(TinyModel());
             ASSERT_NE(at, std::string::npos);
             bytes[at] ^= 1;
           }}};
}

// Names that were moved after indexing are the catalog's alone; these were not.
std::vector<Step> BeforeDamage() {
  std::vector<Step> life = Life();
  return {life[0], life[1], life[2]};
}

TEST(CrashStatesTest, TheCatalogIsRebuiltFromShardsWhateverInterruptsIt) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t seed = FromEnvironment("LECTERN_SEED", 1);
  const uint64_t per_change = FromEnvironment("LECTERN_CRASH_STATES", 10000) / 2000;
  const Recording before = Record(BeforeDamage(), DiskImage());
  const Visible wanted = before.visible.back();
  ASSERT_EQ(wanted.size(), 2u);
  Totals totals;
  for (const Damage& damage : Damages()) {
    SimulatedDisk disk(ImageAtEnd(before));
    DiskImage damaged = disk.image();
    damage.apply(damaged);
    SimulatedDisk recovering(damaged);
    recovering.Record();
    const auto done = RecoverCatalog(recovering, kStore, nullptr);
    ASSERT_TRUE(done.ok()) << damage.name << ": " << done.status().message();
    EXPECT_TRUE(done->refused.empty());
    EXPECT_GE(done->documents.size(), 1u);
    recovering.Mark("recovered");
    CrashStates crash(damaged, recovering.log());
    bool acknowledged = false;
    std::unordered_set<uint64_t> tried[2];  // disks, before and after that
    while (!crash.AtEnd()) {
      acknowledged |= crash.Advance().kind == DiskChange::Kind::kMark;
      for (uint64_t i = 0; i < 2 + per_change; ++i) {
        std::mt19937_64 random(seed * 0x9E3779B97F4A7C15 + crash.position() * 1000003 + i);
        SimulatedDisk again(crash.Make(i == 0   ? Survivors::kNone
                                       : i == 1 ? Survivors::kAll
                                                : Survivors::kSubset,
                                       random));
        ++totals.states;
        if (!tried[acknowledged].insert(again.image().Digest()).second) continue;
        ++totals.different;
        if (acknowledged) {
          EXPECT_EQ(*Look(again), wanted) << damage.name;
        }
        const auto recovered = RecoverCatalog(again, kStore, nullptr);
        ASSERT_TRUE(recovered.ok()) << damage.name << ": " << recovered.status().message();
        const auto seen = Look(again);
        ASSERT_TRUE(seen.ok()) << damage.name << ": " << seen.status().message();
        ASSERT_EQ(*seen, wanted) << damage.name << ", change " << crash.position();
        const Status whole = AsWriter(again, kStore, [&](Catalog& catalog) -> Status {
          LECTERN_RETURN_IF_ERROR(CollectGarbage(again, kStore, catalog).status());
          return CheckNoOrphans(again, catalog);
        });
        ASSERT_TRUE(whole.ok()) << whole.message();
      }
    }
  }
  Report("recover", totals, seed, start);
}

TEST(CrashStatesTest, ADocumentWhoseShardsAreDamagedIsNotTakenUpAndHidesNoOther) {
  const Recording before = Record(BeforeDamage(), DiskImage());
  DiskImage image = ImageAtEnd(before);
  Damages()[0].apply(image);
  const std::string directory = [&] {
    SimulatedDisk disk(ImageAtEnd(before));
    const auto catalog = Catalog::Open(disk, CatalogPath(kStore), Catalog::Mode::kReadOnly);
    const auto row = (*catalog)->FindReadyByName("b");
    return DocumentDirectory(kStore, (*row)->id, (*row)->generation);
  }();
  const int shard = image.Find(directory + "/" + LayerFile(0));
  image.nodes[static_cast<size_t>(shard)].Writable()[70000 % 65536] ^= 4;
  SimulatedDisk disk(image);
  const auto recovered = RecoverCatalog(disk, kStore, nullptr);
  ASSERT_TRUE(recovered.ok()) << recovered.status().message();
  ASSERT_EQ(recovered->refused.size(), 1u);
  EXPECT_EQ(recovered->refused[0].directory, directory);
  EXPECT_EQ(CodeName(recovered->refused[0].status.code()), "checksum_mismatch");
  EXPECT_EQ(Look(disk)->size(), 1u);
  ASSERT_TRUE(Collect(disk).ok());
  EXPECT_GE(disk.image().Find(directory), 0) << "what is not understood is not thrown away";
}

// ---- Planted bugs: the checks above must notice every one ----

struct Plant {
  std::string name;
  DiskBug bug;
  std::vector<Step> steps;
  decltype(SimulatedDisk::fault) fault = nullptr;
};

bool Has(const std::string& text, const char* part) { return text.find(part) != text.npos; }
bool IsGenerationDirectory(const std::string& path) {
  return path.starts_with(kStore + "/docs/") && path.size() > kStore.size() + 38;
}
bool IsIdDirectory(const std::string& path) {
  return path.starts_with(kStore + "/docs/") && path.size() == kStore.size() + 38;
}

std::string DirectoryOf(const DocumentRow& row) {
  return DocumentDirectory(kStore, row.id, row.generation);
}

// The files of a generation, as `index` left them on another disk.
Status CopyFiles(Env& env, const DiskImage& from, const std::string& source,
                 const std::string& target) {
  LECTERN_RETURN_IF_ERROR(env.MakeDirectory(target));
  const DiskImage::Node& directory = from.nodes[static_cast<size_t>(from.Find(source))];
  for (const auto& [name, node] : directory.names) {
    const std::string& bytes = *from.nodes[static_cast<size_t>(node)].bytes;
    LECTERN_ASSIGN(const auto file, env.OpenWritable(target + "/" + name, true));
    LECTERN_RETURN_IF_ERROR(file->WriteAt(0, bytes.data(), bytes.size()));
    LECTERN_RETURN_IF_ERROR(file->Sync());
  }
  return env.SyncDirectory(target);
}

// Indexes a document with its visibility transaction before its files.
Status CommitBeforeFiles(Env& env) {
  const Recording done = Record({Life()[0]}, DiskImage());
  SimulatedDisk other(ImageAtEnd(done));
  LECTERN_ASSIGN(const auto indexed,
                 Catalog::Open(other, CatalogPath(kStore), Catalog::Mode::kReadOnly));
  LECTERN_ASSIGN(const DocumentRow row, Find(*indexed, "a"));
  LECTERN_ASSIGN(const auto shards, indexed->Shards(row.generation));
  return AsWriter(env, kStore, [&](Catalog& catalog) -> Status {
    DocumentRow building = row;
    LECTERN_ASSIGN(building.generation, catalog.BeginDocument(row));
    LECTERN_RETURN_IF_ERROR(catalog.CommitDocument(building, shards));
    return CopyFiles(env, other.image(), DirectoryOf(row), DirectoryOf(building));
  });
}

Status FilesBeforeRow(Env& env) {
  return AsWriter(env, kStore, [&](Catalog& catalog) -> Status {
    LECTERN_ASSIGN(const DocumentRow row, Find(catalog, "b"));
    LECTERN_RETURN_IF_ERROR(env.RemoveTree(DirectoryOf(row)));
    LECTERN_RETURN_IF_ERROR(env.SyncDirectory(ParentDirectory(DirectoryOf(row))));
    LECTERN_RETURN_IF_ERROR(catalog.MarkDead(row.id));
    return CollectGarbage(env, kStore, catalog).status();
  });
}

Status ForgetBeforeFiles(Env& env) {
  return AsWriter(env, kStore, [&](Catalog& catalog) -> Status {
    LECTERN_ASSIGN(const DocumentRow row, Find(catalog, "b"));
    LECTERN_RETURN_IF_ERROR(catalog.MarkDead(row.id));
    LECTERN_RETURN_IF_ERROR(catalog.Forget(row.generation));
    return CollectGarbage(env, kStore, catalog).status();
  });
}

// The old generation goes before the new one is there.
Status OldBeforeNew(Env& env) {
  LECTERN_RETURN_IF_ERROR(AsWriter(env, kStore, [&](Catalog& catalog) -> Status {
    LECTERN_ASSIGN(const DocumentRow row, Find(catalog, "a"));
    return RemoveDocument(env, kStore, catalog, row.id);
  }));
  return Index(env, "a", 1, 300, /*again=*/true);
}

std::vector<Plant> Plants() {
  const auto ignores = [](std::function<bool(const std::string&)> which) {
    DiskBug bug;
    bug.ignores_sync = std::move(which);
    return bug;
  };
  const auto ignores_dir = [](std::function<bool(const std::string&)> which) {
    DiskBug bug;
    bug.ignores_dir_sync = std::move(which);
    return bug;
  };
  const std::vector<Step> life = Life();
  const std::vector<Step> first_three = {life[0], life[1], life[2]};
  const std::vector<Step> first_four = {life[0], life[1], life[2], life[3]};
  DiskBug retrying;
  retrying.retries_failed_sync = true;
  return {
      {"shards are not synced", ignores([](const std::string& p) { return Has(p, ".shard"); }),
       first_three},
      {"document.shard is not synced",
       ignores([](const std::string& p) { return Has(p, "document.shard"); }), first_three},
      {"the directory of the renamed shards is not synced", ignores_dir(IsGenerationDirectory),
       first_three},
      {"the entry of a new generation is not synced", ignores_dir(IsIdDirectory), first_three},
      {"the entry of a new document is not synced",
       ignores_dir([](const std::string& p) { return p == kStore + "/docs"; }), first_three},
      {"no directory is synced", ignores_dir([](const std::string&) { return true; }), first_three},
      {"the entries of the store are not synced",
       ignores_dir([](const std::string& p) { return p == kStore; }), first_three},
      {"the catalog is not synced",
       ignores([](const std::string& p) { return p.ends_with("catalog.db"); }), first_four},
      {"the catalog's journal is not synced",
       ignores([](const std::string& p) { return p.ends_with("-journal"); }), first_four},
      {"nothing of SQLite is synced",
       ignores([](const std::string& p) { return Has(p, "catalog.db"); }), first_four},
      {"a failed sync is repeated",
       retrying,
       {life[0]},
       [](const char* call, const std::string& path) {
         return std::string(call) == "sync" && Has(path, "layer-000.shard") ? EIO : 0;
       }},
      {"visible before its files", {}, {{"index a", CommitBeforeFiles}}},
      {"removed before its row says so", {}, {life[0], life[1], {"remove b", FilesBeforeRow}}},
      {"forgotten before its files are removed",
       {},
       {life[0], life[1], {"remove b", ForgetBeforeFiles}}},
      {"the old generation goes before the new one",
       {},
       {life[0], {"index a again", OldBeforeNew}}},
      {"the removal of files is not synced before their row goes",
       [&] {
         DiskBug bug;
         // The first sync of this directory made its entry; the others follow a removal.
         auto syncs = std::make_shared<std::map<std::string, int>>();
         bug.ignores_dir_sync = [syncs](const std::string& p) {
           return IsIdDirectory(p) && (*syncs)[p]++ > 0;
         };
         return bug;
       }(),
       {life[0], life[1], life[3]}},
  };
}

TEST(CrashStatesTest, EveryPlantedBugIsFound) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t seed = FromEnvironment("LECTERN_SEED", 1);
  const std::vector<Plant> plants = Plants();
  size_t num_found = 0;
  for (const Plant& plant : plants) {
    const Recording recording = Record(plant.steps, DiskImage(), plant.bug, plant.fault);
    Totals totals;
    Checker(recording, seed, totals).Run(/*random_states=*/4, 0, /*stop_at_first=*/true);
    EXPECT_GT(totals.violations, 0u) << plant.name;
    num_found += totals.violations > 0;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("trust: planted bugs: %zu of %zu found; seed %llu, %.1f s\n", num_found,
              plants.size(), static_cast<unsigned long long>(seed), seconds.count());
}

// ---- Errors instead of crashes ----

// Every call that changes something fails once, or from then on: a typed error, what is seen is as
// before or after the step, and doing it again gets there.
void FailEveryCall(const std::vector<Step>& life, uint64_t stride, const char* what) {
  const auto start = std::chrono::steady_clock::now();
  const Recording recording = Record(life, DiskImage());
  uint64_t num_faults = 0, num_absorbed = 0;
  DiskImage image;
  for (size_t step = 0; step < life.size(); ++step) {
    uint64_t num_calls = 0;
    {
      SimulatedDisk disk(image);
      disk.fault = [&](const char*, const std::string&) { return ++num_calls, 0; };
      ASSERT_TRUE(life[step].run(disk).ok());
    }
    for (const int error : {EIO, ENOSPC, kQuotaError, EMFILE, EROFS}) {
      for (const bool sticky : {false, true}) {
        for (uint64_t fail_at = static_cast<uint64_t>(error) % stride; fail_at < num_calls;
             fail_at += stride) {
          SimulatedDisk disk(image);
          uint64_t call = 0;
          disk.fault = [&](const char*, const std::string&) {
            const uint64_t at = call++;
            return (sticky ? at >= fail_at : at == fail_at) ? error : 0;
          };
          const Status status = life[step].run(disk);
          disk.fault = nullptr;
          ++num_faults;
          num_absorbed += status.ok();
          const std::string where = life[step].name + ", call " + std::to_string(fail_at) +
                                    (sticky ? " and on" : "") + ": " + status.message();
          ASSERT_NE(CodeName(status.code()), "internal") << where;
          const auto seen = Look(disk);
          ASSERT_TRUE(seen.ok()) << where << "; " << seen.status().message();
          const bool done = *seen == recording.visible[step + 1];
          ASSERT_TRUE(done || *seen == recording.visible[step]) << where;
          if (status.ok()) {
            ASSERT_TRUE(done) << where;
          }
          const Status again = life[step].run(disk);
          ASSERT_TRUE(again.ok() || (life[step].may_be_done && again.code() == Code::kNotFound))
              << where << "; again: " << again.message();
          ASSERT_EQ(*Look(disk, true), recording.stable[step + 1]) << where;
        }
      }
    }
    SimulatedDisk disk(image);
    ASSERT_TRUE(life[step].run(disk).ok());
    image = disk.image();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("trust: errors%s: %llu failing calls, %llu absorbed, 0 stores damaged; %.1f s\n",
              what, static_cast<unsigned long long>(num_faults),
              static_cast<unsigned long long>(num_absorbed), seconds.count());
}

// Every call on the catalog, once: also the last of a commit, after which it cannot be undone.
TEST(CrashStatesTest, ACommitThatFailsLosesNoDocumentWhosePlanChanges) {
  const std::vector<Step> life = ClusteredLife();
  const Recording recording = Record({life[0], life[1]}, DiskImage());
  SimulatedDisk indexed;
  ASSERT_TRUE(life[0].run(indexed).ok());
  bool was_done = false;
  for (int fail_at = 0, num_calls = -1; fail_at != num_calls; ++fail_at) {
    SimulatedDisk disk(indexed.image());
    int calls = 0;
    disk.fault = [&](const char*, const std::string& path) {
      return Has(path, "catalog.db") && calls++ == fail_at ? EIO : 0;
    };
    const Status status = life[1].run(disk);
    if (calls <= fail_at) num_calls = fail_at + 1;  // it was the last
    disk.fault = nullptr;
    const std::string where = "call " + std::to_string(fail_at) + ": " + status.message();
    const auto seen = Look(disk);
    ASSERT_TRUE(seen.ok()) << where << "; " << seen.status().message();
    const bool done = *seen == recording.visible[2];
    ASSERT_TRUE(done || *seen == recording.visible[1]) << where;
    was_done |= done && !status.ok();
    ASSERT_TRUE(life[1].run(disk).ok()) << where;
    ASSERT_EQ(*Look(disk, true), recording.stable[2]) << where;
  }
  EXPECT_TRUE(was_done) << "no commit failed after it had happened";
}

// A commit that failed after it had happened is seen, but may still be lost with the power: nobody
// may remove what it made garbage before it is durable.
TEST(CrashStatesTest, WhatAFailedCommitMadeGarbageStaysUntilTheCommitIsDurable) {
  const std::vector<Step> life = Life();
  SimulatedDisk indexed;
  ASSERT_TRUE(life[0].run(indexed).ok());
  const Step step = {"remove a, with a journal that cannot be synced, and collect", [](Env& env) {
                       (void)RemoveNamed(env, "a");
                       return Collect(env);
                     }};
  int num_failed = 0;
  for (int fail_at = 0, num_syncs = 1; fail_at < num_syncs; ++fail_at) {
    int syncs = 0;
    const auto fault = [&](const char* call, const std::string& path) {
      const bool counts = std::string(call) == "sync" && path.ends_with("-journal");
      return counts && syncs++ == fail_at ? EIO : 0;
    };
    const Recording recording = Record({step}, indexed.image(), {}, fault);
    num_syncs = syncs;
    // A removal that did not happen is no removal.
    if (recording.visible[0] == recording.visible[1]) continue;
    ++num_failed;
    Totals totals;
    Checker(recording, /*seed=*/1, totals).Run(/*random_states=*/4, 0, /*stop_at_first=*/true);
    EXPECT_EQ(totals.violations, 0u) << "sync " << fail_at << ": " << totals.first;
  }
  EXPECT_GT(num_failed, 0);
}

TEST(CrashStatesTest, EveryFailingCallLeavesTheStoreWholeAndCanBeRepeated) {
  FailEveryCall(Life(), FromEnvironment("LECTERN_FAULT_STRIDE", 7), "");
}

TEST(CrashStatesTest, EveryFailingCallOfNamesCanBeRepeated) {
  FailEveryCall(LifeOfNames(), FromEnvironment("LECTERN_FAULT_STRIDE", 7), " of names");
}

TEST(CrashStatesTest, EveryFailingCallOfClusteringAndPlansCanBeRepeated) {
  FailEveryCall(ClusteredLife(), FromEnvironment("LECTERN_CLUSTERED_FAULT_STRIDE", 900),
                " with clusters and plans");
}

}  // namespace
}  // namespace lectern
