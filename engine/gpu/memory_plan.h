// Computes, on the host, how much of a GPU's memory a model, its conversations and the documents
// that it indexes will take. Memory is given out in this order: weights; for each conversation its
// stream and activations, and what attention takes; codes of documents that are asked; their rows,
// all or a cache of them, which leave room for one more conversation
// (engine/gpu/resident_document.h).
#ifndef LECTERN_ENGINE_GPU_MEMORY_PLAN_H_
#define LECTERN_ENGINE_GPU_MEMORY_PLAN_H_

#include <cstdint>
#include <string>

#include "engine/model/weights/config.h"
#include "kernels/dtype.h"
#include "store/ram_limit.h"

namespace lectern {

// All weights, as DeviceWeights has them: the output matrix too, the embedding not (rows of it are
// looked up on the host).
uint64_t DeviceWeightBytes(const ModelConfig& config);
// Bytes of the device's memory that a step over so many tokens takes at most: its activations, and
// the logits of one of its tokens. Further logits, such as those of a step that sessions share, are
// not counted, nor are the arrays that measure cosines, the stream, and what attention takes.
uint64_t DeviceActivationBytes(const ModelConfig& config, uint64_t num_tokens);

// Bytes of the document's rows that are brought to the device at a time where its layers do not
// stay there.
inline constexpr uint64_t kDeviceStagingBytes = uint64_t{64} << 20;

// Query rows of a launch of a session's attention to the document: so many that states of items
// stay small beside what is read.
inline constexpr uint32_t kMostDeviceQueryRows = 2048;
// Bytes that a session takes for attention at most, without a question's queries and lists of rows:
// rows that are brought, states, outputs.
uint64_t DeviceAttentionBytes(uint32_t num_kv_heads, uint32_t head_dim,
                              uint32_t num_multiprocessors);

// Tokens of the question that plans leave room for.
inline constexpr uint64_t kPlannedTokens = 256;
// Bytes that the least piece of work needs at once, beside its stream (kDeviceStreamBytes): the
// weights, and the activations of a question of kPlannedTokens tokens.
uint64_t LeastDeviceBytes(const ModelConfig& config);
// Checks that LeastDeviceBytes fit beside the bytes that are reserved. Takes nothing; where room is
// short, rows of documents that nobody asks now are let go. kOutOfMemory, param "device_memory":
// says what is needed, and what there is. `model`: its name for the message.
Status CheckDevicePlan(const ModelConfig& config, RamLimit& memory, const std::string& model);

// How the attention of a document that is prefilled is cut: by what follows from the document, the
// model and the kind of device alone, so that the results do.
struct DevicePrefillShape {
  Dtype dtype = Dtype::kF16;  // of the spill
  uint64_t num_tokens = 0;    // of the document
  uint32_t block_tokens = 0;  // whose rows are brought at a time: whole chunks
  uint32_t num_multiprocessors = 0;

  uint32_t num_blocks() const {
    return static_cast<uint32_t>((num_tokens + block_tokens - 1) / block_tokens);
  }
};
// Plans a prefill. `block_bytes`: bytes of a block's rows, rounded up to whole chunks; a layer has
// at most 16 blocks, so those of a long document are larger.
DevicePrefillShape PlanDevicePrefill(const ModelConfig& config, Dtype dtype, uint64_t num_tokens,
                                     uint32_t num_multiprocessors,
                                     uint64_t block_bytes = kDeviceStagingBytes);
// The numbers of items of a chunk's attention, and of query rows of all their states, at most.
uint64_t MostPrefillItems(const ModelConfig& config, const DevicePrefillShape& shape);
uint64_t MostPrefillStates(const ModelConfig& config, const DevicePrefillShape& shape);
// Bytes of a layer's keys and values of all tokens.
uint64_t PrefillLayerBytes(const ModelConfig& config, const DevicePrefillShape& shape);
// Bytes of host memory for a chunk's keys and values on their way to the spill.
uint64_t PrefillHostBytes(const ModelConfig& config, Dtype dtype, uint64_t num_tokens);
// Bytes that a prefill takes beside the weights and its stream (kDeviceStreamBytes) if no layer
// stays, which is the least: activations of a chunk, a block of rows, and what attention takes.
// Without DeviceRoomForAsking.
uint64_t DevicePrefillBytes(const ModelConfig& config, const DevicePrefillShape& shape);
// Bytes that indexing, and rows of documents that are asked, leave free: a session that is opened
// meanwhile can ask, and has room there for a question and a long answer.
uint64_t DeviceRoomForAsking(const ModelConfig& config);
// Checks that DevicePrefillBytes fit, as CheckDevicePlan does for asking, with the same error.
Status CheckPrefillPlan(const ModelConfig& config, const DevicePrefillShape& shape,
                        RamLimit& memory);

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_MEMORY_PLAN_H_
