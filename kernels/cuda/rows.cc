// Checks and launch geometry of rows.h.
#include "kernels/cuda/rows.h"

#include "kernels/cuda/checks.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/rows_geometry.h"

namespace lectern {

CudaStatus CudaRmsNorm(const CudaStream& stream, const CudaRmsNormArgs& args) {
  constexpr const char* kName = "rms_norm";
  const auto& [input, weight, epsilon, output] = args;
  if (!AreRows(input) || !AreRows(output) || weight == nullptr || input.dtype != Dtype::kF32) {
    return Refused(kName, "rows that are none");
  }
  if (input.num_rows != output.num_rows || input.num_cols != output.num_cols) {
    return Refused(kName, "shapes that differ");
  }
  if (input.num_rows == 0) return {};
  const bool by_warp = input.num_cols <= kWarpRowCols;
  const size_t rows_per_block = by_warp ? kRowBlockThreads / 32 : 1;
  CudaGrid grid{.threads = kRowBlockThreads,
                .shared_bytes = by_warp ? 0u : kRowBlockThreads / 32 * uint32_t{sizeof(float)}};
  if (!SetBlocks(input.num_rows, rows_per_block, grid.x)) return Refused(kName, "too many rows");
  return stream.kernels().rms_norm(stream.handle(), grid, args);
}

}  // namespace lectern
