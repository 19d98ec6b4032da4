#include "engine/document/layer_shard.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>

#include "engine/document/document.h"
#include "engine/document/kept_rows.h"
#include "engine/requests/seconds.h"
#include "index/calibrate.h"
#include "index/policies/kv_compress.h"
#include "index/window_attention.h"

namespace lectern {
namespace {

// Rounds spill rows to the type in which the shard stores them.
std::vector<std::byte> RowsToStore(const Backend& backend, TypedRows rows, Dtype dtype) {
  std::vector<std::byte> stored(rows.num_rows * RowBytes(dtype, rows.num_cols));
  if (rows.dtype == dtype) {
    std::memcpy(stored.data(), rows.data, stored.size());
    return stored;
  }
  std::vector<float> wide(rows.num_rows * rows.num_cols);
  const Rows<float> view(wide.data(), rows.num_rows, rows.num_cols);
  backend.to_float_rows(rows, view);
  backend.from_float_rows(view, dtype, stored.data());
  return stored;
}

// Keys [n, head_dim] of these positions with RoPE undone by the opposite rotation. RoPE's attention
// factor remains, which does not change directions.
std::vector<float> Unrotated(const Backend& backend, std::vector<float> keys, size_t dim,
                             std::span<const uint32_t> positions,
                             std::span<const float> frequencies) {
  const size_t half = frequencies.size();
  std::vector<float> cosine(half), sine(half);
  for (size_t row = 0; row < keys.size() / dim; ++row) {
    for (size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(positions[row]) * frequencies[i];
      cosine[i] = std::cos(angle);
      sine[i] = -std::sin(angle);
    }
    backend.rope({.heads = {keys.data() + row * dim, 1, dim},
                  .head_dim = dim,
                  .cosine = {cosine.data(), 1, half},
                  .sine = {sine.data(), 1, half}});
  }
  return keys;
}

// Scores of the blocks of the head's stored rows, in the order in which KV-Compress would evict
// them (BlockScores), from `scores` of all rows, by position. Sinks and window score infinite, so
// that they never leave.
std::vector<float> ScoreBlocks(std::vector<float> scores, const RowLayout& layout,
                               std::span<const uint32_t> stored) {
  std::fill_n(scores.begin(), layout.num_sinks, INFINITY);
  std::fill(scores.end() - layout.num_window, scores.end(), INFINITY);
  std::vector<float> of_stored;
  for (const uint32_t position : stored) of_stored.push_back(scores[position]);
  return BlockScores(std::move(of_stored));
}

// Positions of the rows of a kv head that are stored, ascending.
std::vector<uint32_t> StoredPositions(const Backend& backend, const KvSpill& spill, uint32_t layer,
                                      uint32_t kv_head, const RowLayout& layout, uint64_t seed) {
  if (layout.retention.keeps_all()) {
    std::vector<uint32_t> all(layout.num_tokens);
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }
  const RetentionShape shape = ShapeOf(spill.shape(), layout.num_sinks, layout.num_window);
  const uint64_t count = spill.kept_rows()[size_t{layer} * shape.num_kv_heads + kv_head];
  return KeptRows(backend, spill, layer, kv_head, shape, layout.retention, count, seed);
}

// The rows at these positions, side by side.
std::vector<std::byte> Gathered(const TypedRows& all, std::span<const uint32_t> positions) {
  std::vector<std::byte> rows(positions.size() * all.row_bytes());
  for (size_t row = 0; row < positions.size(); ++row) {
    std::memcpy(rows.data() + row * all.row_bytes(), all.row(positions[row]), all.row_bytes());
  }
  return rows;
}

// The rows at these positions as floats, rounded as the shard will store them: clusters must fit
// what is read later.
std::vector<float> FloatRows(const Backend& backend, const TypedRows& all,
                             std::span<const uint32_t> positions, Dtype dtype) {
  const std::vector<std::byte> gathered = Gathered(all, positions);
  const size_t count = positions.size();
  const std::vector<std::byte> stored =
      RowsToStore(backend, {gathered.data(), all.dtype, count, all.num_cols}, dtype);
  std::vector<float> wide(count * all.num_cols);
  backend.to_float_rows({stored.data(), dtype, count, all.num_cols},
                        {wide.data(), count, all.num_cols});
  return wide;
}

// The queries of the last kObservedTokens tokens against all keys.
WindowAttentionArgs ObservedWindow(const Backend& backend, TypedRows keys,
                                   Rows<const float> queries, size_t group, float softcap) {
  const size_t last = std::min(queries.num_rows, kObservedTokens * group);
  return {.backend = backend,
          .queries = queries.Slice(queries.num_rows - last, queries.num_rows),
          .group = group,
          .keys = keys,
          .scale = 1 / std::sqrt(static_cast<float>(keys.num_cols)),
          .softcap = softcap};
}

// Block scores from the logarithms of the sums over all tokens; empty: the spill has no sums.
std::vector<float> ScoreFullBlocks(std::span<const float> sums, const RowLayout& layout,
                                   std::span<const uint32_t> stored) {
  if (sums.empty()) return {};
  std::vector<float> logs;
  for (const float sum : sums) logs.push_back(std::log(sum));
  return ScoreBlocks(std::move(logs), layout, stored);
}

// Second moments of query rows [n, dim], shrunk, for a metric. nullopt: there are none, or they are
// all 0, or not all are numbers.
std::optional<SquareMatrix> QueryMoments(const std::vector<float>& queries, size_t dim) {
  const size_t num_rows = queries.size() / dim;
  if (num_rows == 0) return std::nullopt;
  return Shrunk(SecondMoments({queries.data(), num_rows, dim}), dim, ShrinkageOf(num_rows, dim));
}

// Builds the clusters of a head's `stored` rows, without sinks and window.
Result<HeadClusters> BuildClusters(const Backend& backend, const KvSpill& spill, uint32_t layer,
                                   uint32_t kv_head, const RowLayout& layout,
                                   std::span<const uint32_t> stored, const BuildOptions& options,
                                   const ClusterBy& by) {
  const size_t dim = spill.shape().head_dim;
  HeadClusters clusters;
  clusters.positions.assign(stored.begin() + layout.num_sinks, stored.end() - layout.num_window);
  const size_t count = clusters.positions.size();
  const std::vector<float> keys = FloatRows(backend, spill.Keys(layer, kv_head, layout.num_tokens),
                                            clusters.positions, layout.dtype);
  const std::vector<float> values = FloatRows(
      backend, spill.Values(layer, kv_head, layout.num_tokens), clusters.positions, layout.dtype);
  BuildOptions build = options;
  std::vector<float> unrotated;
  if (!by.frequencies.empty()) {
    unrotated = Unrotated(backend, keys, dim, clusters.positions, by.frequencies);
    build.assigned_by = {unrotated.data(), count, dim};
  }
  std::optional<SquareMatrix> moments;
  if (by.queries) moments = QueryMoments(GroupQueries(spill, layer, kv_head), dim);
  if (moments) build.query_moments = &*moments;
  LECTERN_ASSIGN(clusters.tree,
                 BuildTree(backend, {keys.data(), count, dim}, {values.data(), count, dim}, build));
  return clusters;
}

// Writes the sections of one layer's shard.
class LayerShard {
 public:
  LayerShard(ShardWriter& writer, const Backend& backend, const KvSpill& spill, uint32_t layer,
             const RowLayout& layout)
      : writer_(writer), backend_(backend), spill_(spill), layer_(layer), layout_(layout) {}

  // Writes one kv head's sections. Its rows are the positions that are always read exactly, then
  // those of the clusters in the order of the tree, so that each cluster is one stretch of the
  // file.
  Status WriteHead(uint32_t kv_head, const HeadClusters* clusters) {
    std::vector<uint32_t> positions = ExactPositions();
    std::vector<uint32_t> block_ends = {static_cast<uint32_t>(positions.size())};
    if (clusters != nullptr) {
      for (const uint32_t key : clusters->tree.order) positions.push_back(clusters->positions[key]);
      const auto& rows = clusters->tree.levels.back().children;
      for (size_t i = 1; i < rows.size(); ++i) block_ends.push_back(block_ends.front() + rows[i]);
    }
    LECTERN_RETURN_IF_ERROR(WriteRows(kv_head, positions, block_ends));
    LECTERN_RETURN_IF_ERROR(Add(SectionKind::kPositions, kv_head, 0, positions));
    if (clusters == nullptr) return {};
    for (uint32_t level = 1; level <= layout_.num_levels; ++level) {
      LECTERN_RETURN_IF_ERROR(WriteLevel(kv_head, level, clusters->tree));
    }
    LECTERN_RETURN_IF_ERROR(Add(SectionKind::kThresholds, kv_head, 0, clusters->thresholds));
    if (const auto& metric = clusters->tree.metric) {
      LECTERN_RETURN_IF_ERROR(Add(SectionKind::kQueryMetric, kv_head, 0, metric->Stored()));
      LECTERN_RETURN_IF_ERROR(WriteWindowCopy(kv_head));
    }
    for (const auto& [kind, scores] :
         {std::pair(SectionKind::kBlockScores, &clusters->block_scores),
          std::pair(SectionKind::kPlainBlockScores, &clusters->plain_block_scores),
          std::pair(SectionKind::kFullBlockScores, &clusters->full_block_scores)}) {
      if (!scores->empty()) LECTERN_RETURN_IF_ERROR(Add(kind, kv_head, 0, *scores));
    }
    if (clusters->tree.row_codes.empty()) return {};
    LECTERN_RETURN_IF_ERROR(Add(SectionKind::kRowCodes, kv_head, 0, clusters->tree.row_codes));
    return Add(SectionKind::kFineCodes, kv_head, 0, clusters->tree.fine_codes);
  }

 private:
  template <typename T>
  Status Add(SectionKind kind, uint32_t kv_head, uint32_t level, const std::vector<T>& data) {
    return writer_.AddSection(kind, kv_head, level, data.data(), data.size() * sizeof(T));
  }

  // Positions of the rows that are not clustered: sinks, then window; the whole document (or
  // window) if nothing is clustered.
  std::vector<uint32_t> ExactPositions() const {
    const auto num_tokens = static_cast<uint32_t>(layout_.num_tokens);
    std::vector<uint32_t> positions;
    if (layout_.num_levels == 0) {
      positions.resize(num_tokens - layout_.first_token);
      std::iota(positions.begin(), positions.end(), layout_.first_token);
      return positions;
    }
    for (uint32_t i = 0; i < layout_.num_sinks; ++i) positions.push_back(i);
    for (uint32_t i = num_tokens - layout_.num_window; i < num_tokens; ++i) positions.push_back(i);
    return positions;
  }

  // Writes the rows in blocks: first the block's K rows, then its V rows.
  Status WriteRows(uint32_t kv_head, const std::vector<uint32_t>& positions,
                   const std::vector<uint32_t>& block_ends) {
    LECTERN_RETURN_IF_ERROR(writer_.BeginSection(SectionKind::kRows, kv_head, 0));
    const TypedRows all_keys = spill_.Keys(layer_, kv_head, layout_.num_tokens);
    const TypedRows all_values = spill_.Values(layer_, kv_head, layout_.num_tokens);
    uint32_t begin = 0;
    for (const uint32_t end : block_ends) {
      for (const TypedRows& all : {all_keys, all_values}) {
        const std::vector<std::byte> gathered =
            Gathered(all, std::span(positions).subspan(begin, end - begin));
        const std::vector<std::byte> stored = RowsToStore(
            backend_, {gathered.data(), all.dtype, end - begin, all.num_cols}, layout_.dtype);
        LECTERN_RETURN_IF_ERROR(writer_.Append(stored.data(), stored.size()));
      }
      begin = end;
    }
    return {};
  }

  // Writes the window's rows once more, as q8, where that is shorter and possible.
  Status WriteWindowCopy(uint32_t kv_head) {
    if (layout_.dtype == Dtype::kQ8 || spill_.shape().head_dim % kQ8Block != 0) return {};
    LECTERN_RETURN_IF_ERROR(writer_.BeginSection(SectionKind::kWindowCopy, kv_head, 0));
    for (const TypedRows& all : {spill_.Keys(layer_, kv_head, layout_.num_tokens),
                                 spill_.Values(layer_, kv_head, layout_.num_tokens)}) {
      const std::vector<std::byte> copy = RowsToStore(
          backend_, all.Slice(all.num_rows - layout_.num_window, all.num_rows), Dtype::kQ8);
      LECTERN_RETURN_IF_ERROR(writer_.Append(copy.data(), copy.size()));
    }
    return {};
  }

  // Writes the sections of one level of a head's tree; the coarsest is number 1.
  Status WriteLevel(uint32_t kv_head, uint32_t number, const CentroidTree& tree) {
    const TreeLevel& level = tree.levels[number - 1];
    std::vector<uint32_t> children = level.children;
    // In the file finest clusters count stored rows, which begin with sinks and window.
    if (number == layout_.num_levels) {
      for (uint32_t& row : children) row += layout_.num_sinks + layout_.num_window;
    }
    LECTERN_RETURN_IF_ERROR(Add(SectionKind::kCentroids, kv_head, number, level.centroids));
    LECTERN_RETURN_IF_ERROR(Add(SectionKind::kMeanValues, kv_head, number, level.mean_values));
    LECTERN_RETURN_IF_ERROR(Add(SectionKind::kKeyCounts, kv_head, number, level.key_counts));
    LECTERN_RETURN_IF_ERROR(Add(SectionKind::kRadii, kv_head, number, level.radii));
    LECTERN_RETURN_IF_ERROR(Add(SectionKind::kVariances, kv_head, number, level.variances));
    return Add(SectionKind::kChildren, kv_head, number, children);
  }

  ShardWriter& writer_;
  const Backend& backend_;
  const KvSpill& spill_;
  const uint32_t layer_;
  const RowLayout& layout_;
};

}  // namespace

RowLayout LayoutOfLayer(const RowLayout& document, const ModelConfig& config, uint32_t layer) {
  if (!config.is_windowed(layer)) return document;
  RowLayout layout = {.num_tokens = document.num_tokens,
                      .num_sinks = 0,
                      .num_window = 0,
                      .num_levels = 0,
                      .dtype = document.dtype};
  layout.window = config.window;
  layout.first_token = static_cast<uint32_t>(
      layout.num_tokens - std::min<uint64_t>(layout.num_tokens, config.window - 1));
  return layout;
}

Result<HeadClusters> ClusterHead(const Backend& backend, const KvSpill& spill, uint32_t layer,
                                 uint32_t kv_head, const RowLayout& layout,
                                 const BuildOptions& options, const ClusterBy& by) try {
  // Clustering and calibration are timed separately, for reports.
  auto start = std::chrono::steady_clock::now();
  const std::vector<uint32_t> stored =
      StoredPositions(backend, spill, layer, kv_head, layout, options.seed);
  const size_t dim = spill.shape().head_dim;
  LECTERN_ASSIGN(HeadClusters clusters,
                 BuildClusters(backend, spill, layer, kv_head, layout, stored, options, by));
  clusters.cluster_seconds = SecondsSince(start);
  start = std::chrono::steady_clock::now();
  const std::vector<float> queries = GroupQueries(spill, layer, kv_head);
  clusters.thresholds =
      CalibrateThresholds(backend, clusters.tree, {queries.data(), queries.size() / dim, dim},
                          1 / std::sqrt(static_cast<float>(dim)), spill.shape().softcap);
  const WindowAttentionArgs window = ObservedWindow(
      backend, spill.Keys(layer, kv_head, layout.num_tokens),
      {queries.data(), queries.size() / dim, dim},
      spill.shape().query_cols / (dim * spill.shape().num_kv_heads), spill.shape().softcap);
  clusters.block_scores = ScoreBlocks(SquaredWindowAttention(window), layout, stored);
  clusters.plain_block_scores = ScoreBlocks(PlainWindowAttention(window), layout, stored);
  clusters.full_block_scores = ScoreFullBlocks(spill.SquaredSums(layer, kv_head), layout, stored);
  clusters.calibrate_seconds = SecondsSince(start);
  return clusters;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "not enough memory to cluster a layer; use fewer threads");
}

Result<HeadClusters> ClusterUnfinishedHead(const Backend& backend, const KvSpill& spill,
                                           uint32_t layer, uint32_t kv_head,
                                           const RowLayout& layout,
                                           const BuildOptions& options) try {
  constexpr float kLetsPass = -1000;  // below the logarithm of every score
  std::vector<uint32_t> all(layout.num_tokens);
  std::iota(all.begin(), all.end(), 0u);
  LECTERN_ASSIGN(HeadClusters clusters,
                 BuildClusters(backend, spill, layer, kv_head, layout, all, options, {}));
  clusters.thresholds.assign(layout.num_levels * kThresholdsPerLevel, kLetsPass);
  return clusters;
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "not enough memory to cluster a layer; use fewer threads");
}

Result<ShardSummary> WriteLayerShard(Env& env, const std::string& temp_dir,
                                     const std::string& directory, const Backend& backend,
                                     const KvSpill& spill, uint32_t layer, const RowLayout& layout,
                                     const ShardHeader& header,
                                     std::span<const HeadClusters> heads) {
  ShardHeader layer_header = header;
  layer_header.kind = static_cast<uint32_t>(ShardKind::kLayer);
  layer_header.layer = layer;
  layer_header.num_levels = layout.num_levels;
  layer_header.num_sinks = layout.num_sinks;
  layer_header.num_window = layout.num_window;
  layer_header.window_size = layout.window;
  LECTERN_ASSIGN(const auto writer,
                 ShardWriter::Create(env, temp_dir, directory, LayerFile(layer), layer_header));
  LayerShard shard(*writer, backend, spill, layer, layout);
  for (uint32_t head = 0; head < spill.shape().num_kv_heads; ++head) {
    LECTERN_RETURN_IF_ERROR(shard.WriteHead(head, heads.empty() ? nullptr : &heads[head]));
  }
  return writer->Finish();
}

}  // namespace lectern
