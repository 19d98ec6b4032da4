#include "store/shard_layout.h"

#include <bit>
#include <cstring>

#include "kernels/types.h"
#include "store/crc32c.h"

namespace lectern {
namespace {

static_assert(std::endian::native == std::endian::little, "structs are read as they lie on disk");

// "head_dim is 0", for messages of damage.
std::string OutOfRange(const char* field, uint64_t value) {
  return std::string(field) + " is " + std::to_string(value);
}

// Kinds that exist once in a document shard.
bool IsDocumentKind(SectionKind kind) {
  return kind >= SectionKind::kText && kind <= SectionKind::kParts;
}

// Kinds that exist once per kv head and level.
bool IsLevelKind(SectionKind kind) {
  return kind >= SectionKind::kCentroids && kind <= SectionKind::kChildren;
}

// Kinds that exist once per kv head, at level 0.
bool IsHeadKind(SectionKind kind) {
  return kind == SectionKind::kRows || kind == SectionKind::kPositions ||
         kind == SectionKind::kThresholds || kind == SectionKind::kQueryMetric;
}

}  // namespace

uint32_t HeaderCrc(const void* block) {
  constexpr size_t kField = offsetof(ShardHeader, header_crc);
  constexpr size_t kAfter = kField + sizeof(uint32_t);
  const uint32_t zero = 0;
  const char* bytes = static_cast<const char*>(block);
  uint32_t crc = Crc32c(0, bytes, kField);
  crc = Crc32c(crc, &zero, sizeof zero);
  return Crc32c(crc, bytes + kAfter, kHeaderBytes - kAfter);
}

uint32_t BlockSeed(const ShardHeader& header, uint64_t block) {
  uint32_t crc = Crc32c(0, header.document_id, sizeof header.document_id);
  crc = Crc32c(crc, &header.generation, sizeof header.generation);
  crc = Crc32c(crc, &header.kind, sizeof header.kind);
  crc = Crc32c(crc, &header.layer, sizeof header.layer);
  return Crc32c(crc, &block, sizeof block);
}

std::string HeaderError(const ShardHeader& h) {
  const bool is_document = h.kind == static_cast<uint32_t>(ShardKind::kDocument);
  const bool is_layer = h.kind == static_cast<uint32_t>(ShardKind::kLayer);
  if (!is_document && !is_layer) return OutOfRange("kind", h.kind);
  if (h.num_layers < 1 || h.num_layers > kMaxLayers) return OutOfRange("num_layers", h.num_layers);
  if (is_layer ? h.layer >= h.num_layers : h.layer != 0) return OutOfRange("layer", h.layer);
  if (is_layer && (h.required_features & kInParts) != 0) {
    return OutOfRange("it is a layer, but required_features", h.required_features);
  }
  if (h.num_tokens > kMaxTokens) return OutOfRange("num_tokens", h.num_tokens);
  if (h.num_kv_heads < 1 || h.num_kv_heads > kMaxHeads) {
    return OutOfRange("num_kv_heads", h.num_kv_heads);
  }
  if (h.head_dim < 1 || h.head_dim > kMaxHeadDim) return OutOfRange("head_dim", h.head_dim);
  if (h.kv_dtype > static_cast<uint32_t>(Dtype::kQ8)) return OutOfRange("kv_dtype", h.kv_dtype);
  if (h.kv_dtype == static_cast<uint32_t>(Dtype::kQ8) && h.head_dim % kQ8Block != 0) {
    return OutOfRange("rows are q8, but head_dim", h.head_dim);
  }
  if (h.num_levels > kMaxLevels) return OutOfRange("num_levels", h.num_levels);
  return {};
}

std::string SectionError(const ShardHeader& header, const SectionEntry& entry) {
  const SectionKind kind{entry.kind};
  const bool in_document = header.kind == static_cast<uint32_t>(ShardKind::kDocument);
  if (entry.reserved != 0) return OutOfRange("its reserved field", entry.reserved);
  if (kind >= SectionKind::kFirstOptional) return {};  // readers may not know them
  const bool known = in_document ? IsDocumentKind(kind) : IsHeadKind(kind) || IsLevelKind(kind);
  if (!known) return OutOfRange("its kind", entry.kind);
  if (entry.kv_head >= (in_document ? 1 : header.num_kv_heads)) {
    return OutOfRange("its kv_head", entry.kv_head);
  }
  const bool level_fits =
      IsLevelKind(kind) ? entry.level >= 1 && entry.level <= header.num_levels : entry.level == 0;
  return level_fits ? std::string() : OutOfRange("its level", entry.level);
}

}  // namespace lectern
