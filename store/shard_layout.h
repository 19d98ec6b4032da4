// What writer and reader must agree on beyond the structs: limits, seeds, checks.
#ifndef LECTERN_STORE_SHARD_LAYOUT_H_
#define LECTERN_STORE_SHARD_LAYOUT_H_

#include <cstdint>
#include <string>

#include "store/shard_format.h"

namespace lectern {

inline constexpr uint32_t kMaxHeads = 4096;
inline constexpr uint32_t kMaxHeadDim = 4096;
inline constexpr uint32_t kMaxLayers = 4096;
inline constexpr uint32_t kMaxLevels = 3;
inline constexpr uint64_t kMaxTokens = (uint64_t{1} << 32) - 1;  // positions are u32
inline constexpr uint64_t kKnownFeatures = 0;  // bits of required_features that this build reads

constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// CRC-32C of the kHeaderBytes at `block`, with ShardHeader::header_crc read as 0.
uint32_t HeaderCrc(const void* block);

// Where the CRC of block `i` starts. It depends on which shard and which place this is, so that a
// block from elsewhere, or an old one, does not verify.
uint32_t BlockSeed(const ShardHeader& header, uint64_t block);

// What is wrong with the identity and shape fields ("head_dim is 0"); empty: nothing.
std::string HeaderError(const ShardHeader& header);

// What is wrong with kind, kv_head, level and reserved of a section of this shard; empty: nothing.
std::string SectionError(const ShardHeader& header, const SectionEntry& entry);

}  // namespace lectern

#endif  // LECTERN_STORE_SHARD_LAYOUT_H_
