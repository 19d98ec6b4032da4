// The loop of a worker: claims a document, has it indexed, stores its bundle in the bucket, records
// it, until nothing is left.
#ifndef LECTERN_TOOLS_BATCH_WORKER_H_
#define LECTERN_TOOLS_BATCH_WORKER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tools/batch/bucket.h"
#include "tools/batch/object_store.h"
#include "tools/batch/work_queue.h"

namespace lectern::batch {

// An indexed document as a file of this machine.
struct Bundle {
  std::string path = {};
  std::string document = {};  // id
  std::string fingerprint = {};
  uint64_t tokens = 0;
  ObjectFacts facts = {};
};

// Makes bundles of documents. One thread at a time, but for Cancel.
class BundleMaker {
 public:
  virtual ~BundleMaker() = default;

  struct Made {
    api::Result<Bundle> bundle;
    // Whether an error would come again on any machine, as that of an unreadable file does. Else it
    // concerns this machine, and the worker ends.
    bool is_of_document = false;
  };
  // Reads and indexes the file of a claim. Ends with CANCELLED soon after `stop` holds; the work so
  // far may be kept for the next time.
  virtual Made Make(const Claim& claim, const StopCheck& stop) = 0;
  virtual void Cancel() = 0;  // ends a Make that is running; any thread
  // Forgets a document: its bundle and what it took on this machine.
  virtual void Discard(const Claim& claim) = 0;
  // Forgets all documents, those of earlier workers of this name too.
  virtual void DiscardAll() = 0;
};

// How a claim ended.
enum class ClaimEnd {
  kDone,      // it is in the bucket, and recorded
  kFailed,    // an error of the document, recorded
  kReleased,  // it waits again: a signal came, or this worker cannot go on
  kLost       // another worker has it now: nothing was recorded
};
const char* ClaimEndName(ClaimEnd end);  // "done", "failed", "released", "lost"

struct ClaimReport {
  Claim claim = {};
  ClaimEnd end = ClaimEnd::kDone;
  Finished finished = {};                // kDone
  std::optional<api::Error> error = {};  // kFailed, kReleased
  double seconds = 0;
};

struct WorkerParts {
  WorkQueue& queue;
  WorkQueue& renewals;  // of the same corpus, over a connection of its own: another thread uses it
  ObjectStore& store;
  BundleMaker& maker;
  BucketPlace place = {};
  std::chrono::milliseconds lease{120000};
  // How often it looks for documents while others have the last ones.
  std::chrono::milliseconds poll{2000};
  StopCheck is_interrupted = {};
  std::function<void(const ClaimReport&)> on_end = {};  // of each claim
};

struct WorkerTotals {
  uint64_t done = 0, failed = 0, released = 0, lost = 0;
};

class Worker {
 public:
  explicit Worker(const WorkerParts& parts) : parts_(parts) {}

  // Works until every document of the corpus is done or has failed, also those that other workers
  // have now, as they may die. CANCELLED: is_interrupted; another error: this machine cannot go on.
  // The claimed document is given back before; totals() has what was done.
  api::Result<api::Done> Run();
  const WorkerTotals& totals() const { return totals_; }

 private:
  api::Result<std::optional<Claim>> Next();
  // Works on one document. The error ends the worker.
  std::optional<api::Error> Process(const Claim& claim);
  // The part of it that needs the lease.
  ClaimReport Work(const Claim& claim, const StopCheck& stop, bool& ends_worker);
  // Whether the object is in the bucket, with this size and checksum.
  api::Result<bool> IsThere(const Finished& object, const StopCheck& stop);
  // Uploads, announced before, and reads the object's facts back.
  api::Result<Recorded> Upload(const Claim& claim, const Bundle& bundle, const Finished& object,
                               const StopCheck& stop);
  // Records that the document is done with this object, and removes those of earlier workers.
  api::Result<Recorded> Finish(const Claim& claim, const Finished& object, const StopCheck& stop);
  void RemoveUploads(const Claim& claim, const std::string& but, const StopCheck& stop);
  // Removes an object that this worker uploaded, or was about to, when it lost its lease.
  void RemoveReplaced(const Claim& claim, const std::string& key);
  void Count(ClaimEnd end);

  const WorkerParts parts_;
  WorkerTotals totals_;
  bool may_have_own_ = true;  // documents of an earlier worker of this name
};

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_WORKER_H_
