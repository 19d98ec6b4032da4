// Holds the keys and values of a conversation on a device (on the host:
// engine/attention/session_rows.h): the tokens after the fixed context, exact, of all layers, in
// their order.
#ifndef LECTERN_ENGINE_GPU_CONVERSATION_H_
#define LECTERN_ENGINE_GPU_CONVERSATION_H_

#include <memory>
#include <vector>

#include "engine/attention/conversation.h"
#include "engine/attention/session_rows.h"
#include "engine/gpu/resident_document.h"
#include "engine/gpu/row_attention.h"
#include "engine/model/weights/config.h"

namespace lectern {

// Belongs to one session; one thread at a time. Rows are f16 or bf16.
class DeviceConversation final : public Conversation {
 public:
  // Shares the stream, borrows the backend, which rounds, and the model's config.
  DeviceConversation(std::shared_ptr<DeviceStream> stream, const ModelConfig& config, Dtype dtype,
                     const Backend& backend);

  // Tokens that there is room for. Those of kv head h of a layer are rows [h * capacity, …).
  uint32_t capacity() const { return capacity_; }
  // Makes room for `num_tokens` tokens at least; the first `num_kept` (at most capacity) stay. It
  // waits, and views end, if it has to grow. kOutOfMemory and other errors of DeviceArray: all is
  // as before.
  Status Reserve(size_t num_kept, size_t num_tokens);
  // Causal, of rows_per_head = capacity; positions count from the first token here. Only after
  // Reserve; holds until it grows.
  DeviceKv View(uint32_t layer) const;
  // Writes tokens [first + *step, …) of a layer, from floats of the device, [tokens, kv heads *
  // head_dim] each; `step` is on the device, nullptr: 0. There is room for them (Reserve). Enqueued
  // on a stream that comes after whatever else uses these rows. Errors of Device::Check.
  Status Store(CudaStream& stream, uint32_t layer, size_t num_tokens, const float* keys,
               const float* values, uint32_t first, const uint32_t* step = nullptr) const;

  // Does the same with floats of the host. Waits. Errors of DeviceArray too.
  Status Append(uint32_t layer, size_t num_tokens, const float* keys, const float* values,
                uint32_t first) override;
  // Waits. Errors as DeviceRowAttention's.
  Status Attend(const RowQuery& query, uint32_t layer, uint32_t first, uint32_t window) override;
  // Appends the first `num_tokens` of all layers to `rows`, which has the same type. Waits. Errors
  // of Device::Check, after which some heads have them.
  Status Read(uint32_t num_tokens, SessionRows& rows);

 private:
  const std::shared_ptr<DeviceStream> stream_;
  const ModelConfig& config_;
  const Dtype dtype_;
  DeviceRowAttention attention_;
  uint32_t capacity_ = 0;
  std::vector<DeviceKvRows> layers_;
  DeviceArray<float> appended_;  // keys, then values
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_CONVERSATION_H_
