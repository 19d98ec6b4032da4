// Clusters of the earlier part of a document that is still being prefilled: later chunks of a
// sparse prefill look up in them which rows to read. prefill.cc uses them; they are deleted after
// the prefill.
#ifndef LECTERN_ENGINE_INDEXING_PREFILL_CLUSTERS_H_
#define LECTERN_ENGINE_INDEXING_PREFILL_CLUSTERS_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/document/layer_shard.h"
#include "index/head_index.h"
#include "kernels/thread_pool.h"
#include "store/shard_reader.h"

namespace lectern {

// Tokens that a sparse prefill reads densely: the first kDenseTokens tokens of the document attend
// to everything, and the last kDenseWindow tokens before the place where clusters were made stay
// out of them. Both are multiples of a chunk, and by hand; no measurement of other numbers is on
// record. More of them only bring a sparse prefill closer to an exact one, and make it slower.
inline constexpr uint64_t kDenseTokens = 16384;
inline constexpr uint64_t kDenseWindow = 1024;

// Options of a sparse prefill.
struct SparsePrefill {
  Env& env;
  std::string directory, temp_dir;   // of the shards and where they are written; one file system
  double budget;                     // (0, 1]: share of the clustered rows that a chunk reads
  size_t num_clustering = SIZE_MAX;  // kv heads at a time, at most; never more than threads
};

// Clusters of the tokens [0, end()): one shard for each layer that is not windowed, as finished
// documents have them. Windowed layers attend to their window in the spill, and need none.
// They are made anew from all of these tokens each time that the prefill has grown by an eighth. So
// one lookup weighs all earlier tokens, whatever their age, and all clustering together costs nine
// times the last one (1 + 8/9 + (8/9)^2 + …). Shards that are only added to would share the budget
// evenly between old and new ones; shards made at doubled sizes would leave a third of the tokens
// to be read densely. One thread at a time, except for Heads.
class PrefillClusters {
 public:
  // Borrows all; `options.directory` is made when it is needed, and the caller removes it.
  // `config` is that of the spill's model; it says which layers are windowed.
  PrefillClusters(const SparsePrefill& options, const ModelConfig& config, const Backend& backend,
                  ThreadPool& threads, const KvSpill& spill)
      : options_(options), config_(config), backend_(backend), threads_(threads), spill_(spill) {}

  // Returns where clusters end for the chunk at token `begin`; 0: it has none. A function of the
  // place alone, so that an interrupted run reads the same clusters.
  static uint64_t EndFor(uint64_t begin);
  // Returns all places that EndFor gives in a document of `tokens` tokens, ascending: the cost of
  // clustering is summed over them.
  static std::vector<uint64_t> EndsIn(uint64_t tokens);

  // Makes the clusters for the chunk at token `begin` from the spill, which has all tokens before
  // it; does nothing where they are the ones that are there. Uses all threads; they may call
  // `is_cancelled`, which may be empty. After an error the clusters are not to be read. kCancelled,
  // kNoSpace, kReadOnly, kIoError, kOutOfMemory, and errors of reading the shards
  // (kChecksumMismatch).
  Status MoveTo(uint64_t begin, const std::function<bool()>& is_cancelled);
  uint64_t end() const { return end_; }
  // [kv heads]: the layer's clusters; empty for a windowed layer. Only where end() is above 0;
  // valid until MoveTo.
  std::span<const HeadIndex> Heads(uint32_t layer) const { return layers_[layer].heads; }
  // The layer's pages leave our memory until they are verified again, which must come before the
  // next read; other threads may read the layer meanwhile. Not for a windowed layer.
  void LetGo(uint32_t layer) const { layers_[layer].shard->Drop(); }

 private:
  struct Layer {
    std::unique_ptr<ShardReader> shard;
    std::vector<HeadIndex> heads;
  };
  // Makes the clusters of these layers, `num_clustering` heads at a time, writes them as shards and
  // loads them into layers_. Errors as MoveTo's.
  Status MakeLayers(std::span<const uint32_t> layers, const RowLayout& layout,
                    size_t num_clustering, const std::function<bool()>& is_cancelled);
  const SparsePrefill& options_;
  const ModelConfig& config_;
  const Backend& backend_;
  ThreadPool& threads_;
  const KvSpill& spill_;
  uint64_t end_ = 0;
  std::vector<Layer> layers_;  // [layers]; entries of windowed layers stay empty
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_PREFILL_CLUSTERS_H_
