// Sizes that host and device code of row_select.h and row_lookup.h agree on.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_GEOMETRY_H_
#define LECTERN_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_GEOMETRY_H_

#include <cstdint>

namespace lectern {

// By hand; no GPU has been measured yet (tests/GPU-PENDING.md). They change the speed alone.
constexpr uint32_t kRowThreads = 256;
constexpr uint32_t kRowsPerThread = 4;
constexpr uint32_t kRowTile = kRowThreads * kRowsPerThread;
constexpr uint32_t kRowQueries = 4;  // query rows of a block: their sums stay in registers
constexpr uint32_t kRowTileCentroids = 128;
constexpr uint32_t kRowSharedBytes = 512;  // of a block, for sums
// So many blocks a multiprocessor runs at once: as many are started.
constexpr uint32_t kRowLogitsBlocks = 3, kRowTailBlocks = 3;
// Blocks of the other kernels: for twice as many the compiler has too few registers to load more
// than one thing at a time.
constexpr uint32_t kRowBlocks = 4;

// Scores are counted in buckets: 64 for each power of two from 2^-62 on, below 4.
constexpr uint32_t kScoreBuckets = 4096;
constexpr uint32_t kCountBytes = kScoreBuckets * 4;  // of shared memory

// Tables of sums of signs: their largest entry for which no sum overflows (kernels/sign_logits.cc).
// In shared memory the entries of kRowQueries query rows are side by side, a word.
constexpr uint32_t kLargestEntry = 63, kLargestSum = 65535;
constexpr uint32_t kTableWords = 32;  // of a byte of a plane: 16 of its lower half, 16 of its upper
constexpr uint32_t RowTableBytes(uint32_t num_queries, uint32_t plane_bytes) {
  return (num_queries + kRowQueries - 1) / kRowQueries * plane_bytes * kTableWords * 4;
}

// The data about a cluster's keys together. If it has none, the log of their count is that of 0.
struct ClusterKeys {
  float log_count, deviation, most_deviations, unused;  // 16 bytes
};

// Tiles of a head's clusters: room for where the last one ends, too.
constexpr uint32_t ClusterTiles(uint32_t most_clusters) { return most_clusters / kRowTile + 1; }
constexpr uint32_t CentroidTiles(uint32_t most_clusters) {
  return (most_clusters + kRowTileCentroids - 1) / kRowTileCentroids;
}
constexpr uint32_t SlotTiles(uint32_t num_slots) {
  return num_slots / kRowTile + (num_slots % kRowTile != 0);
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_GEOMETRY_H_
