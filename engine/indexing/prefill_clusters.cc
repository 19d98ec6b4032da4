#include "engine/indexing/prefill_clusters.h"

#include <algorithm>
#include <mutex>

#include "store/store.h"

namespace lectern {
namespace {

// Clusters are made anew after a growth of an eighth (prefill_clusters.h), but of at least 8,192
// tokens: near the beginning an eighth would be a few chunks only. By hand; no measurement of other
// numbers is on record, and a sparse prefill is not the default.
constexpr uint64_t kLeastGrowth = 8192;
// Two levels and four sinks, as finished documents have by default.
constexpr uint32_t kNumLevels = 2;
constexpr uint32_t kNumSinks = 4;
static_assert(kDenseTokens % kChunkTokens == 0 && kLeastGrowth % kChunkTokens == 0 &&
              kDenseWindow < kDenseTokens);

// The token at which clusters are made next after `place`: a multiple of a chunk, as every place
// is.
uint64_t NextPlace(uint64_t place) {
  return place + std::max(kLeastGrowth, place / 8 / kChunkTokens * kChunkTokens);
}

}  // namespace

uint64_t PrefillClusters::EndFor(uint64_t begin) {
  if (begin < kDenseTokens) return 0;
  uint64_t place = kDenseTokens;
  while (NextPlace(place) <= begin) place = NextPlace(place);
  return place - kDenseWindow;
}

std::vector<uint64_t> PrefillClusters::EndsIn(uint64_t tokens) {
  std::vector<uint64_t> ends;
  for (uint64_t place = kDenseTokens; place < tokens; place = NextPlace(place)) {
    ends.push_back(place - kDenseWindow);
  }
  return ends;
}

Status PrefillClusters::MoveTo(uint64_t begin, const std::function<bool()>& is_cancelled) {
  const uint64_t end = EndFor(begin);
  if (end == end_) return {};
  const SpillShape& shape = spill_.shape();
  LECTERN_RETURN_IF_ERROR(options_.env.MakeDirectory(options_.directory));
  layers_.clear();
  layers_.resize(shape.num_layers);
  end_ = 0;
  const RowLayout layout = {.num_tokens = end,
                            .num_sinks = kNumSinks,
                            .num_window = 0,
                            .num_levels = kNumLevels,
                            .dtype = shape.dtype};
  // Layers go in groups that have a head for every thread.
  const size_t num_clustering = std::min(options_.num_clustering, threads_.num_threads());
  const size_t group = (num_clustering + shape.num_kv_heads - 1) / shape.num_kv_heads;
  std::vector<uint32_t> layers;
  for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
    if (!config_.is_windowed(layer)) layers.push_back(layer);
  }
  for (size_t i = 0; i < layers.size(); i += group) {
    LECTERN_RETURN_IF_ERROR(
        MakeLayers(std::span(layers).subspan(i, std::min(group, layers.size() - i)), layout,
                   num_clustering, is_cancelled));
  }
  end_ = end;
  return {};
}

// Clusters all heads of some layers, `num_clustering` at a time, and writes each layer as a shard,
// from which the heads are then loaded like those of a finished document. Each head has a seed of
// its own; the distance of the seeds, 7919, is by hand: any number that keeps them apart does.
Status PrefillClusters::MakeLayers(std::span<const uint32_t> layers, const RowLayout& layout,
                                   size_t num_clustering,
                                   const std::function<bool()>& is_cancelled) {
  const SpillShape& shape = spill_.shape();
  const uint32_t heads = shape.num_kv_heads;
  std::vector<HeadClusters> clusters(layers.size() * heads);
  std::mutex mutex;
  Status first;
  const auto cluster = [&](size_t item) {
    const uint32_t layer = layers[item / heads];
    const auto head = static_cast<uint32_t>(item % heads);
    BuildOptions build;
    build.fractions = LevelFractions(layout.num_levels);
    build.seed += 7919 * (uint64_t{layer} * heads + head);
    build.is_cancelled = is_cancelled;
    auto result = ClusterUnfinishedHead(backend_, spill_, layer, head, layout, build);
    if (result.ok()) {
      clusters[item] = *std::move(result);
      return;
    }
    std::lock_guard lock(mutex);
    if (first.ok()) first = result.status();
  };
  for (size_t done = 0; done < clusters.size() && first.ok(); done += num_clustering) {
    threads_.ParallelFor(std::min(num_clustering, clusters.size() - done),
                         [&](size_t i, size_t) { cluster(done + i); });
  }
  LECTERN_RETURN_IF_ERROR(std::move(first));
  ShardHeader header{};
  std::copy(shape.document.begin(), shape.document.end(), header.document_id);
  header.generation = shape.generation;
  header.num_tokens = layout.num_tokens;
  header.num_layers = shape.num_layers;
  header.num_kv_heads = heads;
  header.head_dim = shape.head_dim;
  header.kv_dtype = static_cast<uint32_t>(layout.dtype);
  header.num_levels = layout.num_levels;
  header.num_sinks = layout.num_sinks;
  for (size_t i = 0; i < layers.size(); ++i) {
    const uint32_t layer = layers[i];
    LECTERN_RETURN_IF_ERROR(WriteLayerShard(options_.env, options_.temp_dir, options_.directory,
                                            backend_, spill_, layer, layout, header,
                                            std::span(clusters).subspan(i * heads, heads))
                                .status());
    Layer& made = layers_[layer];
    LECTERN_ASSIGN(made.shard,
                   ShardReader::Open(options_.env, options_.directory + "/" + LayerFile(layer),
                                     {.kind = ShardKind::kLayer,
                                      .layer = layer,
                                      .document_id = shape.document.data(),
                                      .fingerprint = nullptr,
                                      .generation = shape.generation,
                                      .table_crc = std::nullopt}));
    for (uint32_t head = 0; head < heads; ++head) {
      LECTERN_ASSIGN(HeadIndex index, HeadIndex::Load(*made.shard, head));
      made.heads.push_back(std::move(index));
    }
  }
  return {};
}

}  // namespace lectern
