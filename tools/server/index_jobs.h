// Documents on their way into the store, one at a time, on a thread of their own.
#ifndef LECTERN_TOOLS_SERVER_INDEX_JOBS_H_
#define LECTERN_TOOLS_SERVER_INDEX_JOBS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/lectern.h"
#include "engine/requests/options.h"

namespace lectern::server {

// Thread-safe. Ends what runs and joins its thread when destroyed; an interrupted document goes on
// from its checkpoint when it is uploaded again.
class IndexJobs {
 public:
  struct Options {
    std::string folder;         // for the files that wait
    uint32_t max_waiting = 16;  // jobs that are not done
    uint32_t max_kept = 64;     // of those done
    uint64_t max_ram_bytes = 0;  // of the indexing engine, and so of reading a page; 0: any
    std::string store, model;   // replaced in messages
    // Told the id of a version that a job has replaced, on the jobs' thread; may be empty.
    std::function<void(const std::string&)> on_replaced = {};
  };
  IndexJobs(api::Engine& engine, Options options);
  ~IndexJobs();

  struct Wish {
    std::string name, format;  // as IngestOptions
    GivenIndexOptions options{IndexOptionRows()};
  };
  // Takes the file away from `path`. The job's id; nothing: too many wait, or it cannot be moved.
  std::optional<std::string> Add(const std::string& path, Wish wish);
  bool is_full() const;
  // When there may be a place again: as far as it is known, at least 1.
  uint32_t RetryAfterSeconds() const;
  // {"id","name","state","stage","done","total","eta_seconds","report","warning","error"}; state:
  // "waiting", "running", "done", "failed", "cancelled". Nothing: no such job.
  std::optional<std::string> Json(const std::string& id) const;
  void Cancel(const std::string& id);  // no such job, or it is over: nothing
  void EndAll();

  struct Change {
    std::string json;
    bool is_last;
  };
  // Calls with every change of the job until the last one, with nullptr four times a second
  // between them, until `on_change` returns false.
  void Follow(const std::string& id, const std::function<bool(const Change*)>& on_change) const;

 private:
  struct Job {
    std::string id, file, state = "waiting", stage, report, warning, error;
    Wish wish;
    uint64_t done = 0, total = 0, version = 0;
    double eta_seconds = -1;
    std::atomic<bool> is_cancelled = false;
    bool is_over() const { return state != "waiting" && state != "running"; }
  };

  void Work();
  void Run(Job& job);
  void Finish(Job& job, api::Result<api::IndexReport>& report);
  Job* Find(const std::string& id) const;                 // with the mutex held
  void Set(Job& job, const std::function<void()>& what);  // and tells followers
  std::string ToJson(const Job& job) const;
  void ForgetOld();
  bool IsFull() const;  // with the mutex held

  api::Engine& engine_;
  const Options options_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::list<Job> jobs_;  // in the order they came
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_INDEX_JOBS_H_
