// Indexes documents into an open store, one at a time.
#ifndef LECTERN_ENGINE_INDEX_RUNS_H_
#define LECTERN_ENGINE_INDEX_RUNS_H_

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "engine/open_store.h"
#include "engine/requests/requests.h"
#include "store/status.h"

namespace lectern {

// Belongs to an engine, and to the sessions on collections, whose texts are indexed as they are
// asked. Thread-safe.
class IndexRuns {
 public:
  explicit IndexRuns(std::shared_ptr<OpenStore> open) : open_(std::move(open)) {}

  // Indexes a document as Engine::Index does. `model`: one that the store has open; nullptr: the
  // one that the engine's options name. kLocked: another document is being indexed.
  Result<IndexReport> Index(std::string_view bytes, const IndexOptions& options,
                            std::shared_ptr<const Model> model = nullptr);
  // Keeps other runs out as long as the result lives. kLocked: one runs.
  Result<std::unique_lock<std::mutex>> Lock();

 private:
  const std::shared_ptr<OpenStore> open_;
  std::mutex mutex_;  // held by the run
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEX_RUNS_H_
