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

// The cost of looking up one key, as a share of the cost of attending to it. It was measured when
// sparse prefill was added; the figures are not on record. Estimates of time and the progress of a
// prefill use it; no result depends on it.
constexpr double kLookupReads = 0.15;
// Clustering takes this many times as long as attention with as many products does. Measured were
// 7.5 times with 28,000 tokens and 5.5 times with 116,000.
constexpr double kClusteringCost = 6;

// The number of keys that the queries of the first `tokens` tokens attend to, summed over the
// queries. Dense: each query sees all keys up to its own, so half of the square.
static double KeysAttended(double tokens, double budget) {
  const double dense = std::min<double>(tokens, kDenseTokens), sparse = tokens - dense;
  // A sparse prefill reads a share of the keys further back and looks all of them up. Clusters are
  // made anew when the document has grown by an eighth, so on average a sixteenth is unclustered
  // and is read densely, like the window.
  const double share = budget < 1 ? budget + kLookupReads + 1.0 / 16 : 1;
  const double window = budget < 1 ? sparse * kDenseWindow : 0;
  return (dense * dense + share * (tokens * tokens - dense * dense)) / 2 + window;
}

double PrefillFlops(const ModelConfig& c, double tokens, bool full_stats, double budget) {
  const double attention_cols = double{1} * c.num_heads * c.head_dim;
  const double linear =
      2.0 * c.hidden_size *
      (2 * attention_cols + 2.0 * c.num_kv_heads * c.head_dim + 3.0 * c.active_mlp());
  // Without full statistics the last layer computes keys and values only: nothing reads its output.
  const uint32_t layers = c.num_layers - (full_stats ? 0 : 1);
  // 4 = logits and weighted values, 2 operations each; the second pass computes the logits once
  // more.
  double flops = layers * (tokens * linear +
                           (full_stats ? 6 : 4) * attention_cols * KeysAttended(tokens, budget));
  if (budget >= 1) return flops;
  for (const uint64_t end : PrefillClusters::EndsIn(static_cast<uint64_t>(tokens))) {
    flops += kClusteringCost * ClusterFlops(c, static_cast<double>(end));
  }
  return flops;
}

double ClusterFlops(const ModelConfig& c, double tokens) {
  // The distances that K-means computes for each key: to the finest clusters of its block in each
  // of 10 iterations, and to groups of clusters in 4 refinements.
  const double block = std::min<double>(tokens, tokens > kFlatKeys ? kBlockKeys : kFlatKeys);
  const double clusters_met =
      0.02 * block + (tokens > kFlatKeys ? tokens / kBlockKeys + 0.4 * 0.004 * tokens : 0);
  return 10.0 * 2 * c.head_dim * c.num_layers * c.num_kv_heads * tokens * clusters_met;
}

// Bytes of a shard file whose sections have `section_bytes` in all: with header, alignment, table,
// checksum of each block, and footer (store/FORMAT.md).
static uint64_t FileBytes(uint64_t section_bytes, uint64_t num_sections) {
  const uint64_t payload = AlignUp(
      kHeaderBytes + section_bytes + num_sections * (kSectionAlignment + sizeof(SectionEntry)),
      kBlockBytes);
  return payload + payload / kBlockBytes * sizeof(uint32_t) + sizeof(ShardFooter);
}

uint64_t ShardBytes(const ModelConfig& c, Dtype dtype, uint64_t tokens) {
  const bool is_clustered = tokens >= kMinClusteredTokens;
  // A row is key, value and position; a clustered one also has its codes.
  const uint64_t row = 2 * RowBytes(dtype, c.head_dim) + sizeof(uint32_t) +
                       (is_clustered ? RowCodeBytes(c.head_dim) + FineCodeBytes(c.head_dim) : 0);
  // An upper estimate: centroids of all levels are at most 2.6 % of the keys (LevelFractions) and
  // one for each block that is begun. Cutting all clusters into parts of at most kMaxFinestKeys
  // makes one more for every 64 keys, or 1.6 %, and again where parts are too large; two such
  // rounds fit.
  const uint64_t clusters = is_clustered ? tokens * 65 / 1000 : 0;
  const uint64_t cluster = 2 * RowBytes(CentroidDtype(c.head_dim), c.head_dim) + 16;
  const uint64_t metric = is_clustered ? QueryMetric::StoredSize(c.head_dim) * sizeof(f16) : 0;
  // The copy of the window, as q8.
  const uint64_t copy = is_clustered && c.head_dim % kQ8Block == 0
                            ? 2 * kWindowTokens * RowBytes(Dtype::kQ8, c.head_dim)
                            : 0;
  // Sections of one kv head, with two or three levels; an upper estimate.
  const uint64_t sections = is_clustered ? 26 : 2;
  return FileBytes(c.num_kv_heads * (tokens * row + clusters * cluster + metric + copy),
                   c.num_kv_heads * sections);
}

uint64_t DocumentShardBytes(const ModelConfig& c, uint64_t tokens, uint64_t text_bytes) {
  const uint64_t token = sizeof(int32_t) + 2 * sizeof(uint64_t);
  const uint64_t sums = tokens / kChunkTokens * c.num_layers * sizeof(double);
  constexpr uint64_t kOptionsBytes = 2048;  // room for JSON of options and the name, by hand
  // Prose has an index of words about as large as itself, and a passage of 24 bytes for each 40 to
  // 90 bytes. The index of a short text is mostly the first pages of its tables.
  const uint64_t words = 2 * text_bytes + (16 << 10);
  return FileBytes(text_bytes + tokens * token + sums + words + kOptionsBytes + 24 * c.num_layers,
                   11);
}

uint64_t SpillBytes(const ModelConfig& c, Dtype dtype, uint64_t tokens) {
  return uint64_t{2} * c.num_layers * c.num_kv_heads * tokens * RowBytes(dtype, c.head_dim);
}

uint64_t ClusterHeadBytes(const ModelConfig& c, uint64_t document_tokens) {
  // Five copies of a head's keys are alive at once, and one more where keys are clustered in
  // another form than they are stored. A metric is made from 32 residuals a dimension and ten
  // matrices of double (index/query_metric.h).
  const uint64_t square = uint64_t{c.head_dim} * c.head_dim;
  return document_tokens * c.head_dim * sizeof(float) * 6 +
         square * (32 * sizeof(float) + 10 * sizeof(double));
}

// Prefill and clustering do not run at the same time, so the larger of the two counts.
uint64_t IndexingBytes(const ModelConfig& c, uint64_t tokens, size_t num_threads,
                       double prefill_budget) {
  const uint64_t chunk = std::min<uint64_t>(tokens, kChunkTokens);
  const uint64_t lookups = prefill_budget < 1 ? LookupBytes(c, chunk, tokens) : 0;
  return std::max(ActivationBytes(c, chunk) + lookups, ClusterHeadBytes(c, tokens) * num_threads);
}

uint64_t TextBytes(uint64_t text_bytes, uint64_t document_tokens) {
  // The text is held as given, cleaned, and in the tokenizer's work; then there are ids (4 bytes)
  // and ranges (16 bytes), twice while they are joined with the prefix's. When that work is done,
  // the words and passages take less than its place.
  return 8 * text_bytes + 2 * document_tokens * 20;
}

Dtype SpillDtype(Dtype dtype) { return dtype == Dtype::kQ8 ? Dtype::kF16 : dtype; }

double TrialFlopsPerSecond(const Backend& backend, const CancelFlag* cancel) {
  // The shape of a prefill's product in small: many rows, and a weight that fits into a cache.
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
  // The first run does not count: it brings code and data into caches.
  const auto start = std::chrono::steady_clock::now();
  int repeats = 0;
  while (SecondsSince(start) < 0.05 && !IsSet(cancel)) {
    run();
    ++repeats;
  }
  return 2.0 * kRows * kCols * kCols * repeats / SecondsSince(start);
}

}  // namespace lectern
