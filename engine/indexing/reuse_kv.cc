#include "engine/indexing/reuse_kv.h"

#include <algorithm>
#include <cstring>

namespace lectern {
namespace {

// The number of tokens with which both begin.
uint64_t CommonTokens(std::span<const int32_t> a, std::span<const int32_t> b) {
  const auto [end, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<uint64_t>(end - a.begin());
}

// Whether rows of the older document fit into the spill byte for byte.
bool HasSameShape(const Document& older, const SpillShape& shape) {
  const ShardHeader& header = older.shape();
  return older.kv_dtype() == shape.dtype && header.num_layers == shape.num_layers &&
         header.num_kv_heads == shape.num_kv_heads && header.head_dim == shape.head_dim;
}

// Keys and values of tokens [0, num_tokens), in token order.
struct PrefixRows {
  std::vector<std::byte> keys, values;
};

// Reads the rows of one kv head for tokens [0, num_tokens): a shard has them in the order of
// clusters, and `positions` leads back. kNotFound: some of them are not stored (Retention).
Result<PrefixRows> ReadPrefix(const HeadIndex& head, uint64_t num_tokens) {
  PrefixRows prefix;
  uint64_t found = 0;
  const auto take = [&](IndexRange block) -> Status {
    // The bytes become part of a new document with new checksums, so damage must be found here.
    LECTERN_RETURN_IF_ERROR(head.VerifyRows(block));
    const TypedRows keys = head.Keys(block), values = head.Values(block);
    const size_t row_bytes = keys.row_bytes();
    prefix.keys.resize(num_tokens * row_bytes);
    prefix.values.resize(num_tokens * row_bytes);
    for (uint32_t i = 0; i < block.size(); ++i) {
      const uint64_t position = head.positions()[block.begin + i];
      if (position >= num_tokens) continue;
      std::memcpy(prefix.keys.data() + position * row_bytes, keys.row(i), row_bytes);
      std::memcpy(prefix.values.data() + position * row_bytes, values.row(i), row_bytes);
      ++found;
    }
    return {};
  };
  LECTERN_RETURN_IF_ERROR(take({0, head.num_exact()}));
  const size_t num_clusters = head.levels().empty() ? 0 : head.levels().back().num_clusters();
  for (uint32_t i = 0; i < num_clusters; ++i) {
    LECTERN_RETURN_IF_ERROR(take(head.ClusterRows(i)));
  }
  if (found == num_tokens) return prefix;
  return Status(Code::kNotFound, "the older document does not keep every row");
}

}  // namespace

Result<uint64_t> ReusePrefix(const Document& older, std::span<const int32_t> tokens,
                             KvSpill& spill) {
  const SpillShape& shape = spill.shape();
  if (!HasSameShape(older, shape)) return 0;
  // The queries of the last tokens are kept for calibration; no document stores queries, so these
  // tokens have to be computed.
  const uint64_t most = tokens.size() - shape.num_calibration;
  const uint64_t num_chunks = std::min(CommonTokens(older.tokens(), tokens), most) / kChunkTokens;
  if (num_chunks == 0) return 0;
  std::span<const double> sums;
  if (shape.num_calibration > 0) {
    LECTERN_ASSIGN(sums, older.CosineSums());
    if (sums.empty()) return 0;
    sums = sums.first(num_chunks * shape.num_layers);
  }
  const uint64_t num_tokens = num_chunks * kChunkTokens;
  for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
    const Document::LayerUse use(older, layer);
    LECTERN_ASSIGN(const auto heads, older.Heads(layer));
    for (uint32_t h = 0; h < heads.size(); ++h) {
      LECTERN_ASSIGN(const PrefixRows prefix, ReadPrefix(heads[h], num_tokens));
      LECTERN_RETURN_IF_ERROR(spill.AppendStored(layer, h, /*is_values=*/false, prefix.keys));
      LECTERN_RETURN_IF_ERROR(spill.AppendStored(layer, h, /*is_values=*/true, prefix.values));
    }
  }
  // Advance comes last: only then do the tokens count as done.
  spill.TakeSums(sums);
  spill.Advance(num_tokens);
  return num_tokens;
}

}  // namespace lectern
