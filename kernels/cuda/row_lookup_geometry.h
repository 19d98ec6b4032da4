// What host and device code of row_lookup.h agree on.
#ifndef LECTERN_KERNELS_CUDA_ROW_LOOKUP_GEOMETRY_H_
#define LECTERN_KERNELS_CUDA_ROW_LOOKUP_GEOMETRY_H_

#include <cstdint>

namespace lectern {

constexpr uint32_t kRowThreads = 256;
constexpr uint32_t kRowsPerThread = 4;  // a word of each byte plane
constexpr uint32_t kRowTile = kRowThreads * kRowsPerThread;
constexpr uint32_t kRowQueries = 4;  // query rows of a block: their sums stay in registers
constexpr uint32_t kRowHeadCounters = 4;  // of a head: as many as there are parts of its queries
constexpr uint32_t kRowTileCentroids = 128;
constexpr uint32_t kRowSharedBytes = 512;  // of a block, for sums

// Tables of sums of signs: their largest entry for which no sum overflows (kernels/sign_logits.cc).
// In shared memory the entries of kRowQueries query rows are side by side, a word.
constexpr uint32_t kLargestEntry = 63, kLargestSum = 65535;
constexpr uint32_t kTableWords = 32;  // of a byte of a plane: 16 of its lower half, 16 of its upper
constexpr uint32_t RowTableBytes(uint32_t num_queries, uint32_t plane_bytes) {
  return (num_queries + kRowQueries - 1) / kRowQueries * plane_bytes * kTableWords * 4;
}

// The bits of a score in digits, the highest first.
constexpr uint32_t kRowDigits = 3;
constexpr uint32_t RowDigitBits(uint32_t digit) { return digit < 2 ? 11 : 10; }
constexpr uint32_t RowDigitShift(uint32_t digit) { return digit == 0 ? 21 : digit == 1 ? 10 : 0; }
constexpr uint32_t kRowDigitValues = 2048;

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ROW_LOOKUP_GEOMETRY_H_
