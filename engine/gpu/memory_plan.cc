#include "engine/gpu/memory_plan.h"

#include <algorithm>

#include "engine/document/kv_spill.h"
#include "engine/gpu/device.h"
#include "kernels/cuda/attention/attention.h"

namespace lectern {
namespace {

uint64_t QueryCols(const ModelConfig& c) { return uint64_t{c.num_heads} * c.head_dim; }
uint64_t KvCols(const ModelConfig& c) { return uint64_t{c.num_kv_heads} * c.head_dim; }

uint64_t TokenBytes(const ModelConfig& c, Dtype dtype) {
  return 2ull * c.num_kv_heads * RowBytes(dtype, c.head_dim);
}
uint64_t ChunkTokens(const DevicePrefillShape& shape) {
  return std::min<uint64_t>(shape.num_tokens, kChunkTokens);
}

}  // namespace

uint64_t DeviceWeightBytes(const ModelConfig& c) {
  const uint64_t matrices = 2 * c.hidden_size * (QueryCols(c) + KvCols(c)) +
                            uint64_t{3} * c.hidden_size * c.intermediate_size;
  uint64_t vectors = uint64_t{c.post_norms ? 4u : 2u} * c.hidden_size;
  if (c.head_norms) vectors += 2 * c.head_dim;
  if (c.qkv_bias) vectors += QueryCols(c) + 2 * KvCols(c);
  if (c.output_bias) vectors += c.hidden_size;
  return c.num_layers * (matrices * sizeof(uint16_t) + vectors * sizeof(float)) +
         uint64_t{c.vocab_size} * c.hidden_size * sizeof(uint16_t) +
         c.hidden_size * sizeof(float);
}

uint64_t DeviceActivationBytes(const ModelConfig& c, uint64_t num_tokens) {
  const uint64_t widest = std::max({uint64_t{c.hidden_size}, QueryCols(c),
                                    uint64_t{c.intermediate_size}});
  // Residual and a part of it; queries, keys, values; gate, up; angles of two kinds; and once more
  // in 16 bits what a matrix is multiplied by.
  const uint64_t floats = 2ull * c.hidden_size + QueryCols(c) + 2 * KvCols(c) +
                          2ull * c.intermediate_size + 2ull * c.head_dim;
  return num_tokens * (floats * sizeof(float) + widest * sizeof(uint16_t)) +
         c.vocab_size * sizeof(float);
}

// Each head may have one item more than AttentionRowsPerItem wants, which is not full.
uint64_t DeviceAttentionBytes(uint32_t num_kv_heads, uint32_t head_dim,
                              uint32_t num_multiprocessors) {
  const uint64_t items = MostAttentionItems(num_multiprocessors) + num_kv_heads;
  const uint64_t states =
      MostAttentionStates(num_multiprocessors) + uint64_t{num_kv_heads} * kMostDeviceQueryRows;
  const uint64_t outputs = uint64_t{num_kv_heads} * kMostDeviceQueryRows;
  return kDeviceStagingBytes + items * sizeof(AttentionItem) +
         (num_kv_heads + 1) * sizeof(uint32_t) + states * (head_dim + 2) * sizeof(float) +
         outputs * ((head_dim + 1) * sizeof(float) + head_dim * sizeof(uint16_t));
}

uint64_t LeastDeviceBytes(const ModelConfig& c) {
  return DeviceWeightBytes(c) + DeviceActivationBytes(c, kPlannedTokens);
}

// A reservation, which is given back at once, lets go of the rows of documents that nobody asks
// now: they count as taken, but are no reason to refuse anything.
Status CheckDevicePlan(const ModelConfig& config, RamLimit& memory, const std::string& model) {
  const uint64_t needed = LeastDeviceBytes(config);
  if (memory.Reserve(needed, model, "").ok()) return {};
  const uint64_t taken = memory.reserved(), given = memory.bytes();
  return Status(Code::kOutOfMemory,
                "the model in " + model + " needs " + Mebibytes(needed) +
                    " MiB of the GPU's memory (" + Mebibytes(DeviceWeightBytes(config)) +
                    " of weights, the rest of a question) beside " + Mebibytes(taken) +
                    " MiB that are taken; " + OptionName("device_memory") + " gives " +
                    Mebibytes(given) +
                    " MiB: allow more, use a smaller model, or run on the CPU (" +
                    OptionName("device", "cpu") + ")")
      .WithParam("device_memory");
}

DevicePrefillShape PlanDevicePrefill(const ModelConfig& c, Dtype dtype, uint64_t num_tokens,
                                     uint32_t num_multiprocessors, uint64_t block_bytes) {
  // More blocks would make more partial states to join. Chosen without measurement.
  constexpr uint64_t kMostBlocks = 16;
  const uint64_t token_bytes = TokenBytes(c, dtype);
  const uint64_t tokens =
      std::max(block_bytes / token_bytes, (num_tokens + kMostBlocks - 1) / kMostBlocks);
  const uint64_t chunks = (std::min(tokens, num_tokens) + kChunkTokens - 1) / kChunkTokens;
  return {.dtype = dtype,
          .num_tokens = num_tokens,
          .block_tokens = static_cast<uint32_t>(std::max<uint64_t>(chunks, 1) * kChunkTokens),
          .num_multiprocessors = num_multiprocessors};
}

// CutAttention's: what AttentionRowsPerItem wants, and for every head and block one that is not
// full.
uint64_t MostPrefillItems(const ModelConfig& c, const DevicePrefillShape& shape) {
  return MostAttentionItems(shape.num_multiprocessors) +
         uint64_t{c.num_kv_heads} * (shape.num_blocks() + 1) + 1;
}

uint64_t MostPrefillStates(const ModelConfig& c, const DevicePrefillShape& shape) {
  return MostAttentionStates(shape.num_multiprocessors) +
         (uint64_t{c.num_kv_heads} * (shape.num_blocks() + 1) + 1) * ChunkTokens(shape) *
             c.query_group();
}

uint64_t PrefillLayerBytes(const ModelConfig& c, const DevicePrefillShape& shape) {
  return shape.num_tokens * TokenBytes(c, shape.dtype);
}

uint64_t PrefillHostBytes(const ModelConfig& c, Dtype dtype, uint64_t num_tokens) {
  return std::min<uint64_t>(num_tokens, kChunkTokens) * TokenBytes(c, dtype);
}

uint64_t DevicePrefillBytes(const ModelConfig& c, const DevicePrefillShape& shape) {
  const uint64_t chunk = ChunkTokens(shape);
  const uint64_t block = std::min<uint64_t>(shape.block_tokens, shape.num_tokens);
  const uint64_t cosines = chunk * (c.hidden_size + 1) * sizeof(float);
  return DeviceActivationBytes(c, chunk) + cosines + chunk * QueryCols(c) * sizeof(uint16_t) +
         block * TokenBytes(c, shape.dtype) +
         MostPrefillStates(c, shape) * (c.head_dim + 2) * sizeof(float) +
         MostPrefillItems(c, shape) * sizeof(AttentionItem) +
         (c.num_kv_heads + 1) * sizeof(uint32_t) + chunk * c.num_heads * sizeof(float);
}

uint64_t DeviceRoomForAsking(const ModelConfig& c) {
  // A long answer, for which room is left. Chosen without measurement.
  constexpr uint64_t kAnswerTokens = 1024;
  return kDeviceStreamBytes + kDeviceStagingBytes + DeviceActivationBytes(c, kPlannedTokens) +
         (kPlannedTokens + kAnswerTokens) * c.num_layers * TokenBytes(c, Dtype::kF16);
}

Status CheckPrefillPlan(const ModelConfig& config, const DevicePrefillShape& shape,
                        RamLimit& memory) {
  // Given back at once, as in CheckDevicePlan.
  return memory
      .Reserve(DevicePrefillBytes(config, shape),
               "indexing " + std::to_string(shape.num_tokens) + " tokens",
               "index on the CPU (" + OptionName("device", "cpu") + ")")
      .status();
}

}  // namespace lectern
