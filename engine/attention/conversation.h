// Keys and values of a conversation (the tokens after the fixed context), wherever they are kept:
// the host (engine/attention/host_conversation.h) or a device (engine/gpu/conversation.h).
#ifndef LECTERN_ENGINE_ATTENTION_CONVERSATION_H_
#define LECTERN_ENGINE_ATTENTION_CONVERSATION_H_

#include <cstdint>
#include <span>

#include "kernels/attention.h"
#include "kernels/types.h"
#include "store/status.h"

namespace lectern {

// Query rows of one layer, and the attention states that they add to.
struct RowQuery {
  std::span<const Rows<const float>> queries;  // per kv head: [R, head_dim]
  size_t num_tokens;                           // R = num_tokens * query group
  float softcap;                               // of the model's logits; 0: none
  std::span<const AttentionState> states;      // per kv head, R rows; in/out
};

// One session's; one thread at a time.
class Conversation {
 public:
  virtual ~Conversation() = default;

  // Adds the rows of tokens `first` and after to a layer, rounded to the stored type: [tokens, kv
  // heads * head_dim] each. Errors of the device.
  virtual Status Append(uint32_t layer, size_t num_tokens, const float* keys, const float* values,
                        uint32_t first) = 0;
  // Adds causal attention of tokens `first` to first + query.num_tokens, whose rows are there, over
  // all rows up to themselves; with a `window` > 0 over those of the last `window` tokens. Errors
  // of the device; the states then hold anything.
  virtual Status Attend(const RowQuery& query, uint32_t layer, uint32_t first, uint32_t window) = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_CONVERSATION_H_
