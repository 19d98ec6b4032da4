// Two indexers, eight readers, a remover and a collector work on one store and are killed at
// random: a reader sees every document that was acknowledged, whole, and never a half one.
//
// LECTERN_KILLS: how many at least (60). LECTERN_SEED: of who and when (1).
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/store/sample_shard.h"
#include "tests/store/sample_store.h"

namespace lectern {
namespace {

constexpr int kNumIds = 6;  // 0 … 3 are only indexed again and again; 4 and 5 are removed too
constexpr int kNumKept = 4;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// Beside the store, so that it outlives who wrote it.
struct Shared {
  std::atomic<uint64_t> acknowledged[kNumIds];  // the greatest generation that was reported
  std::atomic<uint64_t> num_indexed, num_read, num_removed, num_collected;
  std::atomic<int> num_violations;
  char first[512];
};

class Worker {
 public:
  Worker(std::string store, Shared& shared, uint64_t seed)
      : store_(std::move(store)), shared_(shared), random_(seed) {}

  [[noreturn]] void Index() {
    for (;;) {
      const int id = static_cast<int>(random_() % kNumIds);
      const auto entry = AddSampleDocument(env_, store_, Id(id), "document " + std::to_string(id),
                                           std::string(random_() % 3000, 'x'));
      if (!entry.ok()) {
        Tolerate("index", entry.status(), {Code::kLocked});
        continue;
      }
      uint64_t before = shared_.acknowledged[id];
      while (before < entry->row.generation &&
             !shared_.acknowledged[id].compare_exchange_weak(before, entry->row.generation)) {
      }
      ++shared_.num_indexed;
    }
  }

  [[noreturn]] void Read() {
    for (;;) {
      const int id = static_cast<int>(random_() % kNumIds);
      const uint64_t acknowledged = shared_.acknowledged[id];
      for (uint64_t seen = 0;;) {
        const auto row = Find(id);
        if (!row.ok()) {
          Tolerate("look", row.status(), {Code::kLocked, Code::kNotFound});
          break;
        }
        if (!*row) {
          if (id < kNumKept && acknowledged > 0) Violation("a document is lost");
          break;
        }
        if (id < kNumKept && (*row)->generation < acknowledged) {
          Violation("an older generation is back");
        }
        if ((*row)->generation == seen) {  // nobody removed or replaced it in between
          Violation("a document that is ready cannot be read");
          break;
        }
        if (ReadIt(**row)) break;
        seen = (*row)->generation;
      }
    }
  }

  [[noreturn]] void Remove() {
    for (;;) {
      const auto id = Id(kNumKept + static_cast<int>(random_() % (kNumIds - kNumKept)));
      const Status status = AsWriter(env_, store_, [&](Catalog& catalog) {
        return RemoveDocument(env_, store_, catalog, id);
      });
      Tolerate("remove", status, {Code::kLocked, Code::kNotFound});
      shared_.num_removed += status.ok();
    }
  }

  [[noreturn]] void Collect() {
    for (;;) {
      const Status status = AsWriter(env_, store_, [&](Catalog& catalog) -> Status {
        LECTERN_ASSIGN(const Collected collected, CollectGarbage(env_, store_, catalog));
        if (!collected.unknown.empty()) Violation("unknown: " + collected.unknown[0]);
        return {};
      });
      Tolerate("collect", status, {Code::kLocked});
      shared_.num_collected += status.ok();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

 private:
  static DocumentId Id(int id) { return SampleId(static_cast<uint8_t>(id + 1)); }

  Result<std::optional<DocumentRow>> Find(int id) {
    LECTERN_ASSIGN(const auto catalog,
                   Catalog::Open(env_, CatalogPath(store_), Catalog::Mode::kReadOnly));
    return catalog->FindReady(Id(id));
  }

  // False: the lease or a file could not be had.
  bool ReadIt(const DocumentRow& row) {
    const std::string directory = DocumentDirectory(store_, row.id, row.generation);
    const auto lease = env_.LockDirectory(directory, Lease::kShared);
    if (!lease.ok()) {
      Tolerate("lease", lease.status(), {Code::kLocked, Code::kMissingFile});
      return false;
    }
    const auto entry = ReadGeneration(env_, directory, row.id, row.generation);
    if (!entry.ok()) {
      // It may have been collected before the lease was there; with it nothing can change.
      Tolerate("read", entry.status(), {Code::kMissingFile});
      return false;
    }
    ++shared_.num_read;
    return true;
  }

  void Tolerate(const char* what, const Status& status, std::initializer_list<Code> codes) {
    if (status.ok()) return;
    for (const Code code : codes) {
      if (status.code() == code) return;
    }
    Violation(std::string(what) + ": " + std::string(CodeName(status.code())) + ": " +
              status.message());
  }
  void Violation(const std::string& what) {
    if (shared_.num_violations++ == 0) {
      std::snprintf(shared_.first, sizeof shared_.first, "%s", what.c_str());
    }
  }

  Env& env_ = Env::Default();
  const std::string store_;
  Shared& shared_;
  std::mt19937_64 random_;
};

constexpr void (Worker::*kWork[])() = {&Worker::Index,   &Worker::Index, &Worker::Remove,
                                       &Worker::Collect, &Worker::Read,  &Worker::Read,
                                       &Worker::Read,    &Worker::Read,  &Worker::Read,
                                       &Worker::Read,    &Worker::Read,  &Worker::Read};

TEST(ProcessesTest, KilledAtRandomTheyLoseNothing) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t num_kills = FromEnvironment("LECTERN_KILLS", 60);
  const uint64_t seed = FromEnvironment("LECTERN_SEED", 1);
  const TempDirectory dir(MemoryDirectory());
  const std::string store = dir / "store";
  auto* const shared = static_cast<Shared*>(
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(shared), MAP_FAILED);
  ASSERT_TRUE(AddSampleDocument(Env::Default(), store, SampleId(99), "first", "x").ok());

  std::mt19937_64 random(seed);
  const auto spawn = [&](size_t i) {
    const uint64_t worker_seed = random();
    const pid_t child = fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      Worker worker(store, *shared, worker_seed);
      (worker.*kWork[i])();
    }
    return child;
  };
  std::vector<pid_t> children;
  for (size_t i = 0; i < std::size(kWork); ++i) children.push_back(spawn(i));
  const auto everyone_worked = [&] {  // on a busy machine some wait for the lock for long
    return shared->num_indexed > 0 && shared->num_read > 0 && shared->num_removed > 0 &&
           shared->num_collected > 0;
  };
  uint64_t num_killed = 0;
  for (; num_killed < num_kills || !everyone_worked(); ++num_killed) {
    if (shared->num_violations > 0 || num_killed == 100 * num_kills) break;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    const size_t i = random() % 3 != 0 ? random() % 4 : random() % children.size();  // writers more
    ASSERT_EQ(::kill(children[i], SIGKILL), 0);
    ASSERT_EQ(::waitpid(children[i], nullptr, 0), children[i]);
    children[i] = spawn(i);
  }
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  EXPECT_EQ(shared->num_violations, 0) << shared->first;
  const auto whole = ReadSampleStore(Env::Default(), store);
  EXPECT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_TRUE(shared->num_violations > 0 || everyone_worked());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf(
      "trust: 2 indexers, 8 readers, remover, collector: %llu kills, %llu indexed, %llu read, %llu "
      "removed, %d violations; seed %llu, %.1f s\n",
      static_cast<unsigned long long>(num_killed),
      static_cast<unsigned long long>(shared->num_indexed.load()),
      static_cast<unsigned long long>(shared->num_read.load()),
      static_cast<unsigned long long>(shared->num_removed.load()), shared->num_violations.load(),
      static_cast<unsigned long long>(seed), seconds.count());
  ::munmap(shared, sizeof(Shared));
}

}  // namespace
}  // namespace lectern
