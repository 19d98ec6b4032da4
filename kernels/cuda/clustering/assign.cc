// Checks and launch geometry of assign.h.
#include "kernels/cuda/clustering/assign.h"

#include "kernels/cuda/clustering/assign_geometry.h"
#include "kernels/cuda/runtime/checks.h"

namespace lectern {

CudaStatus CudaAssign(const CudaStream& stream, const CudaAssignArgs& args) {
  constexpr const char* kName = "assign";
  if (args.num_centroids == 0 || args.num_cols == 0) return Refused(kName, "no centroids");
  if (args.num_points == 0) return {};
  if (args.points == nullptr || args.centroids == nullptr || args.labels == nullptr ||
      args.dots == nullptr) {
    return Refused(kName, "an array that is missing");
  }
  if (!IsAligned(args.points, 4) || !IsAligned(args.centroids, 4)) {
    return Refused(kName, "points that are not aligned");
  }
  CudaGrid grid{.threads = kAssignThreads,
                .shared_bytes = 2 * kAssignCols * kAssignStride * uint32_t{sizeof(float)}};
  if (!SetBlocks(args.num_points, kAssignTile, grid.x)) return Refused(kName, "too many points");
  return stream.kernels().assign(stream.handle(), grid, args);
}

}  // namespace lectern
