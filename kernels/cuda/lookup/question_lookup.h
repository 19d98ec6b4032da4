// The best rows of a layer for the tokens of a question, on a CUDA device: the sister of
// row_lookup.h for many query rows, of which some choose (as index/lookup.h's row_weights), by
// tensor cores.
//
//   ref_r = log(exp(known_r) + sum_i N_i exp(s_ri))            of all clusters i
//   S_i   = sum_r w_r exp(s_ri - ref_r)                        of the rows r that choose
//   m_rt  = exp(softcap(q_r . C_cluster(t) + f_t <H q_r, s_t>) - ref_r)
//   S_t   = sum_r w_r m_rt
//
// s_ri is the logit of a centroid with what its spread adds (kernels/second_order.h), softcapped.
// The row codes of the `num_coded` rows of the clusters of the largest S_i, of all kv heads
// together, are read (of the last such cluster the first ones; where that is all rows S_i is not
// looked at); of any other row m_rt = exp(s_ri - ref_r). The fine codes of the `num_refined` coded
// rows of the largest S_t make better m and
// LSE_r = ref_r + log(exp(known_r - ref_r) + sum_t m_rt), and the `num_wanted` of the largest
// sum_r w_r m_rt exp(ref_r - LSE_r) are listed. Of the others a group of rows that follow one
// another keeps its log mass for the tail: of a row that chooses by m_rt; of another one by its
// clusters, less the share that is listed as rows that choose see it.
//
// Rows are taken as vectors of +-1, and of 4 s + p + 2 p', which f16 and bf16 hold exactly, and met
// with rotated queries rounded to their own type. One pass over the row codes, one over the fine
// codes of refined rows; no logit of a row that is not refined is kept. A reference that is known
// beforehand takes the place of an online softmax: masses only need sums. Ours.
//
// In 8 launches: queries, centroids, row codes, which rows are refined; fine codes, their scores,
// the list, the tail and the items. In two more where not all rows are coded: scores of clusters,
// and which of their rows are.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_QUESTION_LOOKUP_H_
#define LECTERN_KERNELS_CUDA_LOOKUP_QUESTION_LOOKUP_H_

#include "kernels/cuda/lookup/row_select.h"

namespace lectern {

constexpr uint32_t kMostChosenQueries = 512;

struct CudaQuestionLookupArgs : CudaCodesLookupArgs {
  const uint32_t* chosen = nullptr;  // [num_chosen], ascending: the query rows that choose
  const float* weights = nullptr;    // [num_chosen], > 0, of sum 1
  uint32_t num_chosen = 0;           // 1 to kMostChosenQueries, at most R
};
// Most of it are masses of refined rows: num_refined times num_chosen, the latter filled up to a
// multiple of 64 (at most 16: to 16).
size_t CudaQuestionLookupScratch(const DeviceRowCodes& codes, uint32_t num_chosen,
                                 uint32_t num_coded, uint32_t num_refined);
// Against the rounded queries and rotated queries: logits within 1e-5 scale |q| |k| (what tensor
// cores round) and tanhf; sums of masses within 1e-5 of all that was summed. An exponent above 80
// counts as 80, and of a group with rows that are not listed at least 2^-24 is left, as on the CPU.
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
  // Where not all rows are coded, else nullptr. [num_kv_heads][num_columns]: scaled norms;
  // [num_kv_heads][most_clusters]; likewise: of each cluster its last coded row's successor.
  float *norms, *cluster_scores;
  uint32_t* coded_end;
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
