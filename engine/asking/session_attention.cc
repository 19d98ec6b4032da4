#include "engine/asking/session_attention.h"

#include <utility>

namespace lectern {

SessionAttention::SessionAttention(const Placement& placement, std::shared_ptr<DeviceStream> stream,
                                   std::unique_ptr<SharedRows> ranks, const Document& document,
                                   const Transformer& transformer, const ModelConfig& config,
                                   Arena& arena, Probe& probe, SessionConversation& conversation)
    : probe_(probe), ranks_(std::move(ranks)) {
  const Backend& backend = transformer.backend();
  if (placement.document) {
    device_attention_ = std::make_unique<DeviceAttention>(stream, placement.document, backend);
    const auto there =
        std::make_shared<DeviceConversation>(stream, config, conversation.rows().dtype(), backend);
    device_step_ = std::make_unique<DeviceStep>(std::move(stream), placement.document, there,
                                                config, device_attention_->staging());
    conversation.UseDevice(there, device_step_.get());
  }
  host_step_ = std::make_unique<HostStep>(document, transformer, probe, arena,
                                          device_attention_.get(), ranks_.get());
}

Result<StepAttention*> SessionAttention::Begin(const StepPlan& plan) {
  // A probe that leads layers needs the host; the device lets go of what it prepared.
  if (device_step_ && probe_.leads_layers()) {
    device_step_->Release();
  } else if (device_step_) {
    LECTERN_ASSIGN(const bool is_begun, device_step_->Begin(plan));
    if (is_begun) return device_step_.get();
  }
  LECTERN_RETURN_IF_ERROR(host_step_->Begin(plan).status());
  return host_step_.get();
}

}  // namespace lectern
