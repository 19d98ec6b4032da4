// A session's conversation, which is in memory or on a device, and moves home where it has to.
#ifndef LECTERN_ENGINE_ASKING_SESSION_CONVERSATION_H_
#define LECTERN_ENGINE_ASKING_SESSION_CONVERSATION_H_

#include <memory>

#include "engine/attention/host_conversation.h"
#include "engine/attention/step.h"
#include "engine/gpu/conversation.h"

namespace lectern {

// One thread at a time.
class SessionConversation {
 public:
  // Borrows all of them, as HostConversation does.
  SessionConversation(const ModelConfig& config, const Backend& backend, ThreadPool& threads,
                      Arena& arena, Dtype dtype)
      : here_(config, backend, threads, arena, dtype) {}

  // Rows may be there from the next Place on. `step`: gathers sums there.
  void UseDevice(std::shared_ptr<DeviceConversation> there, StepAttention* step) {
    there_ = std::move(there);
    step_ = step;
  }

  // Says where the rows are, and makes room for `num_tokens` tokens on the device: rows are there
  // while they fit and `is_wanted_there`. Errors of the device but for want of memory.
  Status Place(size_t num_tokens, bool is_wanted_there);
  bool is_there() const { return is_there_; }
  Conversation& current() {
    return is_there_ ? static_cast<Conversation&>(*there_) : static_cast<Conversation&>(here_);
  }
  SessionRows& rows() { return here_.rows(); }  // empty where they are on the device
  const SessionRows& rows() const { return here_.rows(); }

  // Tokens after the fixed context that have rows.
  size_t num_tokens() const { return num_tokens_; }
  void Add(size_t num_tokens) { num_tokens_ += num_tokens; }
  // Forgets the rows of all tokens from this one on.
  void Truncate(size_t num_tokens);

 private:
  Status BringHere();

  HostConversation here_;
  std::shared_ptr<DeviceConversation> there_;
  StepAttention* step_ = nullptr;
  bool is_there_ = false;
  size_t num_tokens_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_SESSION_CONVERSATION_H_
