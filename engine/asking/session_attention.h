// Attends for a session's passes: on the session's device if it can do the pass, else on the host.
#ifndef LECTERN_ENGINE_ASKING_SESSION_ATTENTION_H_
#define LECTERN_ENGINE_ASKING_SESSION_ATTENTION_H_

#include <memory>

#include "engine/asking/session_conversation.h"
#include "engine/attention/host_step.h"
#include "engine/attention/probe.h"
#include "engine/gpu/cached_attention.h"
#include "engine/gpu/placement.h"
#include "engine/gpu/step.h"

namespace lectern {

// One thread at a time.
class SessionAttention {
 public:
  // Shares the stream, which may be nullptr where `placement` has no document, and the placed
  // document; borrows the rest but for `placement`, and gives `conversation` the device's rows,
  // where there is a device. `ranks`: other processes that attend for the host; may be nullptr.
  SessionAttention(const Placement& placement, std::shared_ptr<DeviceStream> stream,
                   std::unique_ptr<SharedRows> ranks, const Document& document,
                   const Transformer& transformer, const ModelConfig& config, Arena& arena,
                   Probe& probe, SessionConversation& conversation);

  // Begins the attention of a pass: the device's if it can do it, else the host's. A probe that
  // leads layers takes the host and lets go of the device's rows. Never nullptr; the result is
  // owned here. Errors of DeviceStep::Begin and HostStep::Begin.
  Result<StepAttention*> Begin(const StepPlan& plan);
  HostStep& host() { return *host_step_; }  // is there with a device, too
  // Adds evidence that is still on the device to the sums of the plans; waits for the device. Does
  // nothing without one. Errors of DeviceStep::CollectSums.
  Status CollectSums() { return device_step_ ? device_step_->CollectSums() : Status(); }
  // Lets go of the document's rows on the device, which others may then have; the next Begin takes
  // them again. Lookups that found no memory there are tried again. Does nothing without a device.
  void ReleaseDevice() {
    if (device_step_) device_step_->Release();
    if (device_attention_) device_attention_->TryAgain();
  }

 private:
  const Probe& probe_;
  const std::unique_ptr<SharedRows> ranks_;
  // Set if a device holds the document's rows.
  std::unique_ptr<DeviceAttention> device_attention_;
  std::unique_ptr<DeviceStep> device_step_;  // likewise
  std::unique_ptr<HostStep> host_step_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_SESSION_ATTENTION_H_
