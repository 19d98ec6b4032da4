// The interface to a conversation's keys and values (those of the tokens after the fixed context),
// wherever they are kept: on the host (engine/attention/host_conversation.h) or on a device
// (engine/gpu/conversation.h).
#ifndef LECTERN_ENGINE_ATTENTION_CONVERSATION_H_
#define LECTERN_ENGINE_ATTENTION_CONVERSATION_H_

#include <cstdint>
#include <span>

#include "kernels/attention.h"
#include "kernels/types.h"
#include "store/status.h"

namespace lectern {

// The query rows of one layer, and the attention states that attention to them is added to.
struct RowQuery {
  std::span<const Rows<const float>> queries;  // per kv head: [R, head_dim]
  size_t num_tokens;                           // R = num_tokens * query group
  float softcap;                               // the model's bound of logits; 0: none
  std::span<const AttentionState> states;      // per kv head, R rows; in/out
};

// The rows of one session. One thread at a time.
class Conversation {
 public:
  virtual ~Conversation() = default;

  // Appends the keys and values of tokens `first` and after to a layer, rounded to the stored type;
  // [tokens, kv heads * head_dim] each. The layer has all tokens before `first`. Fails with errors
  // of the device only.
  virtual Status Append(uint32_t layer, size_t num_tokens, const float* keys, const float* values,
                        uint32_t first) = 0;
  // Adds causal attention of tokens [first, first + query.num_tokens), whose rows were appended
  // last, over all rows up to each token; with a `window` > 0, which is then the model's, over the
  // rows of the last `window` tokens. Fails with errors of the device only, after which the states
  // hold anything.
  virtual Status Attend(const RowQuery& query, uint32_t layer, uint32_t first, uint32_t window) = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_CONVERSATION_H_
