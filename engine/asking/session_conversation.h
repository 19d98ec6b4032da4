// A session's conversation: keeps its rows on a device while they fit, else in memory, and moves
// them to memory when they must.
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
  // Borrows all arguments, as HostConversation does. `dtype`: of the rows in memory.
  SessionConversation(const ModelConfig& config, const Backend& backend, ThreadPool& threads,
                      Arena& arena, Dtype dtype)
      : here_(config, backend, threads, arena, dtype) {}

  // From the next Place on rows may be on the device. `step` gathers sums there; it is borrowed.
  void UseDevice(std::shared_ptr<DeviceConversation> there, StepAttention* step) {
    there_ = std::move(there);
    step_ = step;
  }

  // Decides where the rows are and makes room for `num_tokens` tokens: on the device while they fit
  // and `is_wanted_there`, else in memory. Rows that are in memory stay there. Moving rows to
  // memory collects the step's sums first, and waits. In memory no room is made here
  // (rows().Reserve does that). Errors of the device, except that lack of its memory moves the rows
  // to memory. Between passes only.
  Status Place(size_t num_tokens, bool is_wanted_there);
  bool is_there() const { return is_there_; }  // the rows are on the device
  // The conversation where its rows are now; valid until the next Place.
  Conversation& current() {
    return is_there_ ? static_cast<Conversation&>(*there_) : static_cast<Conversation&>(here_);
  }
  SessionRows& rows() { return here_.rows(); }  // empty while the rows are on the device
  const SessionRows& rows() const { return here_.rows(); }

  // Number of tokens after the fixed context that have rows.
  size_t num_tokens() const { return num_tokens_; }
  // Counts tokens whose rows a pass has appended to current().
  void Add(size_t num_tokens) { num_tokens_ += num_tokens; }
  // Forgets the rows of token `num_tokens` and of all later ones; at most num_tokens(), which is
  // not checked. Room is kept, on the device and in memory. Not during a pass; after a failed one
  // Truncate(num_tokens()) drops the rows that it left.
  void Truncate(size_t num_tokens);

 private:
  // Moves the rows from the device to memory. After an error they are still on the device.
  Status BringHere();

  HostConversation here_;
  std::shared_ptr<DeviceConversation> there_;
  StepAttention* step_ = nullptr;
  bool is_there_ = false;
  size_t num_tokens_ = 0;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_SESSION_CONVERSATION_H_
