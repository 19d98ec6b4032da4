// Runs a rank that does not lead: it attends to its part of the documents that the leader asks.
#ifndef LECTERN_ENGINE_RANKS_RANK_WORKER_H_
#define LECTERN_ENGINE_RANKS_RANK_WORKER_H_

#include <memory>

#include "engine/ranks/communicator.h"
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

// Follows the leader's commands until it ends the group. An error of a command is told to the
// leader, and the rank goes on. Errors of the communicator; kInternal: a command that this build
// does not know.
Status ServeRank(Communicator& ranks, const RankResources& resources);

}  // namespace lectern

#endif  // LECTERN_ENGINE_RANKS_RANK_WORKER_H_
