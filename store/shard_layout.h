// The rules of the shard format that its writer and reader share: limits, seeds of checksums, and
// checks of headers and sections. Internal to store/. Pure functions.
#ifndef LECTERN_STORE_SHARD_LAYOUT_H_
#define LECTERN_STORE_SHARD_LAYOUT_H_

#include <cstdint>
#include <string>

#include "store/shard_format.h"

namespace lectern {

// Far above any model's numbers, and small enough that their products with num_tokens fit 64 bits.
inline constexpr uint32_t kMaxHeads = 4096;
inline constexpr uint32_t kMaxHeadDim = 4096;
inline constexpr uint32_t kMaxLayers = 4096;
inline constexpr uint32_t kMaxLevels = 3;
inline constexpr uint64_t kMaxTokens = (uint64_t{1} << 32) - 1;  // positions are u32
inline constexpr uint64_t kKnownFeatures =
    kInParts;  // bits of required_features that this build reads

// The least multiple of `alignment` (above 0) that is not below `value`; their sum must not
// overflow.
constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// CRC-32C of the kHeaderBytes at `block`, with ShardHeader::header_crc read as 0.
uint32_t HeaderCrc(const void* block);

// The initial value of block i's CRC. It depends on the shard's document, generation, kind and
// layer and on the block's place, so that a block of another shard, of another place, or an older
// one does not verify.
uint32_t BlockSeed(const ShardHeader& header, uint64_t block);

// Describes the first error in kind, layer and the shape fields ("head_dim is 0"); empty: there is
// none. Magic, version, offsets and CRCs are not looked at.
std::string HeaderError(const ShardHeader& header);

// Describes the first error in kind, kv_head, level or reserved of a section of this shard; empty:
// there is none. For kinds >= kFirstOptional only reserved is looked at.
std::string SectionError(const ShardHeader& header, const SectionEntry& entry);

}  // namespace lectern

#endif  // LECTERN_STORE_SHARD_LAYOUT_H_
