// The work of the processes of processes_test do, and how they are started and killed.
#ifndef LECTERN_TESTS_STORE_WORKER_PROCESSES_H_
#define LECTERN_TESTS_STORE_WORKER_PROCESSES_H_

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "tests/store/sample_shard.h"
#include "tests/store/sample_store.h"

namespace lectern {

inline constexpr int kNumIds =
    6;  // 0 … 3 are only indexed again and again; 4 and 5 are removed too
inline constexpr int kNumKept = 4;

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

inline constexpr void (Worker::*kWork[])() = {&Worker::Index,   &Worker::Index, &Worker::Remove,
                                              &Worker::Collect, &Worker::Read,  &Worker::Read,
                                              &Worker::Read,    &Worker::Read,  &Worker::Read,
                                              &Worker::Read,    &Worker::Read,  &Worker::Read};

// The processes, each with the work of its number in kWork. Kills those that are left on
// destruction.
class WorkerProcesses {
 public:
  explicit WorkerProcesses(std::string store);
  ~WorkerProcesses();
  WorkerProcesses(const WorkerProcesses&) = delete;
  WorkerProcesses& operator=(const WorkerProcesses&) = delete;

  Shared& shared();                        // of all processes; valid as long as this object
  bool Start(size_t work, uint64_t seed);  // false: the system cannot
  bool Kill(size_t work);                  // without any warning, and waits until it is gone

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lectern

#endif  // LECTERN_TESTS_STORE_WORKER_PROCESSES_H_
