// Rows of a layer that are known by codes, and how the best of their scores are found and listed on
// a CUDA device: what row_lookup.h and question_lookup.h share.
//
// The cut is found exactly, digit by digit, by counting (a radix select), rows of the same score in
// their order, and lists are made by prefix sums: the same rows each time. Ours.
#ifndef LECTERN_KERNELS_CUDA_ROW_SELECT_H_
#define LECTERN_KERNELS_CUDA_ROW_SELECT_H_

#include "kernels/cuda/attention.h"

namespace lectern {

// Of the rows of one layer. Those of kv head h are [row_begin[h], row_begin[h] + num_rows[h]) of
// what is per row, in the order of their clusters and groups; row_begin[h] % 32 == 0, and the
// arrays reach to the next 32 rows after a head's last. All arrays are the device's.
struct DeviceRowCodes {
  const uint8_t* planes = nullptr;  // packed by 32 rows (kernels/sign_logits.h); 4-byte aligned
  const float* factors = nullptr;   // per row; 16-byte aligned
  // Per row its planes of a number of three bits, s, p and p' side by side, and their factor.
  const uint8_t* fine_planes = nullptr;  // 4-byte aligned; fastest: 16-byte aligned
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
  uint64_t all_rows = 0;                                       // the sum of num_rows
  uint32_t plane_bytes = 0;                                    // head_dim / 8, at most 32
};

// What is wrong with codes for such queries; nullptr: nothing.
const char* WrongCodes(const DeviceRowCodes& codes, const DeviceQueries& queries);

// Memory in parts, each aligned to 16 bytes.
struct ScratchParts {
  float* scratch;
  size_t used = 0;  // floats
  template <typename T>
  void Take(T*& part, size_t size) {
    part = reinterpret_cast<T*>(scratch + used);
    used += (size * sizeof(T) + 15) / 16 * 4;
  }
};

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
// Twice: the `num_refined` rows of the best `scores`, then the `num_wanted` of these of the best
// `refined_scores`. Scores are >= 0.
struct CudaRowSelectPass {
  const uint32_t* num_rows;   // [num_kv_heads]
  const uint32_t* first_row;  // [num_kv_heads]: added to rows that are listed last; nullptr: 0
  uint32_t* rows;             // out [num_wanted], at the second time: head after head, ascending
  uint32_t* listed;           // out [num_kv_heads]: how many of each
  uint32_t num_kv_heads;
  uint32_t num_tiles;  // of the head with the most rows
  uint32_t num_refined, num_wanted;
  uint32_t is_refined;       // 0: the first time; 1: the second
  uint32_t digit;            // which of the score's is counted
  uint32_t num_counts;       // all of `counts` and `counters`, cleared by the first launch
  uint32_t* counts;          // [2][kRowDigits][kRowDigitValues], by is_refined
  uint32_t* counters;        // [num_kv_heads][kRowHeadCounters], [1]: blocks that have ended
  float* scores;             // [num_kv_heads][num_tiles * kRowTile]; < 0: listed
  uint32_t* refined_rows;    // the same, as many as were refined, ascending
  float* refined_scores;     // the same, of these
  uint32_t* refined_counts;  // [num_kv_heads]
  uint32_t* refined_begin;   // [num_kv_heads]: refined rows of the heads before
  RowCut* cut;
  RowHead* heads;  // [num_kv_heads]
  uint32_t *above,
      *equal;  // [num_kv_heads][num_tiles]: rows above the cut and at it; then those of
               //   the tiles before
};
// Its parts of scratch memory, of which the first are `num_counts`, with so many more counters
// behind `counters`.
void SetSelect(const DeviceRowCodes& codes, size_t more_counters, ScratchParts& parts,
               CudaRowSelectPass& select);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ROW_SELECT_H_
