// The queue of documents that clients have uploaded to be indexed. They are indexed one at a time
// on a thread of the queue's own, while clients ask for their progress.
#ifndef LECTERN_TOOLS_SERVER_INDEX_JOBS_H_
#define LECTERN_TOOLS_SERVER_INDEX_JOBS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/lectern.h"
#include "engine/requests/options.h"

namespace lectern::server {

// Thread-safe. It starts a thread. The destructor cancels the running job, waits for its end, and
// deletes the files that wait. A document that was interrupted goes on from its checkpoint when it
// is uploaded again. `engine` must outlive it.
class IndexJobs {
 public:
  struct Options {
    std::string folder;          // for the files that wait, on the upload folder's file system
    uint32_t max_waiting = 16;   // jobs that wait or run
    uint32_t max_kept = 64;      // jobs that are over and can still be asked about
    uint64_t max_ram_bytes = 0;  // of the indexing engine, and so of an HTML page's tree; 0: any
    std::string store, model;    // paths that messages must not have
    // IngestOptions::ocr of each document.
    std::optional<std::string> ocr = {};
    // Called with the id of a document's version that a job has replaced, on the jobs' thread,
    // before the job counts as done; may be empty.
    std::function<void(const std::string&)> on_replaced = {};
  };
  IndexJobs(api::Engine& engine, Options options);
  ~IndexJobs();

  // How a client wants its document indexed.
  struct Wish {
    std::string name;    // of the document; empty: the engine names it
    std::string format;  // IngestOptions::format; a name that is none fails the job
    std::string encoding = "auto";  // IngestOptions::encoding; so does this
    GivenIndexOptions options{IndexOptionRows()};
  };
  // Adds a job for the file at `path`, which is moved away from there. Returns the job's id, which
  // cannot be guessed. Nothing (or std::bad_alloc), with the file still there: too many wait, the
  // server is ending, the file cannot be moved, or the system has no randomness. Jobs that are
  // over, beyond max_kept, are forgotten.
  std::optional<std::string> Add(const std::string& path, Wish wish);
  bool is_full() const;  // Add would refuse
  // Seconds after which there may be a place: the rest of the running job as far as it is known,
  // else 10; from 1 to 3600.
  uint32_t RetryAfterSeconds() const;
  // {"id","name","state","stage","done","total","eta_seconds","report","warning","error"}; state:
  // "waiting", "running", "done", "failed", "cancelled". The last four members may be null. "name"
  // is the wish's. Nothing: no such job, or it was forgotten.
  std::optional<std::string> Json(const std::string& id) const;
  // Ends a job: one that waits at once, with its file deleted; one that runs soon. Does nothing
  // where there is no such job, or it is over.
  void Cancel(const std::string& id);
  // Cancels the running job and lets none begin; jobs that wait stay "waiting". Add refuses from
  // then on. Any thread.
  void EndAll();

  struct Change {
    std::string json;  // as Json
    bool is_last;      // the job is over
  };
  // Calls `on_change` with the job as it is, then with its later states up to the last one (changes
  // that follow each other fast come as one); between them with nullptr about four times a second,
  // for signs of life. Returns when the job is over, does not exist, `on_change` returns false, or
  // all jobs are ended (EndAll; then the last state may be missing). Blocks the calling thread;
  // `on_change` runs without a lock.
  void Follow(const std::string& id, const std::function<bool(const Change*)>& on_change) const;

 private:
  // Guarded by the mutex; `id`, `file` and `wish` do not change once it is in the list.
  struct Job {
    // `report` and `error` are JSON, empty while there is none.
    std::string id, file, state = "waiting", stage, report, warning, error;
    Wish wish;
    uint64_t done = 0, total = 0, version = 0;  // version: counts changes, for Follow
    double eta_seconds = -1;                    // negative: not known
    std::atomic<bool> is_cancelled = false;
    bool is_over() const { return state != "waiting" && state != "running"; }
  };

  void Work();  // the jobs' thread
  void Run(Job& job);  // reads, extracts and indexes one job, without the mutex; ends with Finish
  void Finish(Job& job, api::Result<api::IndexReport>& report);  // sets the job's end
  // Sets the end of a job whose Run threw, mostly for want of memory: failed, if it was not over.
  void GiveUp(Job& job, const std::exception& why) noexcept;
  // Changes a job under the mutex, and tells those who follow it.
  void Set(Job& job, const std::function<void()>& what);
  // These expect the mutex to be held.
  Job* Find(const std::string& id) const;
  std::string ToJson(const Job& job) const;  // as Json says
  void ForgetOld();  // the oldest jobs that are over, beyond max_kept
  bool IsFull() const;  // as is_full

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
