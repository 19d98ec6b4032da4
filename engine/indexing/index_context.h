// The engine's parts that indexing borrows, and the limits that all of indexing shares.
#ifndef LECTERN_ENGINE_INDEXING_INDEX_CONTEXT_H_
#define LECTERN_ENGINE_INDEXING_INDEX_CONTEXT_H_

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engine/document/document.h"
#include "engine/gpu/placement.h"
#include "engine/indexing/prefill.h"
#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "store/env.h"
#include "store/ram_limit.h"

namespace lectern {

inline constexpr uint32_t kSinkTokens = 4;      // always attended exactly, never clustered
inline constexpr uint32_t kWindowTokens = 100;  // the last ones; likewise
inline constexpr size_t kMaxDocumentBytes = size_t{1} << 30;

struct IndexContext {
  Env& env;
  const std::string& store;
  const Model& model;
  const Backend& backend;
  ThreadPool& threads;
  uint64_t quota_bytes = 0;                 // of the store; 0: none
  Io io = Io::kMmap;                        // of documents that are read while others are made
  std::shared_ptr<RamLimit> ram = nullptr;  // nullptr: none
  // Where keys and values are computed, and, as far as its memory goes, clustered and asked what
  // their lookup misses; thresholds, and what engine/gpu/prefill.h leaves to it, are the CPU's.
  // Asked once there is something to index; empty: on the CPU.
  std::function<Result<Placement>()> find_device = {};
  // Fills the spills; benches put in its place what costs less at great depth.
  std::function<Status(const Transformer&, std::span<const int32_t>, KvSpill&,
                       const PrefillOptions&)>
      prefill = Prefill;
  DocumentOptions reading() const { return {.io = io, .ram = ram}; }
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_CONTEXT_H_
