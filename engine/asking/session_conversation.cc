#include "engine/asking/session_conversation.h"

namespace lectern {

Status SessionConversation::Place(size_t num_tokens, bool is_wanted_there) {
  if (!there_ || !is_wanted_there) return is_there_ ? BringHere() : Status();
  // Rows that are in memory stay there: nothing moves to the device.
  if (!is_there_ && num_tokens_ > 0) return {};
  const Status reserved = there_->Reserve(num_tokens_, num_tokens);
  if (reserved.ok()) {
    is_there_ = true;
    return {};
  }
  if (reserved.code() != Code::kOutOfMemory) return reserved;
  return is_there_ ? BringHere() : Status();
}

Status SessionConversation::BringHere() {
  LECTERN_RETURN_IF_ERROR(step_->CollectSums());
  rows().Truncate(0);  // of a call that failed
  LECTERN_RETURN_IF_ERROR(there_->Read(static_cast<uint32_t>(num_tokens_), rows()));
  is_there_ = false;
  return {};
}

void SessionConversation::Truncate(size_t num_tokens) {
  rows().Truncate(static_cast<uint32_t>(num_tokens));
  num_tokens_ = num_tokens;
}

}  // namespace lectern
