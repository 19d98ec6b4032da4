// Attention of query rows over rows of a device's KV: one kernel for the prefill of a document, a
// question and a token, over everything or over what a lookup chose, and the join of its parts.
//
//   state(r) = max_j s_rj,  sum_j exp(s_rj - max),  sum_j exp(s_rj - max) v_j,
//   s_rj = softcap(scale * q_r . k_j) + bias_j,   or what was found before (DeviceKv::logits)
//
// Work is cut into items: some rows of one kv head, in split-KV fashion, so that a head with much
// to read is spread over more of the device than one with little (Hooper et al. 2024,
// arXiv:2411.09688, section 4.2, after Flash-Decoding). Phase 1 finds the state of each item, phase
// 2 joins the states of a head by log-sum-exp, in an order that follows from their number. Inside
// an item it is FlashAttention-2 (arXiv:2307.08691): tiles of 64 keys, products on tensor cores
// with float sums, online softmax. Ours differs: the query heads of a group are rows of one tile,
// so that KV is read once for all of them; items are numbered by the data alone and lie in one list
// whatever block runs them, so that results do not depend on the device's scheduling, bit for bit.
//
// Calls enqueue and return, as rows.h says; kInvalidArgument: the arguments break the rules below,
// and nothing was enqueued.
#ifndef LECTERN_KERNELS_CUDA_ATTENTION_ATTENTION_H_
#define LECTERN_KERNELS_CUDA_ATTENTION_ATTENTION_H_

#include <vector>

#include "kernels/cuda/rows/rows.h"

namespace lectern {

// Query rows as the projection left them: token t, kv head h, row g of its group at
// data + t * stride + (h * group + g) * head_dim. After RoPE, not scaled.
struct DeviceQueries {
  const void* data = nullptr;  // 16-byte aligned
  Dtype dtype = Dtype::kF16;   // f16 or bf16
  size_t stride = 0;           // elements between tokens; a multiple of 8
  uint32_t num_tokens = 0;
  uint32_t num_kv_heads = 0;
  uint32_t group = 0;     // query heads of a kv head
  uint32_t head_dim = 0;  // a multiple of 8, at most 256
};
// Names the first thing that is wrong with the queries; nullptr: nothing is.
const char* WrongQueries(const DeviceQueries& queries);

// Keys and values of all kv heads. An item names entries [begin, end): of `rows` where that is
// given, else rows themselves.
struct DeviceKv {
  const void* keys = nullptr;  // [rows, head_dim], packed; 16-byte aligned
  const void* values = nullptr;
  // Type of both: the queries', or q8 with queries of f16. q8 on a device is apart: int8
  // [rows, head_dim] and scales [rows, head_dim / 32]; head_dim is then a multiple of 32.
  Dtype dtype = Dtype::kF16;
  const f16* key_scales = nullptr;
  const f16* value_scales = nullptr;
  const uint32_t* rows = nullptr;
  const float* bias = nullptr;  // per entry; -inf: not attended. nullptr: 0
  // Causal, where > 0: entry kv_head * rows_per_head + p is position p, and the query of token t
  // sees positions p <= first_position + t, of a window > 0 the last `window` of them. Needs no
  // `rows`.
  uint32_t rows_per_head = 0;
  uint32_t first_position = 0;
  uint32_t window = 0;
  const uint32_t* step = nullptr;  // of the device: added to first_position; nullptr: 0
  // Not nullptr: s_rj themselves, natural logarithms; -inf: not attended. Query row r of kv head h
  // has logits[(h * R + r) * logits_stride + i] for entry h * logits_stride + i, i below
  // logits_stride: what entries stand for may differ from row to row, as in a tail. There are then
  // no keys, rows, bias or causality, and neither scale nor softcap.
  const float* logits = nullptr;
  uint32_t logits_stride = 0;
};

// Some entries of one kv head.
struct AttentionItem {
  uint32_t kv_head;
  uint32_t source;  // index into `sources`
  uint32_t begin, end;
};
constexpr uint32_t kMostSources = 3;  // document, tail, and what the session wrote

// Partial states of items, R = num_tokens * group rows each; row t * group + g.
struct DeviceStates {
  float* out = nullptr;  // [items][R][head_dim], not divided by sum; 16-byte aligned
  float* max = nullptr;  // [items][R]; -inf: nothing attended
  float* sum = nullptr;  // [items][R]
};

struct CudaAttendArgs {
  DeviceQueries queries;
  float scale;        // > 0
  float softcap = 0;  // > 0: of the model's logits
  DeviceKv sources[kMostSources] = {};
  uint32_t num_sources = 1;
  const AttentionItem* items = nullptr;  // [max_items], of the device
  const uint32_t* num_items = nullptr;   // of the device, at most max_items; nullptr: all
  uint32_t max_items = 0;
  DeviceStates states = {};  // out, of the items; unused where `output` is given
  // Not nullptr: one item per kv head, in their order, and its finished rows go here, where
  // CudaJoin would put them.
  void* output = nullptr;
  float* lse = nullptr;
};
// Reads each key and value once per tile of query rows (16 of a token's, else 64 or 128). Finished
// outputs lie within 2^-9 (f16; bf16: 2^-6) * max|v| of AttendScalar on the rounded queries:
// products of the weights are of the queries' type. kInvalidArgument for sources of different
// dtypes, a head_dim too wide for the GPU's shared memory, and more than 65535 tiles of query rows;
// no other shape but the above is refused. max_items 0: nothing is done.
CudaStatus CudaAttend(const CudaStream& stream, const CudaAttendArgs& args);

struct JoinList {
  DeviceStates states;
  const uint32_t* item_begin;  // [num_kv_heads + 1], of the device: items of each head
};
constexpr uint32_t kMostJoined = 3;

struct CudaJoinArgs {
  JoinList lists[kMostJoined];  // their items are joined in this order
  uint32_t num_lists;           // 1 to kMostJoined
  uint32_t num_tokens, num_kv_heads, group, head_dim;
  // [num_tokens, num_kv_heads * group * head_dim], packed, f32, f16 or bf16: sum-divided; zero
  // where nothing was attended. nullptr: not wanted, nor are states.out.
  Dtype dtype;
  void* output;
  float* lse = nullptr;  // [num_kv_heads][R], -inf where nothing was attended; nullptr: not wanted
};
// Joins the states of each head's items and finishes them. kInvalidArgument: neither `output` nor
// `lse` is wanted, a list lacks states, q8, or a head_dim above 256. No rows or heads: nothing is
// done.
CudaStatus CudaJoin(const CudaStream& stream, const CudaJoinArgs& args);

// ---- Items, on the host. A device makes them itself from the rows that it listed (cut_items.h).

// Entries of one kv head in a source.
struct AttentionRange {
  uint32_t kv_head, source, begin, end;
};
struct AttentionWork {
  std::vector<AttentionItem> items;
  std::vector<uint32_t> item_begin;  // [num_kv_heads + 1]
};
// Cuts ranges into items of `rows_per_item` (> 0, asserted) entries (the last of a range has the
// rest), heads in order, ranges of a head in the order given. Empty ranges give none; nor do ranges
// of a head that is not below num_kv_heads.
AttentionWork CutAttention(const std::vector<AttentionRange>& ranges, uint32_t num_kv_heads,
                           uint32_t rows_per_item);
// Rows per item, a whole number of key tiles, at least one (four where there are more than 16 query
// rows), such that items of `num_rows` rows in `num_ranges` ranges fill a device once or twice,
// whatever is left over at the end of each range: from the shapes alone. 0 multiprocessors count as
// one.
uint32_t AttentionRowsPerItem(uint64_t num_rows, uint64_t num_ranges, uint32_t num_query_rows,
                              uint32_t num_multiprocessors);
// The most full items of that size that are cut of any rows, and the most query rows that the
// states of all of them have.
uint64_t MostAttentionItems(uint32_t num_multiprocessors);
uint64_t MostAttentionStates(uint32_t num_multiprocessors);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ATTENTION_ATTENTION_H_
