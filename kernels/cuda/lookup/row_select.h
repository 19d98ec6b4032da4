// Rows of a layer that are known by codes, and how the best of their scores are found and listed on
// a CUDA device: what row_lookup.h and question_lookup.h share.
//
// Scores are counted in buckets, 64 to a power of two; what lies above the bucket of the last one
// that is wanted is taken, and of that bucket (scores within 1.6 % of each other) the first ones in
// their order. Lists are made in one pass: where a tile's begins is what the tiles before it hold,
// which it looks back at while these end (decoupled look-back, Merrill and Garland, 2016). The same
// rows each time. That scores are told apart no further, which spares two passes, is ours.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_ROW_SELECT_H_
#define LECTERN_KERNELS_CUDA_LOOKUP_ROW_SELECT_H_

#include "kernels/cuda/attention/cut_items.h"

namespace lectern {

// The codes of the rows of one layer. Entries of kv head h in arrays per row are [row_begin[h],
// row_begin[h] + num_rows[h]), in the order of their clusters and groups; row_begin[h] % 32 == 0,
// and the arrays reach to the next 32 rows after a head's last. All arrays are the device's.
struct DeviceRowCodes {
  const uint8_t* planes = nullptr;  // [rows][plane_bytes]: signs; 4-byte aligned, fastest: 16-byte
  const float* factors = nullptr;   // per row; 16-byte aligned
  // Per row its planes of a number of three bits, s, p and p' side by side, and their factor.
  const uint8_t* fine_planes = nullptr;  // aligned as planes
  const float* fine_factors = nullptr;
  // Per row: which of its head's clusters is its own; 16-byte aligned.
  const uint32_t* clusters = nullptr;
  const uint32_t* row_begin = nullptr;  // [num_kv_heads]
  const uint32_t* num_rows = nullptr;   // [num_kv_heads]
  // Group g of head h has its rows [group_begin[h * (most_groups + 1) + g], the next one's), which
  // count from the head's first, and likewise its clusters. Groups that a head lacks are empty.
  const uint32_t* group_begin = nullptr;
  const uint32_t* group_clusters = nullptr;
  // [clusters of all heads, head_dim], of the queries' type; 16-byte aligned. Those of head h are
  // [cluster_begin[h], cluster_begin[h + 1]).
  const void* centroids = nullptr;
  const uint32_t* cluster_begin = nullptr;  // [num_kv_heads + 1]
  // [clusters of all heads]: of each its last row's successor, which counts from the head's first.
  const uint32_t* cluster_end = nullptr;
  // [clusters of all heads]: square roots of variances; nullptr: centroids alone.
  const float* deviations = nullptr;
  // [2][(head_dim + 31) / 32]: RotationSigns of index/row_codes.h.
  const uint32_t* rotation = nullptr;
  uint32_t num_kv_heads = 0;
  uint32_t most_rows = 0, most_groups = 0, most_clusters = 0;  // of one head
  uint64_t all_rows = 0;                                       // the sum of num_rows
  uint32_t plane_bytes = 0;                                    // head_dim / 8, at most 32
};

// The arguments that all lookups by row codes have. R: num_tokens * group query rows of a kv head,
// some of which choose.
struct CudaCodesLookupArgs {
  DeviceRowCodes codes;
  DeviceQueries queries;
  float scale = 0;                   // > 0
  float softcap = 0;                 // > 0: of the model's logits
  const float* known_lse = nullptr;  // [num_kv_heads][R]: of all else; nullptr: nothing
  uint32_t num_coded = 0;            // num_refined to all_rows: whose row codes are read
  uint32_t num_refined = 0;          // num_wanted to num_coded: whose fine codes are read
  uint32_t num_wanted = 0;           // >= 1: that are listed
  float* scratch = nullptr;          // as many as each lookup says; 16-byte aligned
  // [num_kv_heads], of the device: added to the rows of each head that are listed; nullptr: 0.
  const uint32_t* first_row = nullptr;
  uint32_t* rows = nullptr;  // out [num_wanted]: of head 0, ascending, from its first; of head 1 …
  uint32_t* counts = nullptr;  // out [num_kv_heads]: how many of each
  float* lse = nullptr;        // out [num_kv_heads][rows that choose]
  // out [num_kv_heads][R][most_groups]: log mass of the rows that are not listed; -inf: there are
  // none, or no such group. A source's logits (attention.h), of stride most_groups.
  float* tail = nullptr;
  float* tail_lse = nullptr;  // out, as lse: of all groups; nullptr: not wanted
  // Items of what is listed, `counts` being the above: without a launch of their own. No items: not
  // wanted.
  CudaCutItemsArgs cut;
};
// Says what is wrong with the arguments that can be seen on the host; nullptr: nothing.
const char* WrongCodesLookup(const CudaCodesLookupArgs& args);

// Memory in parts, each aligned to 16 bytes where `scratch` is. With `scratch` nullptr it only
// counts.
struct ScratchParts {
  float* scratch;
  size_t used = 0;  // floats
  // Makes `part` the next `size` elements, and counts them in `used`.
  template <typename T>
  void Take(T*& part, size_t size) {
    part = reinterpret_cast<T*>(scratch + used);
    used += (size * sizeof(T) + 15) / 16 * 4;
  }
};

// ---- What launches are given

// The bucket of the last score that is taken, and how many of it are.
struct RowCut {
  uint32_t bucket, wanted;
};
// The `wanted` best of what is counted, which is as many at least. All arrays but `cut` are 0 at
// first.
struct RowSelection {
  uint32_t wanted;
  uint32_t* counts;    // [kScoreBuckets]
  uint32_t* counters;  // [2]: blocks that have counted; tiles that were taken
  uint64_t* tiles;     // [tiles]: what each holds, see CountsBefore
  RowCut* cut;
};
// Take a selection's parts of scratch memory. TakeZeroed comes first, for all selections: its parts
// are those that must be 0 at first.
void TakeZeroed(size_t num_tiles, ScratchParts& parts, RowSelection& selection);
void TakeRest(ScratchParts& parts, RowSelection& selection);

// Rows whose fine codes are read, head after head, ascending; each array as long as they are many.
struct RefinedRows {
  uint32_t* rows;   // as their head counts them
  uint32_t* slots;  // where their score is among those by row codes
  uint16_t* heads;
  float* scores;  // by fine codes
};
// Takes the arrays of `refined` from scratch memory.
void TakeRefined(size_t num_refined, ScratchParts& parts, RefinedRows& refined);

// The last list, of those whose score by fine codes is among the best.
struct CudaRowListPass {
  RowSelection selection;
  RefinedRows refined;
  uint32_t num_refined;
  const uint32_t* first_row;  // [num_kv_heads]: added to rows; nullptr: 0
  float* scores;              // by row codes, of those listed: -1 from now on
  uint32_t* rows;             // out [wanted]: head after head, ascending
  uint32_t* counts;           // in: 0; out [num_kv_heads]: how many of each
};

// Fills in all of `list` but its parts of scratch memory.
void SetList(const CudaCodesLookupArgs& args, float* scores, CudaRowListPass& list);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_LOOKUP_ROW_SELECT_H_
