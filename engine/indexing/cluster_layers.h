// Clusters the keys of a spilled document and writes the shards of its layers, a few layers at a
// time, on the CPU or with the assignment step of K-means on a device.
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

// The largest clustering of one kv head of a document; `num_heads` of them run at a time.
AssignShape HeadAssignShape(const RowLayout& layout, const ModelConfig& config, size_t num_heads);

// How keys are grouped and coded: options.cluster_keys, of which "auto" depends on `device`, where
// the document is prefilled and will answer (nullptr: the CPU). Lookups on a device apply no metric
// (engine/gpu/lookup.h), so there "auto" makes a document without one.
std::string ClusterKeys(const IndexOptions& options, const Device* device);

// All borrowed for the call.
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

struct ClusteredLayers {
  std::vector<ShardSummary> shards;
  std::vector<uint64_t> centroids;  // of each level, all heads together
  Message fallback;                 // why the CPU clustered beside a device; empty: it did not
  double cluster_seconds = 0, calibrate_seconds = 0, write_seconds = 0;
};

// kCancelled when the meter says so: the shards that are complete stay. Errors of ClusterHead,
// WriteLayerShard and Device::Check; where the device lacks memory, the CPU clusters.
Result<ClusteredLayers> ClusterLayers(const LayersToCluster& work);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_CLUSTER_LAYERS_H_
