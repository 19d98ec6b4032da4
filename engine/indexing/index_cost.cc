#include "engine/indexing/index_cost.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "engine/document/kv_spill.h"
#include "engine/indexing/prefill_clusters.h"
#include "engine/requests/seconds.h"
#include "index/build.h"
#include "index/centroid_tree.h"
#include "index/query_metric.h"
#include "index/row_codes.h"
#include "store/shard_format.h"
#include "store/shard_layout.h"

namespace lectern {

// The cost of looking a key up, as a part of the cost of reading it, for a query that reads
// sparsely. Measured.
constexpr double kLookupReads = 0.15;
// Clustering takes so many times as long as attention with as many products does: measured were 7.5
// times with 28 and 5.5 with 116 thousand tokens.
constexpr double kClusteringCost = 6;

// Keys that the first `tokens` queries attend to, summed.
static double KeysAttended(double tokens, double budget) {
  const double dense = std::min<double>(tokens, kDenseTokens), sparse = tokens - dense;
  // A share of the keys further back is read. The window is read densely, and so is, on average,
  // half of a growth by an eighth, because clusters are made anew only then.
  const double share = budget < 1 ? budget + kLookupReads + 1.0 / 16 : 1;
  const double window = budget < 1 ? sparse * kDenseWindow : 0;
  return (dense * dense + share * (tokens * tokens - dense * dense)) / 2 + window;
}

double PrefillFlops(const ModelConfig& c, double tokens, bool full_stats, double budget) {
  const double attention_cols = double{1} * c.num_heads * c.head_dim;
  const double linear =
      2.0 * c.hidden_size *
      (2 * attention_cols + 2.0 * c.num_kv_heads * c.head_dim + 3.0 * c.intermediate_size);
  const uint32_t layers = c.num_layers - (full_stats ? 0 : 1);
  double flops = layers * (tokens * linear +
                           (full_stats ? 6 : 4) * attention_cols * KeysAttended(tokens, budget));
  if (budget >= 1) return flops;
  for (const uint64_t end : PrefillClusters::EndsIn(static_cast<uint64_t>(tokens))) {
    flops += kClusteringCost * ClusterFlops(c, static_cast<double>(end));
  }
  return flops;
}

double ClusterFlops(const ModelConfig& c, double tokens) {
  // Finest clusters of a block in each of 10 iterations, and groups of clusters in 4 refinements.
  const double block = std::min<double>(tokens, tokens > kFlatKeys ? kBlockKeys : kFlatKeys);
  const double clusters_met =
      0.02 * block + (tokens > kFlatKeys ? tokens / kBlockKeys + 0.4 * 0.004 * tokens : 0);
  return 10.0 * 2 * c.head_dim * c.num_layers * c.num_kv_heads * tokens * clusters_met;
}

// A shard whose sections have so many bytes in all.
static uint64_t FileBytes(uint64_t section_bytes, uint64_t num_sections) {
  const uint64_t payload = AlignUp(
      kHeaderBytes + section_bytes + num_sections * (kSectionAlignment + sizeof(SectionEntry)),
      kBlockBytes);
  return payload + payload / kBlockBytes * sizeof(uint32_t) + sizeof(ShardFooter);
}

uint64_t ShardBytes(const ModelConfig& c, Dtype dtype, uint64_t tokens) {
  const bool is_clustered = tokens >= kMinClusteredTokens;
  const uint64_t row = 2 * RowBytes(dtype, c.head_dim) + sizeof(uint32_t) +
                       (is_clustered ? RowCodeBytes(c.head_dim) + FineCodeBytes(c.head_dim) : 0);
  const uint64_t clusters = is_clustered ? tokens * 65 / 1000 : 0;
  const uint64_t cluster = 2 * RowBytes(CentroidDtype(c.head_dim), c.head_dim) + 16;
  const uint64_t metric = is_clustered ? QueryMetric::StoredSize(c.head_dim) * sizeof(f16) : 0;
  const uint64_t sections = is_clustered ? 25 : 2;
  return FileBytes(c.num_kv_heads * (tokens * row + clusters * cluster + metric),
                   c.num_kv_heads * sections);
}

uint64_t DocumentShardBytes(const ModelConfig& c, uint64_t tokens, uint64_t text_bytes) {
  const uint64_t token = sizeof(int32_t) + 2 * sizeof(uint64_t);
  const uint64_t sums = tokens / kChunkTokens * c.num_layers * sizeof(double);
  constexpr uint64_t kOptionsBytes = 2048;  // JSON and the name
  return FileBytes(text_bytes + tokens * token + sums + kOptionsBytes + 24 * c.num_layers, 9);
}

uint64_t SpillBytes(const ModelConfig& c, Dtype dtype, uint64_t tokens) {
  return uint64_t{2} * c.num_layers * c.num_kv_heads * tokens * RowBytes(dtype, c.head_dim);
}

uint64_t ClusterHeadBytes(const ModelConfig& c, uint64_t document_tokens) {
  // Five copies of a head's keys, one more where they are not clustered as they are stored. A
  // metric is made of 32 residuals a dimension and ten matrices of double (index/query_metric.h).
  const uint64_t square = uint64_t{c.head_dim} * c.head_dim;
  return document_tokens * c.head_dim * sizeof(float) * 6 +
         square * (32 * sizeof(float) + 10 * sizeof(double));
}

uint64_t IndexingBytes(const ModelConfig& c, uint64_t tokens, size_t num_threads,
                       double prefill_budget) {
  const uint64_t chunk = std::min<uint64_t>(tokens, kChunkTokens);
  const uint64_t lookups = prefill_budget < 1 ? LookupBytes(c, chunk, tokens) : 0;
  return std::max(ActivationBytes(c, chunk) + lookups, ClusterHeadBytes(c, tokens) * num_threads);
}

uint64_t TextBytes(uint64_t text_bytes, uint64_t document_tokens) {
  // The text is held as it was given, cleaned and tokenised; then there are ids and ranges.
  return 8 * text_bytes + 2 * document_tokens * 20;
}

Dtype SpillDtype(Dtype dtype) { return dtype == Dtype::kQ8 ? Dtype::kF16 : dtype; }

double TrialFlopsPerSecond(const Backend& backend) {
  // A product of a prefill's shape in small: many rows, and a weight that fits a cache.
  constexpr size_t kRows = 128, kCols = 512;
  std::vector<float> input(kRows * kCols, 0.5f), weight(kCols * kCols, 0.25f);
  std::vector<float> output(kRows * kCols), scratch(MatMulScratch(kCols));
  const auto run = [&] {
    backend.matmul({.input = Rows<const float>(input.data(), kRows, kCols),
                    .weight = TypedRows{reinterpret_cast<const std::byte*>(weight.data()),
                                        Dtype::kF32, kCols, kCols},
                    .output = {output.data(), kRows, kCols},
                    .column_begin = 0,
                    .column_end = kCols,
                    .accumulate = false,
                    .scratch = scratch});
  };
  run();
  const auto start = std::chrono::steady_clock::now();
  int repeats = 0;
  while (SecondsSince(start) < 0.05) {
    run();
    ++repeats;
  }
  return 2.0 * kRows * kCols * kCols * repeats / SecondsSince(start);
}

}  // namespace lectern
