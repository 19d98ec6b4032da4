#include "engine/indexing/cluster_layers.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "engine/gpu/clustering.h"
#include "engine/model/weights/rope.h"
#include "engine/requests/seconds.h"
#include "index/build.h"
#include "store/shard_reader.h"

namespace lectern {
namespace {

using Clock = std::chrono::steady_clock;

// One run of ClusterLayers.
class LayerClustering {
 public:
  explicit LayerClustering(const LayersToCluster& work)
      : work_(work),
        config_(work.context.model.config()),
        layout_(work.layout),
        rope_(MakeRopeTable(config_.rope, layout_.num_tokens)),
        num_heads_(work.num_heads) {}

  // Goes through the layers in groups that have a head for every thread: a layer alone has few
  // heads, and all layers at once would need the memory of all trees.
  Result<ClusteredLayers> Run() {
    const uint32_t heads = config_.num_kv_heads;
    done_.centroids.assign(layout_.num_levels, 0);
    uint64_t num_clustered = 0;  // layers
    for (uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      num_clustered += work_.spill.shape().has_layer(layer) && !config_.is_windowed(layer);
    }
    work_.progress.Begin(IndexProgress::Stage::kCluster, 0, num_clustered * heads);
    LECTERN_RETURN_IF_ERROR(FindAssigners());
    // Layers a group, rounded up.
    const auto group = static_cast<uint32_t>((num_heads_ + heads - 1) / heads);
    const uint32_t step = work_.spill.shape().num_ranks;  // the layers between are other ranks'
    for (uint32_t begin = work_.spill.shape().rank; begin < config_.num_layers;
         begin += group * step) {
      std::vector<uint32_t> layers;
      for (uint32_t i = 0; i < group && begin + i * step < config_.num_layers; ++i) {
        LECTERN_ASSIGN(const bool done, TakeFinishedLayer(begin + i * step));
        if (!done) layers.push_back(begin + i * step);
      }
      LECTERN_RETURN_IF_ERROR(ClusterLayers(layers));
    }
    return std::move(done_);
  }

 private:
  // Prepares K-means on the device, for as many heads at a time as its memory has room for. Too
  // little memory for even one head is no error: the CPU clusters.
  Status FindAssigners() {
    if (work_.device == nullptr || layout_.num_levels == 0) return {};
    auto made = MakeDeviceClustering(*work_.device, HeadAssignShape(layout_, config_, num_heads_));
    if (made.ok()) {
      clustering_ = std::move(made).value();
      num_heads_ = std::min(num_heads_, clustering_.assigners.size());
      return {};
    }
    if (made.status().code() != Code::kOutOfMemory) return std::move(made).status();
    SayClusteredHere(made.status());
    return {};
  }

  // Records the first reason why the CPU clusters beside a device.
  void SayClusteredHere(const Status& why) {
    if (!done_.fallback.empty()) return;
    done_.fallback = "keys were clustered on the CPU: " + why.wordings();
  }

  // Takes over the shard of a layer that an interrupted run has completed; true: nothing is left to
  // do. A shard that is damaged or of another generation is removed, and the layer is clustered
  // again from its spill.
  Result<bool> TakeFinishedLayer(uint32_t layer) {
    const std::string path = work_.directory + "/" + LayerFile(layer);
    LECTERN_ASSIGN(const bool exists, work_.context.env.Exists(path));
    if (!exists) return false;
    const auto shard = ShardReader::Open(work_.context.env, path,
                                         {.kind = ShardKind::kLayer,
                                          .layer = layer,
                                          .document_id = work_.header.document_id,
                                          .fingerprint = work_.header.fingerprint,
                                          .generation = work_.header.generation,
                                          .table_crc = std::nullopt},
                                         Io::kPread);
    if (!shard.ok() || !shard.value()->VerifyAll().ok()) {
      LECTERN_RETURN_IF_ERROR(work_.context.env.Remove(path));
      return false;
    }
    for (uint32_t level = 1; level <= LayoutOf(layer).num_levels; ++level) {
      for (uint32_t head = 0; head < config_.num_kv_heads; ++head) {
        const SectionEntry* counts = shard.value()->Find(SectionKind::kKeyCounts, head, level);
        done_.centroids[level - 1] += counts == nullptr ? 0 : counts->bytes / sizeof(uint32_t);
      }
    }
    done_.shards.push_back(SummaryOf(*shard.value(), LayerFile(layer)));
    if (!config_.is_windowed(layer)) work_.progress.WereClustered(config_.num_kv_heads);
    LECTERN_RETURN_IF_ERROR(work_.spill.RemoveLayer(layer));
    return true;
  }

  // Clusters one head with `assigner`, or on the CPU if it is nullptr. If the assigner has no room
  // for all centroids, sets `refused` to its error and clusters on the CPU. Called from many
  // threads.
  Result<HeadClusters> ClusterOne(uint32_t layer, uint32_t head, Assigner* assigner,
                                  Status& refused) {
    BuildOptions build;
    build.fractions = LevelFractions(layout_.num_levels);
    // Each head has a seed of its own, so that it gives the same clusters whichever heads run
    // beside it. The distance 7919, a prime, was chosen without measurement.
    build.seed = work_.options.seed + 7919 * (uint64_t{layer} * config_.num_kv_heads + head);
    build.is_cancelled = [this] { return work_.progress.Stopped(); };
    build.assigner = assigner;
    const auto run = [&] {
      return ClusterHead(work_.context.backend, work_.spill, layer, head, layout_, build,
                         ClusteredBy(layer));
    };
    auto clusters = run();
    if (assigner == nullptr || clusters.status().code() != Code::kOutOfMemory) return clusters;
    refused = clusters.status();
    build.assigner = nullptr;
    return run();
  }

  // Clusters all heads of a group of layers, then writes the layers' shards. Windowed layers are
  // moved behind the others: they have no clusters, only shards.
  Status ClusterLayers(std::vector<uint32_t> layers) {
    const uint32_t heads = config_.num_kv_heads;
    const auto windowed = std::stable_partition(
        layers.begin(), layers.end(), [&](uint32_t layer) { return !config_.is_windowed(layer); });
    const auto num_full = static_cast<size_t>(windowed - layers.begin());
    std::vector<HeadClusters> clusters(layout_.num_levels > 0 ? num_full * heads : 0);
    std::mutex mutex;
    Status first, too_large;
    const auto start = Clock::now();
    double cluster_seconds = 0, calibrate_seconds = 0;
    const auto cluster = [&](size_t item, Assigner* assigner) {
      const uint32_t layer = layers[item / heads];
      const auto head = static_cast<uint32_t>(item % heads);
      if (work_.progress.Stopped()) return;
      Status refused;
      Result<HeadClusters> result = ClusterOne(layer, head, assigner, refused);
      work_.progress.Clustered();
      std::lock_guard lock(mutex);
      if (too_large.ok()) too_large = std::move(refused);
      if (!result.ok()) {
        if (first.ok()) first = result.status();
        return;
      }
      cluster_seconds += result->cluster_seconds;
      calibrate_seconds += result->calibrate_seconds;
      clusters[item] = std::move(result).value();
    };
    // At most num_heads_ at a time: each has memory reserved (or an assigner) for itself.
    for (size_t begin = 0; begin < clusters.size(); begin += num_heads_) {
      work_.context.threads.ParallelFor(std::min(num_heads_, clusters.size() - begin),
                                        [&](size_t i, size_t) {
                                          const Assigners& all = clustering_.assigners;
                                          cluster(begin + i, all.empty() ? nullptr : all[i].get());
                                        });
    }
    if (!too_large.ok()) SayClusteredHere(too_large);
    if (work_.progress.Stopped()) {
      return {Code::kCancelled, "indexing was cancelled; the same command goes on from here"};
    }
    if (!clustering_.assigners.empty()) {
      first = work_.device->Check(std::move(first));
    }
    LECTERN_RETURN_IF_ERROR(first);
    // Threads measure their own times; their sum is scaled to the wall time that passed.
    const double wall = SecondsSince(start);
    const double busy = std::max(cluster_seconds + calibrate_seconds, 1e-9);
    done_.cluster_seconds += wall * cluster_seconds / busy;
    done_.calibrate_seconds += wall * calibrate_seconds / busy;

    const auto write_start = Clock::now();
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::span<const HeadClusters> of_layer =
          clusters.empty() || i >= num_full
              ? std::span<const HeadClusters>()
              : std::span<const HeadClusters>(clusters).subspan(i * heads, heads);
      for (const HeadClusters& head : of_layer) {
        for (size_t level = 0; level < head.tree.levels.size(); ++level) {
          done_.centroids[level] += head.tree.levels[level].num_clusters();
        }
      }
      LECTERN_ASSIGN(
          ShardSummary summary,
          WriteLayerShard(work_.context.env, work_.temp_dir, work_.directory, work_.context.backend,
                          work_.spill, layers[i], LayoutOf(layers[i]), work_.header, of_layer));
      done_.shards.push_back(std::move(summary));
      LECTERN_RETURN_IF_ERROR(work_.spill.RemoveLayer(layers[i]));
    }
    done_.write_seconds += SecondsSince(write_start);
    return {};
  }

  // How keys are put into clusters, from the resolved option.
  ClusterBy ClusteredBy(uint32_t layer) const {
    const std::string keys = ClusterKeys(work_.options, work_.device);
    if (keys == "stored") return {};
    const bool is_turned = config_.is_turned(layer);  // else keys have their own directions already
    return {.frequencies = is_turned ? std::span(rope_.frequencies) : std::span<const float>(),
            .queries = keys == "queries"};
  }

  RowLayout LayoutOf(uint32_t layer) const { return LayoutOfLayer(layout_, config_, layer); }

  const LayersToCluster& work_;
  const ModelConfig& config_;
  const RowLayout& layout_;
  const RopeTable rope_;
  size_t num_heads_;             // kv heads at a time
  DeviceClustering clustering_;  // without assigners: on the CPU
  ClusteredLayers done_;
};

}  // namespace

AssignShape HeadAssignShape(const RowLayout& layout, const ModelConfig& config, size_t num_heads) {
  return {.num_points = layout.num_tokens,
          .num_centroids = MostCentroids(layout.num_tokens, LevelFractions(layout.num_levels)),
          .dim = config.head_dim,
          .num_heads = num_heads};
}

std::string ClusterKeys(const IndexOptions& options, const Device* device) {
  if (options.cluster_keys != "auto") return options.cluster_keys;
  return device != nullptr ? "stored" : "queries";
}

Result<ClusteredLayers> ClusterLayers(const LayersToCluster& work) {
  return LayerClustering(work).Run();
}

}  // namespace lectern
