// The parts of the engine that indexing borrows (store, model, threads, device), and the limits
// that all of indexing shares.
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
#include "engine/ranks/rank_group.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"
#include "store/env.h"
#include "store/ram_limit.h"

namespace lectern {

// Longer texts: kLimitExceeded. By hand, against a wrong file: no model's context holds as much
// text.
inline constexpr size_t kMaxDocumentBytes = size_t{1} << 30;

// Borrowed by every function of this folder for one call; Engine fills it.
struct IndexContext {
  Env& env;
  const std::string& store;  // the directory; it need not exist before the first run
  const Model& model;
  const Backend& backend;
  ThreadPool& threads;
  uint64_t quota_bytes = 0;                 // of the store; 0: none
  Io io = Io::kMmap;                        // of documents that are read while others are made
  std::shared_ptr<RamLimit> ram = nullptr;  // nullptr: none
  // Whether the model's retrieval heads are looked for, to be stored with the document
  // (find_retrieval_heads.h): once per model and store, which takes as long as 2K tokens of
  // prefill.
  bool finds_heads = false;
  // Whether the caller holds the store's lock, for several documents; false: each run takes it.
  bool holds_lock = false;
  // The id of the document in parts of which this document is one, in hex digits; empty: none. A
  // run that is interrupted is then known to belong there.
  std::string part_of = {};
  // The speed of one thread, for estimates, from a trial of 50 ms that Engine makes once, so that
  // the estimates of a thousand files do not take a minute. Empty: a trial for each.
  std::function<double()> flops_per_second = {};
  // Finds the device that computes keys and values, and, as far as its memory goes, clusters them
  // and measures what their lookup misses. An error of it ends the run. Thresholds, and the parts
  // that engine/gpu/prefill.h leaves to the CPU, are computed there. Called once, when there is
  // something to index; empty: the CPU does all.
  std::function<Result<Placement>()> find_device = {};
  // The processes that index together, of which this is the first; nullptr: it is alone.
  std::shared_ptr<RankGroup> ranks = nullptr;
  // Fills the spill with keys and values. Prefill, except in benches, which put cheaper work in its
  // place at great depth. Never empty.
  std::function<Status(const Transformer&, std::span<const int32_t>, KvSpill&,
                       const PrefillOptions&)>
      prefill = Prefill;
  // How documents are opened that are read while others are made.
  DocumentOptions reading() const { return {.io = io, .ram = ram}; }
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_CONTEXT_H_
