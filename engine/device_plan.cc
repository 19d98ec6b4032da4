#include "engine/device_plan.h"

#include <algorithm>

namespace lectern {
namespace {

uint64_t QueryCols(const ModelConfig& c) { return uint64_t{c.num_heads} * c.head_dim; }
uint64_t KvCols(const ModelConfig& c) { return uint64_t{c.num_kv_heads} * c.head_dim; }

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

uint64_t LeastDeviceBytes(const ModelConfig& c) {
  return DeviceWeightBytes(c) + DeviceActivationBytes(c, kPlannedTokens);
}

Status CheckDevicePlan(const ModelConfig& config, const RamLimit& memory,
                       const std::string& model) {
  const uint64_t needed = LeastDeviceBytes(config), taken = memory.reserved();
  const uint64_t given = memory.bytes();
  if (needed <= given && taken <= given - needed) return {};
  return Status(Code::kOutOfMemory,
                "the model in " + model + " needs " + Mebibytes(needed) +
                    " MiB of the GPU's memory (" + Mebibytes(DeviceWeightBytes(config)) +
                    " of weights, the rest of a question) beside " + Mebibytes(taken) +
                    " MiB that are taken; device_memory gives " + Mebibytes(given) +
                    " MiB: allow more, use a smaller model, or run on the CPU (--device cpu)")
      .WithParam("device_memory");
}

}  // namespace lectern
