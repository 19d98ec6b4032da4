// KV-Compress (arXiv:2410.00161): blocks of rows of all layers and heads compete by the squared
// attention that the last tokens of the document pay to them (kv-compress, the paper's KVC-w8-L2);
// or by plain attention (kv-compress-plain, L1), or by that of all tokens (kv-compress-full,
// KVC-full, for documents indexed with `--stats full`).
#ifndef LECTERN_INDEX_POLICIES_KV_COMPRESS_H_
#define LECTERN_INDEX_POLICIES_KV_COMPRESS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace lectern {

inline constexpr uint32_t kCompressBlock = 16;  // rows, of one kv head

// The rows of a head in the order in which they would go, in blocks: entry e is the largest score
// of the rows that leave with block e, m(h, e + 1) of the paper's eq. 17. `row_scores`: infinite
// where a row never goes. The first block holds what exceeds whole blocks, if anything does: its
// place in the last block allocated is free once these few rows are gone.
std::vector<float> BlockScores(std::vector<float> row_scores, uint32_t block = kCompressBlock);

// Rows of the first `blocks` blocks of a head.
uint64_t RowsOfBlocks(uint64_t rows, uint64_t blocks, uint32_t block = kCompressBlock);

// How many blocks of each head go when `evicted` of all go, those of least score first; among
// equals those that leave less of their head gone, then of the first heads. Blocks of infinite
// score stay.
std::vector<uint64_t> EvictBlocks(std::span<const std::span<const float>> block_scores,
                                  uint64_t evicted);

}  // namespace lectern

#endif  // LECTERN_INDEX_POLICIES_KV_COMPRESS_H_
