// Checks and launch geometry of row_cosines.h.
#include "kernels/cuda/rows/row_cosines.h"

#include "kernels/cuda/rows/rows_geometry.h"
#include "kernels/cuda/runtime/checks.h"

namespace lectern {

CudaStatus CudaRowCosines(const CudaStream& stream, const CudaRowCosinesArgs& args) {
  constexpr const char* kName = "row_cosines";
  if (!AreRows(args.before) || !AreRows(args.after)) return Refused(kName, "rows that are none");
  if (args.before.dtype != Dtype::kF32 || args.after.dtype != Dtype::kF32) {
    return Refused(kName, "rows that are not f32");
  }
  if (args.before.num_rows != args.after.num_rows || args.before.num_cols != args.after.num_cols) {
    return Refused(kName, "shapes that differ");
  }
  if (args.before.num_rows == 0) return {};
  if (args.cosines == nullptr) return Refused(kName, "an array that is missing");
  CudaGrid grid{.threads = kRowBlockThreads};
  if (!SetBlocks(args.before.num_rows, kRowBlockThreads / 32, grid.x)) {
    return Refused(kName, "too many rows");
  }
  return stream.kernels().row_cosines(stream.handle(), grid, args);
}

}  // namespace lectern
