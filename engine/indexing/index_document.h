// The first flow: bytes -> text -> tokens -> prefill -> clusters -> shards -> catalog.
#ifndef LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_
#define LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_

#include <functional>

#include "engine/document/document.h"
#include "engine/gpu/linear_layers.h"
#include "engine/indexing/index_cost.h"
#include "engine/indexing/prefill.h"
#include "engine/model/model.h"
#include "engine/requests/requests.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "store/env.h"

namespace lectern {

inline constexpr uint32_t kSinkTokens = 4;      // always attended exactly, never clustered
inline constexpr uint32_t kWindowTokens = 100;  // the last ones; likewise
inline constexpr size_t kMaxDocumentBytes = size_t{1} << 30;

// Where keys and values are computed, and, as far as its memory goes, clustered and asked what
// their lookup misses. Thresholds, and what engine/gpu/prefill.h leaves to it, are the CPU's.
struct IndexDevice {
  std::shared_ptr<const DeviceTransformer> transformer = nullptr;  // nullptr: the CPU
  Message fallback = {};  // why not there, where that was asked for; else empty
};

struct IndexContext {
  Env& env;
  const std::string& store;
  const Model& model;
  const Backend& backend;
  ThreadPool& threads;
  uint64_t quota_bytes = 0;                 // of the store; 0: none
  Io io = Io::kMmap;                        // of documents that are read while others are made
  std::shared_ptr<RamLimit> ram = nullptr;  // nullptr: none
  // Asked once there is something to index; empty: here.
  std::function<Result<IndexDevice>()> find_device = {};
  // Fills the spills; benches put in its place what costs less at great depth.
  std::function<Status(const Transformer&, std::span<const int32_t>, KvSpill&,
                       const PrefillOptions&)>
      prefill = Prefill;
  DocumentOptions reading() const { return {.io = io, .ram = ram}; }
};

// As Engine::Index; the caller makes sure that one runs at a time in this process, other processes
// are kept out by the store's lock file.
Result<IndexReport> IndexDocument(const IndexContext& context, std::string_view bytes,
                                  const IndexOptions& options);
Result<IndexEstimate> EstimateIndex(const IndexContext& context, std::string_view bytes,
                                    const IndexOptions& options);

std::string_view DtypeName(Dtype dtype);  // "f16"

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_DOCUMENT_H_
