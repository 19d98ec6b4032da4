// Rules that shard writer and reader share beyond the structs: limits, checksum seeds, validity
// checks.
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

// The initial value of block i's CRC. It depends on the shard and on the block's place, so that a
// block from elsewhere, or an older one, does not verify.
uint32_t BlockSeed(const ShardHeader& header, uint64_t block);

// Describes the first error in the identity and shape fields ("head_dim is 0"); empty: there is
// none.
std::string HeaderError(const ShardHeader& header);

// Describes the first error in kind, kv_head, level or reserved of a section of this shard; empty:
// there is none.
std::string SectionError(const ShardHeader& header, const SectionEntry& entry);

}  // namespace lectern

#endif  // LECTERN_STORE_SHARD_LAYOUT_H_
