// Clusters the keys of a prefilled document and writes the shards of its layers, a few layers at a
// time, on the CPU or with the assignment step of K-means on a device. index_document.cc uses it
// after the prefill.
#ifndef LECTERN_ENGINE_INDEXING_CLUSTER_LAYERS_H_
#define LECTERN_ENGINE_INDEXING_CLUSTER_LAYERS_H_

#include <string>
#include <vector>

#include "engine/document/kv_spill.h"
#include "engine/document/layer_shard.h"
#include "engine/gpu/device.h"
#include "engine/indexing/index_context.h"
#include "engine/indexing/index_progress.h"
#include "index/assign_plan.h"
#include "store/shard_format.h"
#include "store/shard_writer.h"

namespace lectern {

// The sizes of the largest clustering of one kv head of a document, for planning memory:
// `num_heads` heads are clustered at a time. The layout has clusters (num_levels > 0).
AssignShape HeadAssignShape(const RowLayout& layout, const ModelConfig& config, size_t num_heads);

// Resolves options.cluster_keys to "stored", "unrotated" or "queries". "auto" is "queries" where
// the CPU prefills and answers (`device` is nullptr), and "stored" on a device, whose lookups apply
// no metric (engine/gpu/lookup.h). Any other value is returned as it is; it was checked before.
std::string ClusterKeys(const IndexOptions& options, const Device* device);

// Arguments of ClusterLayers, all borrowed for the call.
struct LayersToCluster {
  const IndexContext& context;
  const IndexOptions& options;
  const RowLayout& layout;       // of the document
  const ShardHeader& header;     // of its shards
  const std::string& directory;  // of its shards; those that an interrupted run left are taken
  const std::string& temp_dir;
  KvSpill& spill;                  // layers leave it as their shards are written
  const Device* device = nullptr;  // nullptr: K-means runs on the CPU
  size_t num_heads = 1;            // kv heads that may be clustered at a time
  IndexProgressMeter& progress;
};

// The result of ClusterLayers.
struct ClusteredLayers {
  std::vector<ShardSummary> shards;  // one a layer, not in the order of layers
  std::vector<uint64_t> centroids;  // of each level, all heads together
  Message fallback;                 // why the CPU clustered beside a device; empty: it did not
  double cluster_seconds = 0, calibrate_seconds = 0, write_seconds = 0;  // of wall time
};

// Writes the shards of all layers that the spill has. Side effects: a layer's spill is deleted when
// its shard is complete; shards that an interrupted run left are taken as they are, after their
// checksums were verified, and damaged ones are removed and made anew. So the call can be repeated
// after any error. Begins the progress stage kCluster. Uses all of the context's threads; the
// meter's callback runs on the calling thread. kCancelled when the meter says so: the shards that
// are complete stay. Errors of ClusterHead, WriteLayerShard, Env and Device::Check. Where the
// device lacks memory, the CPU clusters and `fallback` says so.
Result<ClusteredLayers> ClusterLayers(const LayersToCluster& work);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_CLUSTER_LAYERS_H_
