// Indexes a document with all ranks of a group: the prefill goes around them (ranked_prefill.h),
// and each clusters every size'th layer and writes its shard into the store, which all ranks can
// reach. Everything else, the commit too, is the first rank's.
#ifndef LECTERN_ENGINE_INDEXING_RANKED_INDEX_H_
#define LECTERN_ENGINE_INDEXING_RANKED_INDEX_H_

#include <memory>
#include <string>

#include "engine/indexing/cluster_layers.h"
#include "engine/indexing/index_context.h"
#include "engine/ranks/packed_message.h"
#include "engine/ranks/rank_group.h"
#include "engine/ranks/rank_worker.h"

namespace lectern {

// The first rank's part of one document. Use: Begin, Prefill, Cluster; a destroyed object releases
// the other ranks wherever they are. Borrows the tokens; one thread.
class RankedIndex {
 public:
  // Tells why the ranks cannot index a document with these options together; empty: they can.
  static std::string WhyAlone(const IndexOptions& options, double prefill_budget);

  struct Args {  // borrowed by Begin; the tokens until the end
    const IndexContext& context;
    const IndexOptions& options;
    const RowLayout& layout;
    const ShardHeader& header;
    std::span<const int32_t> tokens;
    const std::string& directory;  // of this generation
    const std::string& temp_dir;
    const SpillShape& shape;  // of the whole document
  };
  // Opens the spills of all ranks, and takes the group until this object is gone. kModelMismatch: a
  // rank finds another model at the model's path; errors of Model::Load and KvSpill::Open on any
  // rank.
  static Result<std::unique_ptr<RankedIndex>> Begin(RankGroup& group, const Args& args);
  ~RankedIndex();

  // The first rank's spill of its layers, with the sums of cosines of all layers.
  KvSpill& spill() { return *layers_; }
  // Errors of PrefillWithRanks.
  Status Prefill(const Transformer& transformer, const PrefillOptions& options);
  // As ClusterLayers for all ranks' layers: shards and numbers of centroids are of all ranks, times
  // of this one. Gives the group back.
  Result<ClusteredLayers> Cluster(const LayersToCluster& work);

 private:
  explicit RankedIndex(RankGroup::Turn turn, std::span<const int32_t> tokens)
      : turn_(std::move(turn)), tokens_(tokens) {}

  RankGroup::Turn turn_;
  const std::span<const int32_t> tokens_;
  std::unique_ptr<KvSpill> own_, layers_;
  enum class Stage { kPrefill, kCluster, kOver } next_ = Stage::kPrefill;
};

// Removes what the ranks left in a document's folder beside its shards. Best effort.
void RemoveRankFolders(Env& env, const std::string& directory, uint32_t num_ranks);

// Another rank's part, for ServeRank: follows the command that RankedIndex::Begin sent. Its errors
// go to the first rank; returns those of the communicator alone.
Status IndexAsRank(Communicator& ranks, const RankResources& resources, MessageReader& message);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_RANKED_INDEX_H_
