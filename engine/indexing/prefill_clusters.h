// Keeps clusters of the part of a document that a prefill has behind it, for chunks that do not
// read all of it.
#ifndef LECTERN_ENGINE_INDEXING_PREFILL_CLUSTERS_H_
#define LECTERN_ENGINE_INDEXING_PREFILL_CLUSTERS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/document/layer_shard.h"
#include "index/head_index.h"
#include "kernels/thread_pool.h"
#include "store/shard_reader.h"

namespace lectern {

// Tokens that a sparse prefill reads densely: so many of the document, and the last ones before the
// place where the clusters were made.
inline constexpr uint64_t kDenseTokens = 16384;
inline constexpr uint64_t kDenseWindow = 1024;

struct SparsePrefill {
  Env& env;
  std::string directory, temp_dir;   // of the shards and where they are written; one file system
  double budget;                     // (0, 1]: share of the clustered rows that a chunk reads
  size_t num_clustering = SIZE_MAX;  // kv heads at a time, at most; or one a thread
};

// Keeps one shard for each layer, as documents have them, of the tokens [0, end()). All of it is
// made anew each time that the prefill has grown by an eighth. So one lookup weighs all earlier
// tokens, whatever their age, and all clustering together is nine times the last one. (Shards that
// are only added to would share the budget evenly between old and new ones; shards made at doubled
// sizes would leave a third of the tokens to be read densely.) One thread at a time except for
// Heads.
class PrefillClusters {
 public:
  // Borrows all; `options.directory` is made when it is needed.
  PrefillClusters(const SparsePrefill& options, const Backend& backend, ThreadPool& threads,
                  const KvSpill& spill)
      : options_(options), backend_(backend), threads_(threads), spill_(spill) {}

  // Where clusters end for the chunk at token `begin`, whatever happened before; 0: there are none.
  static uint64_t EndFor(uint64_t begin);
  // Where they are made, in a document of `tokens` tokens: all that EndFor gives.
  static std::vector<uint64_t> EndsIn(uint64_t tokens);

  // Makes those for the chunk at token `begin`, from the spill. kCancelled, kNoSpace, kIoError,
  // kOutOfMemory.
  Status MoveTo(uint64_t begin, const std::function<bool()>& is_cancelled);
  uint64_t end() const { return end_; }
  std::span<const HeadIndex> Heads(uint32_t layer) const { return layers_[layer].heads; }
  // The layer's pages leave our memory until they are read again.
  void LetGo(uint32_t layer) const { layers_[layer].shard->Drop(); }

 private:
  struct Layer {
    std::unique_ptr<ShardReader> shard;
    std::vector<HeadIndex> heads;
  };
  Status MakeLayers(uint32_t begin, uint32_t end, const RowLayout& layout, size_t num_clustering,
                    const std::function<bool()>& is_cancelled);
  const SparsePrefill& options_;
  const Backend& backend_;
  ThreadPool& threads_;
  const KvSpill& spill_;
  uint64_t end_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_PREFILL_CLUSTERS_H_
