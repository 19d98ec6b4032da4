// The KV-Compress policies (arXiv:2410.00161): blocks of rows of all layers and heads compete by
// the attention that they get. `kv-compress` counts squared attention of the document's last tokens
// (the paper's KVC-w8-L2), `kv-compress-plain` plain attention (L1), `kv-compress-full` squared
// attention of all tokens (KVC-full, for documents indexed with `--stats full`).
#ifndef LECTERN_INDEX_POLICIES_KV_COMPRESS_H_
#define LECTERN_INDEX_POLICIES_KV_COMPRESS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace lectern {

// Rows of a block, of one kv head; 16 as in the paper's code.
inline constexpr uint32_t kCompressBlock = 16;

// Scores of a head's blocks in the order in which they would be evicted. Entry e is the largest
// score of the rows that leave with block e, m(h, e + 1) in the paper's eq. 17. `row_scores` is
// infinite where a row never leaves. The first block holds the rows that exceed whole blocks, if
// any: once these few rows are gone, the last allocated block is free. No rows give no scores.
std::vector<float> BlockScores(std::vector<float> row_scores, uint32_t block = kCompressBlock);

// Number of rows in the first `blocks` blocks (in the order of eviction) of a head of `rows` rows;
// all rows where there are no more blocks.
uint64_t RowsOfBlocks(uint64_t rows, uint64_t blocks, uint32_t block = kCompressBlock);

// How many blocks each head loses when `evicted` blocks go in all, those of least score first.
// Among equal scores the head that has lost fewer blocks loses first, then the first head. Blocks
// of infinite score stay, even if fewer than `evicted` blocks go then. `block_scores`: of each
// head, ascending.
std::vector<uint64_t> EvictBlocks(std::span<const std::span<const float>> block_scores,
                                  uint64_t evicted);

}  // namespace lectern

#endif  // LECTERN_INDEX_POLICIES_KV_COMPRESS_H_
