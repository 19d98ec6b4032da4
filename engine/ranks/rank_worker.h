// Runs a rank that does not lead: it attends to its part of the documents that the leader asks.
#ifndef LECTERN_ENGINE_RANKS_RANK_WORKER_H_
#define LECTERN_ENGINE_RANKS_RANK_WORKER_H_

#include <functional>
#include <memory>

#include "engine/ranks/communicator.h"
#include "engine/ranks/packed_message.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "store/env.h"
#include "store/ram_limit.h"
#include "store/shard_reader.h"

namespace lectern {

// The parts of its process that a rank works with; borrowed.
struct RankResources {
  Env& env;
  const Backend& backend;
  ThreadPool& threads;
  Io io = Io::kMmap;
  std::shared_ptr<RamLimit> ram = nullptr;  // nullptr: none
};

// Does what the command kIndex asks of a rank (engine/indexing/ranked_index.h); its errors go to
// the leader. Errors of the communicator.
using RankIndexer = std::function<Status(Communicator&, const RankResources&, MessageReader&)>;

// Follows the leader's commands until it ends the group. An error of a command is told to the
// leader, and the rank goes on. Errors of the communicator; kInternal: a command that this build
// does not know.
Status ServeRank(Communicator& ranks, const RankResources& resources,
                 const RankIndexer& index = {});

}  // namespace lectern

#endif  // LECTERN_ENGINE_RANKS_RANK_WORKER_H_
