// Finds the best rows of a layer for the tokens of a question, on a CUDA device, with tensor cores.
// It is the sister of row_lookup.h for many query rows, some of which choose (as index/lookup.h's
// row_weights).
//
//   ref_r = log(exp(known_r) + sum_i N_i exp(s_ri))            of all clusters i
//   S_i   = sum_r w_r exp(s_ri - ref_r)                        of the rows r that choose
//   m_rt  = exp(softcap(q_r . C_cluster(t) + f_t <H q_r, s_t>) - ref_r)
//   S_t   = sum_r w_r m_rt
//
// s_ri is the logit of a centroid with the correction for its spread (kernels/second_order.h),
// softcapped. The steps:
//   1. The `num_coded` rows of the clusters of the largest S_i, of all kv heads together, get their
//      m_rt from their row codes; only the first rows of the last such cluster do. Where all rows
//      are coded, S_i is not computed. Any other row has m_rt = exp(s_ri - ref_r).
//   2. The `num_refined` coded rows of the largest S_t get a better m_rt from their fine codes, and
//      LSE_r = ref_r + log(exp(known_r - ref_r) + sum_t m_rt).
//   3. The `num_wanted` rows of the largest sum_r w_r m_rt exp(ref_r - LSE_r) are listed.
//   4. Each group of rows that follow one another keeps the log mass of its other rows for the
//      tail. For a query row that chooses this is by m_rt; for another one by the clusters, less
//      the share that is listed as the rows that choose see it.
//
// Rows are vectors of +-1, or of 4 s + p + 2 p', which f16 and bf16 hold exactly; they are
// multiplied with rotated queries that are rounded to their own type. The row codes are read in one
// pass, and the fine codes of refined rows in another; no logit of a row that is not refined is
// kept. The reference ref_r is known beforehand and takes the place of an online softmax, because
// masses only need sums. The method is ours.
//
// There are 8 launches: queries, centroids, row codes, which rows are refined; fine codes, their
// scores, the list, the tail and the items. There are two more where not all rows are coded: scores
// of clusters, and which of their rows are coded.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_QUESTION_LOOKUP_H_
#define LECTERN_KERNELS_CUDA_LOOKUP_QUESTION_LOOKUP_H_

#include "kernels/cuda/lookup/row_select.h"

namespace lectern {

// Query rows of a kv head that choose. By hand: 32 choosing tokens of 16 query heads. The host
// looks up for more (engine/gpu/lookup.h).
constexpr uint32_t kMostChosenQueries = 512;

struct CudaQuestionLookupArgs : CudaCodesLookupArgs {
  const uint32_t* chosen = nullptr;  // [num_chosen], ascending: the query rows that choose
  const float* weights = nullptr;    // [num_chosen], > 0, of sum 1
  uint32_t num_chosen = 0;           // 1 to kMostChosenQueries, at most R
};
// Floats of `scratch` that a lookup needs. Most of them are masses of refined rows: num_refined
// times num_chosen, the latter filled up to a multiple of 64 (at most 16: to 16).
size_t CudaQuestionLookupScratch(const DeviceRowCodes& codes, uint32_t num_chosen,
                                 uint32_t num_coded, uint32_t num_refined);
// Against the rounded queries and rotated queries: logits within 1e-5 scale |q| |k| (what tensor
// cores round) and tanhf; sums of masses within 1e-5 of all that was summed. An exponent above 80
// counts as 80, and of a group with rows that are not listed at least 2^-24 is left, as on the CPU.
// Enqueues and returns (rows.h). kInvalidArgument: the arguments break the rules above, or a
// head_dim too wide for the GPU's shared memory; nothing was enqueued. After another error some
// launches may have been. Contents of arrays are not checked. `scratch` and outputs are the call's
// until the stream has come this far.
CudaStatus CudaQuestionLookup(CudaStream& stream, const CudaQuestionLookupArgs& args);

// ---- What launches are given

// A column is a row that chooses; their number is filled up to whole tiles with zeros.
struct CudaQuestionLookupPass {
  CudaQuestionLookupArgs lookup;
  RowSelection clusters;  // by cluster which rows are coded, where not all are
  RowSelection slots;     // of coded rows those that are refined
  CudaRowListPass list;  // and of these those that are listed
  uint32_t num_queries;  // R
  uint32_t num_columns;  // of tiles of 16 or of 64
  uint32_t num_parts;    // of kQuestionGroups groups
  uint32_t num_tiles;    // of the head with the most rows
  uint32_t num_zeroed;
  uint32_t* zeroed;            // what is 0 at first
  uint32_t* counters;          // [num_kv_heads]: blocks that have ended
  uint32_t* reference_counts;  // [num_kv_heads][tiles of 64 columns]: blocks that have ended
  // [num_kv_heads][num_tiles * kRowTile]; < 0: not coded, or listed
  float* scores;
  // These three where not all rows are coded, else nullptr.
  float* norms;                // [num_kv_heads][num_columns]: scale |q|
  float* cluster_scores;       // [num_kv_heads][most_clusters]: S_i
  uint32_t* coded_end;         // [num_kv_heads][most_clusters]: the row behind the last coded one
  uint32_t* refined_begin;     // [num_kv_heads + 1]: where those of each head begin
  void* tiles;                 // [num_kv_heads][num_columns][TileWidth], of the queries' type
  float* centroid_logits;      // [num_kv_heads][most_clusters][num_columns]: scale q . C
  float *part_max, *part_sum;  // [num_kv_heads][num_parts][num_columns]
  float* references;           // [num_kv_heads][num_columns]: finite
  float* coded;                // [num_kv_heads][most_groups][num_columns]: masses
  double* block_masses;        // [num_kv_heads][blocks of a head][num_columns]: of their groups
  float* score_weights;        // [num_kv_heads][num_columns]: w exp(ref - LSE)
  float* fine_masses;          // [num_refined][num_columns], head after head
};

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_LOOKUP_QUESTION_LOOKUP_H_
