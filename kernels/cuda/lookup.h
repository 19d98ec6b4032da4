// The centroid lookup on a CUDA device, and the lists of rows that follow from it.
//
//   S_i = sum_r w_r exp(s_ri - LSE_r),   s_ri = softcap(scale * q_r . C_i + second order),
//   LSE_r = log(exp(known_r) + sum_j N_j exp(s_rj))
//
// (kernels/centroid_scores.h). Source: Hooper et al. 2024, arXiv:2411.09688, section 4.1. A token's
// rows (up to 16) take one pass over the centroids, split over the device, that stores exp(s) of
// each cluster under its tile's maximum; a second pass over these numbers, not the centroids,
// weighs them by 1 / LSE: no exponential a cluster, as in the paper, where T is scaled instead. A
// question's rows take two passes over the centroids, as in the paper: denominators, then mean S.
// Ours differs: rows span the query group; in the first pass the centroids are split over blocks,
// not the rows alone; sums over rows are made in a fixed order instead of by atomics, so that a
// selection is the same each time.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_H_
#define LECTERN_KERNELS_CUDA_LOOKUP_H_

#include "kernels/cuda/cut_items.h"

namespace lectern {

// Clusters of one level, those of kv head h at [begin[h], begin[h + 1]).
struct DeviceClusters {
  const void* centroids = nullptr;    // [num_clusters, head_dim], of the queries' type; 16-byte
                                      //   aligned
  const float* key_counts = nullptr;  // [num_clusters]; a cluster of 0 is left out, S = 0
  const uint32_t* begin = nullptr;    // [num_kv_heads + 1], of the device
  uint32_t num_clusters = 0;          // of all kv heads
  uint32_t most_clusters = 0;         // of one
  // [num_clusters]: square roots of variances, for kernels/second_order.h; nullptr: centroids alone.
  const float* deviations = nullptr;
};

struct CudaLookupArgs {
  DeviceQueries queries;
  DeviceClusters clusters;
  float scale;                         // > 0
  float softcap = 0;                   // > 0: of the model's logits
  const float* query_norms = nullptr;  // [num_kv_heads][R]: scale * |q|; with deviations
  const float* known_lse = nullptr;    // [num_kv_heads][R]: of all else; nullptr: nothing
  const float* row_weights = nullptr;  // [R], of sum 1; nullptr: 1 / R each
  float* scratch = nullptr;            // CudaLookupScratch floats
  float* scores = nullptr;             // out [num_clusters]
  // S > thresholds[kv head] -> 1, else 0. Both or neither.
  const float* thresholds = nullptr;  // [num_kv_heads], of the device
  uint8_t* selected = nullptr;        // out [num_clusters]
};
size_t CudaLookupScratch(const DeviceQueries& queries, const DeviceClusters& clusters);
// Scores within 1e-3 relative of those of the rounded queries (and 1e-30), logits being finite.
CudaStatus CudaLookup(const CudaStream& stream, const CudaLookupArgs& args);

// ---- Selected clusters -> rows

struct CudaSelectRowsArgs {
  const uint8_t* selected;        // [num_clusters]
  const uint32_t* row_begin;      // [num_clusters]: rows [row_begin, row_end) of each cluster; rows
  const uint32_t* row_end;        //   chosen one by one are clusters of one row
  const uint32_t* cluster_begin;  // [num_kv_heads + 1]
  const HeadRows* heads;          // [num_kv_heads], of the device
  uint32_t num_kv_heads;          // at most 1024
  uint32_t* rows;                 // out: exact rows, then those of selected clusters, ascending
  uint32_t* counts;               // out [num_kv_heads]: entries listed
  // The tail, or nullptr: log_counts where a cluster was not selected, else -inf.
  const float* log_counts = nullptr;
  float* tail_bias = nullptr;  // out [num_clusters]
};
// Lists the rows of the selected clusters, ascending as the clusters' rows are. The order does not
// depend on what ran when: there are no atomic appends.
CudaStatus CudaSelectRows(const CudaStream& stream, const CudaSelectRowsArgs& args);

// ---- What launches are given

struct CudaLookupPass {
  CudaLookupArgs lookup;
  uint32_t num_tiles;  // of the largest head: of kTokenTileKeys clusters; a question: parts
  // For few rows: masses [kFewRows][num_clusters]; [heads][tiles][kFewRows]. For many:
  // [heads][parts][R], and lse [heads][R] times log2(e), the known included.
  float* masses;
  float* partial_max;
  float* partial_sum;
  float* lse;
};

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_LOOKUP_H_
