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

// The bits of a score in digits, the highest first.
constexpr uint32_t kRowDigits = 3;
constexpr uint32_t RowDigitBits(uint32_t digit) { return digit < 2 ? 11 : 10; }
constexpr uint32_t RowDigitShift(uint32_t digit) { return digit == 0 ? 21 : digit == 1 ? 10 : 0; }
constexpr uint32_t kRowDigitValues = 2048;

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ROW_LOOKUP_GEOMETRY_H_
