// Attention probabilities of chosen query rows of one head, by position of the document: where
// retrieval heads look.
#ifndef LECTERN_ENGINE_ATTENTION_RETRIEVAL_ATTENTION_H_
#define LECTERN_ENGINE_ATTENTION_RETRIEVAL_ATTENTION_H_

#include <cstddef>
#include <span>
#include <vector>

#include "engine/attention/document_attention.h"
#include "index/head_index.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"

namespace lectern {

// Buffers of AddHeadAttention, kept from call to call, so that an answer's tokens allocate nothing.
// Serves one call at a time.
struct HeadAttentionSlot {  // of one thread
  std::vector<float> logits, scratch;
  std::vector<std::byte> keys, values;  // gathered rows, side by side
};
struct HeadAttentionWorkspace {
  std::vector<HeadAttentionSlot> slots;  // one for each thread
  std::vector<IndexRange> blocks;
};

// Everything is borrowed for the call.
struct HeadAttentionArgs {
  const Backend& backend;
  ThreadPool& threads;
  const HeadIndex& head;           // the kv head that the query rows read
  const DocumentRead& read;        // the rows that the pass read of its layer, which has no window
  uint32_t kv_head = 0;            // its number in `read`
  Rows<const float> queries;       // [n, head_dim], n >= 1, as attention takes them
  std::span<const float> lse;      // [n]: log-sum-exp of each over everything that it attends to
  std::span<const float> weights;  // [n]: how much each row counts, at least 0
  float softcap = 0;               // the model's; 0: none
  HeadAttentionWorkspace& workspace;
};

// For every stored row that the pass read, adds to sums[position] its attention probabilities in
// the query rows, weighted. Rows that were not read add nothing. Reads the rows' keys again, so
// that it suits few heads, or short documents. Codes of HeadIndex::VerifyRows and GatherRows; the
// sums then hold some of the rows. May throw std::bad_alloc.
Status AddHeadAttention(const HeadAttentionArgs& args, std::span<double> sums);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_RETRIEVAL_ATTENTION_H_
