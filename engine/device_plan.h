// What a model and its conversations take of a GPU's memory: arithmetic on the host.
#ifndef LECTERN_ENGINE_DEVICE_PLAN_H_
#define LECTERN_ENGINE_DEVICE_PLAN_H_

#include <cstdint>
#include <string>

#include "engine/config.h"
#include "engine/ram_limit.h"

namespace lectern {

// All weights, as DeviceWeights has them: the output matrix too, the embedding not (rows of it are
// looked up on the host).
uint64_t DeviceWeightBytes(const ModelConfig& config);
// Of a step over so many tokens: activations, and the logits of one of them.
uint64_t DeviceActivationBytes(const ModelConfig& config, uint64_t num_tokens);

// How many rows of the document are brought to the device at a time where its layers do not stay
// there.
inline constexpr uint64_t kDeviceStagingBytes = uint64_t{64} << 20;

// What the least of work needs at once: the weights, and a question of kPlannedTokens tokens.
inline constexpr uint64_t kPlannedTokens = 256;
uint64_t LeastDeviceBytes(const ModelConfig& config);
// kOutOfMemory, param "device_memory": says what is needed, and what there is.
Status CheckDevicePlan(const ModelConfig& config, const RamLimit& memory, const std::string& model);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DEVICE_PLAN_H_
