// The best rows of a layer by their row codes, on a CUDA device: what index/lookup.h does with the
// codes of the best clusters, here with those of all rows.
//
//   l_rt = softcap(q_r . C_cluster(t) + f_t <H q_r, s_t>)       (index/row_codes.h; q scaled)
//   S_t  = sum_r w_r exp(l_rt - LSE_r),   LSE_r = log(exp(known_r) + sum_t exp(l_rt))
//
// and of all kv heads together the fine codes of the `num_refined` rows of the largest S are read,
// which make better l, LSE and S of these; of them the `num_wanted` best are listed. Of all others
// a group of rows that follow one another keeps its log mass, for the tail. A way down through
// clusters waits at each level for what was chosen above; codes are a thirtieth of the bytes of
// keys and values, and reading all of them waits for nothing.
//
// Queries are as attention takes them. They are scaled, rotated and made into tables of sums
// (kernels/sign_logits.h) here, and the logits of the centroids are products of tiles.
//
// The cut is found exactly, digit by digit, by counting (a radix select), rows of the same score in
// their order, and lists are made by prefix sums: the same rows each time. Ours.
//
// In 13 launches, as what blocks find is put together by the last of them to end: queries; logits;
// scores and their first digit, the two other digits, where each tile lists its rows; fine codes;
// again scores, digits and places, of the refined rows alone; the list; the tail.
#ifndef LECTERN_KERNELS_CUDA_ROW_LOOKUP_H_
#define LECTERN_KERNELS_CUDA_ROW_LOOKUP_H_

#include "kernels/cuda/row_select.h"

namespace lectern {

constexpr uint32_t kMostLookupQueries = 16;  // query rows of a kv head

struct CudaRowLookupArgs {
  DeviceRowCodes codes;
  DeviceQueries queries;               // R = num_tokens * group, 1 to kMostLookupQueries
  float scale = 0;                     // > 0
  float softcap = 0;                   // > 0: of the model's logits
  const float* known_lse = nullptr;    // [num_kv_heads][R]: of all else; nullptr: nothing
  const float* row_weights = nullptr;  // [R], >= 0, of sum 1; nullptr: 1 / R each
  uint32_t num_refined = 0;            // num_wanted to all_rows
  uint32_t num_wanted = 0;             // >= 1
  float* scratch = nullptr;            // CudaRowLookupScratch floats; 16-byte aligned
  // [num_kv_heads], of the device: added to the rows of each head that are listed; nullptr: 0.
  const uint32_t* first_row = nullptr;
  uint32_t* rows = nullptr;  // out [num_wanted]: of head 0, ascending, from its first; of head 1 …
  uint32_t* counts = nullptr;  // out [num_kv_heads]: how many of each
  float* lse = nullptr;        // out [num_kv_heads][R]
  // out [num_kv_heads][R][most_groups]: log mass of the rows that are not listed; -inf: there are
  // none, or no such group. A source's logits (attention.h), of stride most_groups.
  float* tail = nullptr;
  float* tail_lse = nullptr;  // out [num_kv_heads][R]: of all groups; nullptr: not wanted
};
size_t CudaRowLookupScratch(const DeviceRowCodes& codes, uint32_t num_queries);
// Tables are MakeSignTables' of the rounded queries, bit for bit. Logits within 1e-6 relative of
// AddSignLogitsScalar's, what tensor cores round of the centroids' (1e-5 scale |q| |C|) and tanhf;
// sums of masses within 1e-5.
CudaStatus CudaRowLookup(CudaStream& stream, const CudaRowLookupArgs& args);

// ---- What launches are given

struct CudaRowLookupPass {
  CudaRowLookupArgs lookup;
  CudaRowSelectPass select;
  uint32_t num_queries;        // R
  uint8_t* tables;             // [num_kv_heads][R][plane_bytes * 32]
  float* scales;               // [num_kv_heads][R][2]: step and offset
  float* centroid_logits;      // [num_kv_heads][R][most_clusters]: scaled
  float* logits;               // [num_kv_heads][R][num_tiles * kRowTile]
  float *tile_max, *tile_sum;  // [num_kv_heads][R][num_tiles]
};

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ROW_LOOKUP_H_
