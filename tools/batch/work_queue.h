// Shares out the documents of a corpus among workers. The worker knows the queue by this interface
// alone; tests put one that fails in its place.
#ifndef LECTERN_TOOLS_BATCH_WORK_QUEUE_H_
#define LECTERN_TOOLS_BATCH_WORK_QUEUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/lectern.h"
#include "tools/batch/retry.h"

namespace lectern::batch {

// A document that lies in the bucket, or is about to.
struct Finished {
  std::string document = {};  // id, 32 hex digits
  std::string key = {}, sha256 = {};
  uint64_t bytes = 0, tokens = 0;
  std::string fingerprint = {};  // of the model
};

// One document that a worker holds, until its lease ends. `attempt` grows with every claim of the
// document: nothing that carries an older number is recorded.
struct Claim {
  int64_t id = 0, attempt = 0;
  std::string name = {}, file = {}, options = {};
  std::string fingerprint = {};  // of the model that documents of the corpus have; empty: none yet
  // The object that the worker before announced: if that worker died behind its upload, it is
  // there.
  std::optional<Finished> announced = {};
  std::vector<std::string> uploads = {};  // keys of all objects that were announced for it
};

// Whether a record was made. kLost: another worker has the document, or has done it.
enum class Recorded { kYes, kLost };

// One thread at a time. Every call blocks, and retries what is worth it (retry.h). IO_ERROR: the
// database cannot be reached or fails, after all tries; NOT_FOUND (param "database"): it has no
// table of a corpus; CANCELLED: `stop` held.
class WorkQueue {
 public:
  virtual ~WorkQueue() = default;

  // Claims a document that waits, or whose worker's lease has ended; with `mine_only` one that an
  // earlier worker of this name had last, of which its folder may hold a checkpoint; if that worker
  // died, its lease is not waited for. Nothing: there is none now.
  // Documents whose workers died too often become failed.
  virtual api::Result<std::optional<Claim>> Next(bool mine_only, const StopCheck& stop) = 0;
  // Whether any document is not at its end: it waits, or some worker has it.
  virtual api::Result<bool> IsAnyLeft(const StopCheck& stop) = 0;
  // Makes the lease last its whole time from now on.
  virtual api::Result<Recorded> Renew(const Claim& claim, const StopCheck& stop) = 0;
  // Says which object will be uploaded, before it is: whoever has the document later can use it, or
  // remove it.
  virtual api::Result<Recorded> Announce(const Claim& claim, const Finished& upload,
                                         const StopCheck& stop) = 0;
  // Whether the document is done with another object than this one. Then nobody will ever use it.
  virtual api::Result<bool> IsReplaced(const Claim& claim, const std::string& key,
                                       const StopCheck& stop) = 0;
  // Ends the claim: the document is done, has failed for a reason of its own, or waits again.
  virtual api::Result<Recorded> Finish(const Claim& claim, const Finished& finished,
                                       const StopCheck& stop) = 0;
  virtual api::Result<Recorded> Fail(const Claim& claim, const api::Error& error,
                                     const StopCheck& stop) = 0;
  // With `blame`, an error of this machine that the document may have caused, it counts as if the
  // worker had died; the document that reaches the limit so has failed with that error.
  virtual api::Result<Recorded> Release(const Claim& claim, const std::optional<api::Error>& blame,
                                        const StopCheck& stop) = 0;
};

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_WORK_QUEUE_H_
