// Sizes that host and device code of rows.h agree on.
#ifndef LECTERN_KERNELS_CUDA_ROWS_ROWS_GEOMETRY_H_
#define LECTERN_KERNELS_CUDA_ROWS_ROWS_GEOMETRY_H_

#include <cstdint>

namespace lectern {

// By hand; no GPU has been measured yet (tests/GPU-PENDING.md). They change the speed alone.
constexpr uint32_t kRowBlockThreads = 256;
constexpr uint32_t kWarpRowCols = 512;  // up to so many columns, a warp has a row to itself

// Bytes of a row that a thread copies at a time (CudaPlaceRows).
constexpr uint32_t PlacedUnit(uint32_t row_bytes) { return row_bytes % 16 == 0 ? 16 : 2; }

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ROWS_ROWS_GEOMETRY_H_
