// Keeps a conversation's keys and values in memory and attends to them on the CPU.
#ifndef LECTERN_ENGINE_ATTENTION_HOST_CONVERSATION_H_
#define LECTERN_ENGINE_ATTENTION_HOST_CONVERSATION_H_

#include "engine/attention/conversation.h"
#include "engine/attention/session_rows.h"
#include "engine/model/weights/config.h"
#include "index/reused.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"

namespace lectern {

// The rows of one session. One thread at a time. Its calls always succeed, or throw bad_alloc.
class HostConversation : public Conversation {
 public:
  // Borrows all arguments. A call takes its temporary memory from `arena`, which the caller resets.
  HostConversation(const ModelConfig& config, const Backend& backend, ThreadPool& threads,
                   Arena& arena, Dtype dtype);

  // All rows; kv head h of a layer is number layer * kv heads + h there.
  SessionRows& rows() { return rows_; }
  const SessionRows& rows() const { return rows_; }

  Status Append(uint32_t layer, size_t num_tokens, const float* keys, const float* values,
                uint32_t first) override;
  Status Attend(const RowQuery& query, uint32_t layer, uint32_t first, uint32_t window) override;
  // Adds the squared attention of the pass's last tokens (as many as KV-Compress observes,
  // arXiv:2410.00161) to SessionRows::squared_attention. `lse`, per kv head [R], is over everything
  // that the rows attend to. The pass's rows were appended last; `query.states` are not used.
  void AddSquaredAttention(const RowQuery& query, uint32_t layer,
                           std::span<const std::span<float>> lse);

 private:
  // Finds the first row that the token of row `end` - 1 sees in a windowed layer. `head`: layer *
  // kv heads + kv head, as SessionRows counts them; `end` >= 1. Searches by token, since
  // compression leaves gaps in the rows.
  uint32_t FirstInWindow(size_t head, size_t end) const;

  const ModelConfig& config_;
  const Backend& backend_;
  ThreadPool& threads_;
  Arena& arena_;
  SessionRows rows_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_HOST_CONVERSATION_H_
