// Finds the best rows of a layer for the query rows of a token, on a CUDA device. It does what
// index/lookup.h does, except that all finest clusters are looked up here.
//
//   S_i  = sum_r w_r exp(s_ri - LSE_r),   LSE_r = log(exp(known_r) + sum_i N_i exp(s_ri))
//   l_rt = softcap(q_r . C_cluster(t) + f_t <H q_r, s_t>)       (index/row_codes.h; q scaled)
//   S_t  = sum_r w_r exp(l_rt - LSE_r)
//
// s_ri is the logit of a centroid with the correction for its spread (kernels/second_order.h),
// softcapped. The steps:
//   1. The `num_coded` rows of the clusters of the largest S_i, of all kv heads together, get their
//      logits l_rt from their row codes; only the first rows of the last such cluster do.
//   2. The `num_refined` rows of the largest S_t get better l_rt from their fine codes.
//   3. The `num_wanted` best of these are listed, by S_t with an LSE_r of the best estimate of each
//      row: by its fine code, else by its row code, else by its cluster.
//   4. Each group of rows that follow one another keeps the log mass of its other rows, by the same
//      estimates, for the tail.
//
// Queries are as attention takes them. They are scaled, rotated and made into tables of sums
// (kernels/sign_logits.h) here, and the logits of the centroids are products of tiles. Rows that
// are coded get slots, one after the other, so that later steps touch these rows alone. The method
// is ours.
//
// There are 8 launches: queries and centroids, scores of clusters, slots; row codes; fine codes,
// their scores, the list, the tail and the items.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_H_
#define LECTERN_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_H_

#include "kernels/cuda/lookup/row_select.h"

namespace lectern {

constexpr uint32_t kMostLookupQueries = 16;  // query rows of a kv head

// R is at most kMostLookupQueries, of which all choose.
struct CudaRowLookupArgs : CudaCodesLookupArgs {
  const float* row_weights = nullptr;  // [R], >= 0, of sum 1; nullptr: 1 / R each
};
// Floats of `scratch` that a lookup of R = num_queries needs.
size_t CudaRowLookupScratch(const DeviceRowCodes& codes, uint32_t num_queries, uint32_t num_coded,
                            uint32_t num_refined);
// Tables are MakeSignTables' of the rounded queries, bit for bit. Logits within 1e-6 relative of
// AddSignLogitsScalar's, what tensor cores round of the centroids' (1e-5 scale |q| |C|) and tanhf;
// sums of masses within 1e-5. Enqueues and returns (rows.h). kInvalidArgument: the arguments break
// the rules above, and nothing was enqueued; or the GPU lacks shared memory, where some launches
// may have been, as after any other error. Contents of arrays are not checked. `scratch` and
// outputs are the call's until the stream has come this far.
CudaStatus CudaRowLookup(CudaStream& stream, const CudaRowLookupArgs& args);

// ---- What launches are given

// The head, and its cluster, of a tile's first slot.
struct RowTileStart {
  uint32_t head, cluster;
};
// A slot is a row that is coded. State: the largest logit, and the sum of exp(logit - it).
struct CudaRowLookupPass {
  CudaRowLookupArgs lookup;
  RowSelection clusters, slots;  // by cluster which rows are coded; of these which are refined
  CudaRowListPass list;          // and of these which are listed
  uint32_t num_queries;          // R
  uint32_t num_zeroed;
  uint32_t* zeroed;            // what is 0 at first
  uint32_t* counters;          // [num_kv_heads]: blocks that have ended
  uint8_t* tables;             // [num_kv_heads][R][plane_bytes * 32]
  float* scales;               // [num_kv_heads][R][2]: step and offset
  float* centroid_logits;      // [num_kv_heads][R][most_clusters]: scale q . C
  float* cluster_logits;       // the same: s
  float* cluster_scores;       // [num_kv_heads][most_clusters]
  float* cluster_lse;          // [num_kv_heads][R]
  float *all_max, *all_sum;    // [num_kv_heads][R][CentroidTiles]: states of all clusters
  float *rest_max, *rest_sum;  // [num_kv_heads][R][ClusterTiles]: of what is not coded
  uint32_t* cluster_slots;     // [num_kv_heads][most_clusters + 1]: where those of each begin
  uint32_t* head_slots;        // [num_kv_heads + 1]
  RowTileStart* tile_starts;   // [SlotTiles]
  uint32_t* slot_rows;         // [num_coded]: as their head counts them
  float* logits;               // [R][SlotTiles * kRowTile]
  float* scores;               // [SlotTiles * kRowTile]; < 0: listed
  // [R][SlotTiles + num_kv_heads]: states of what tile t has of head h, at t + h.
  float *slot_max, *slot_sum;
  float* refined_logits;  // [R][num_refined]
};

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_H_
