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
// In 13 launches: what blocks find is put together by the last of them to end. One for queries, one
// for logits; four for the cut (scores and three digits, and where tiles begin); one for fine codes
// and where they lead, four for the cut of what was refined; the list, the tail.
#ifndef LECTERN_KERNELS_CUDA_ROW_LOOKUP_H_
#define LECTERN_KERNELS_CUDA_ROW_LOOKUP_H_

#include "kernels/cuda/attention.h"

namespace lectern {

constexpr uint32_t kMostLookupQueries = 16;  // query rows of a kv head

// Of the rows of one layer. Those of kv head h are [row_begin[h], row_begin[h] + num_rows[h]) of
// what is per row, in the order of their clusters and groups; row_begin[h] % 32 == 0, and the
// arrays reach to the next 32 rows after a head's last. All arrays are the device's.
struct DeviceRowCodes {
  const uint8_t* planes = nullptr;  // packed by 32 rows (kernels/sign_logits.h); 4-byte aligned
  const float* factors = nullptr;   // per row; 16-byte aligned
  // Per row its planes of a number of three bits, s, p and p' side by side, and their factor.
  const uint8_t* fine_planes = nullptr;  // 4-byte aligned
  const float* fine_factors = nullptr;
  // Per row: which of its head's centroids is its own; 16-byte aligned.
  const uint32_t* clusters = nullptr;
  const uint32_t* row_begin = nullptr;  // [num_kv_heads]
  const uint32_t* num_rows = nullptr;   // [num_kv_heads]
  // Group g of head h has its rows [group_begin[h * (most_groups + 1) + g], the next one's), which
  // count from the head's first.
  const uint32_t* group_begin = nullptr;
  // [clusters of all heads, head_dim], of the queries' type; 16-byte aligned. Those of head h are
  // [cluster_begin[h], cluster_begin[h + 1]).
  const void* centroids = nullptr;
  const uint32_t* cluster_begin = nullptr;  // [num_kv_heads + 1]
  // [2][(head_dim + 31) / 32]: RotationSigns of index/row_codes.h.
  const uint32_t* rotation = nullptr;
  uint32_t num_kv_heads = 0;
  uint32_t most_rows = 0, most_groups = 0, most_clusters = 0;  // of one head
  uint64_t all_rows = 0;                    // the sum of num_rows
  uint32_t plane_bytes = 0;                 // head_dim / 8, at most 32
};

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

// Of the scores' bits what is known of the last one that is listed, and how many that begin so are
// still wanted.
struct RowCut {
  uint32_t prefix, wanted;
};
// Of a head: rows above the cut and at it; how many of the latter are listed; and where.
struct RowHead {
  uint32_t above, equal, taken, begin;
};
struct CudaRowLookupPass {
  CudaRowLookupArgs lookup;
  uint32_t num_queries;        // R
  uint32_t num_tiles;          // of the head with the most rows
  uint32_t is_refined;         // 0: rows by row codes; 1: those that were refined, by fine codes
  uint32_t digit;              // which of the score's is counted
  uint32_t num_counts;         // all of `counts` and `counters`, cleared by the first launch
  uint32_t* counts;            // [2][kRowDigits][kRowDigitValues], by is_refined
  uint32_t* counters;          // [num_kv_heads][kRowHeadCounters], [1]: blocks that have ended
  uint8_t* tables;             // [num_kv_heads][R][plane_bytes * 32]
  float* scales;               // [num_kv_heads][R][2]: step and offset
  float* centroid_logits;      // [num_kv_heads][R][most_clusters]: scaled
  float* logits;               // [num_kv_heads][R][num_tiles * kRowTile]
  float *tile_max, *tile_sum;  // [num_kv_heads][R][num_tiles]
  float* scores;               // [num_kv_heads][num_tiles * kRowTile]; < 0: listed
  uint32_t* refined_rows;      // the same, as many as were refined, ascending
  float* refined_scores;       // the same, of these
  uint32_t* refined_counts;    // [num_kv_heads]
  RowCut* cut;
  RowHead* heads;  // [num_kv_heads]
  uint32_t *above,
      *equal;  // [num_kv_heads][num_tiles]: rows above the cut and at it; then those of
               //   the tiles before
};

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ROW_LOOKUP_H_
