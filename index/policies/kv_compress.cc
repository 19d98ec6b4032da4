#include "index/policies/kv_compress.h"

#include <algorithm>
#include <cmath>

#include "index/policies/policy.h"

namespace lectern {

std::vector<float> BlockScores(std::vector<float> row_scores, uint32_t block) {
  std::sort(row_scores.begin(), row_scores.end());
  std::vector<float> scores;
  const uint64_t rows = row_scores.size();
  for (uint64_t end = 0; end < rows;) {
    // Sorted ascending, the last row of a block has its largest score.
    end = RowsOfBlocks(rows, scores.size() + 1, block);
    scores.push_back(row_scores[end - 1]);
  }
  return scores;
}

uint64_t RowsOfBlocks(uint64_t rows, uint64_t blocks, uint32_t block) {
  if (blocks == 0) return 0;
  const uint64_t first = rows % block == 0 ? block : rows % block;
  return std::min(rows, first + (blocks - 1) * block);
}

std::vector<uint64_t> EvictBlocks(std::span<const std::span<const float>> block_scores,
                                  uint64_t evicted) {
  struct Candidate {
    float score;
    uint32_t place, head;
    auto operator<=>(const Candidate&) const = default;
  };
  std::vector<Candidate> candidates;
  for (uint32_t head = 0; head < block_scores.size(); ++head) {
    for (uint32_t place = 0; place < block_scores[head].size(); ++place) {
      if (block_scores[head][place] == INFINITY) break;
      candidates.push_back({block_scores[head][place], place, head});
    }
    // Blocks of infinite score come last in a head, so the rest of the head stays.
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<uint64_t> blocks(block_scores.size(), 0);
  for (size_t i = 0; i < std::min<uint64_t>(evicted, candidates.size()); ++i) {
    ++blocks[candidates[i].head];
  }
  return blocks;
}

namespace {

// Share of its rows that each head would keep if blocks were evicted down to the budget. A read
// budget takes the eviction's result, without evicting anything.
std::vector<double> SharesBy(std::span<const std::span<const float>> block_scores,
                             const PolicyInput& input) {
  uint64_t rows = 0, blocks = 0;
  for (size_t i = 0; i < input.rows.size(); ++i) {
    rows += input.rows[i];
    blocks += block_scores[i].size();
  }
  const double kept = std::ceil(input.kv_budget * static_cast<double>(rows) / kCompressBlock);
  const uint64_t kept_blocks = std::min(blocks, static_cast<uint64_t>(kept));
  const std::vector<uint64_t> evicted = EvictBlocks(block_scores, blocks - kept_blocks);
  std::vector<double> shares;
  for (size_t i = 0; i < input.rows.size(); ++i) {
    const uint64_t gone = RowsOfBlocks(input.rows[i], evicted[i]);
    shares.push_back(static_cast<double>(input.rows[i] - gone) /
                     static_cast<double>(input.rows[i]));
  }
  return shares;
}

}  // namespace

std::vector<double> KvCompressShares(const PolicyInput& input) {
  return SharesBy(input.block_scores, input);
}
std::vector<double> KvCompressPlainShares(const PolicyInput& input) {
  return SharesBy(input.plain_block_scores, input);
}
std::vector<double> KvCompressFullShares(const PolicyInput& input) {
  return SharesBy(input.full_block_scores, input);
}

}  // namespace lectern
