// Checks and launch geometry of sign_logits.h.
#include "kernels/cuda/sign_logits.h"

#include "kernels/cuda/checks.h"
#include "kernels/cuda/sign_logits_geometry.h"

namespace lectern {

CudaStatus CudaAddSignLogits(const CudaStream& stream, const CudaSignLogitsArgs& args) {
  constexpr const char* kName = "sign_logits";
  if (args.num_rows == 0 || args.num_queries == 0) return {};
  if (args.num_planes != 1 && args.num_planes != 3) return Refused(kName, "neither 1 nor 3 planes");
  if (args.plane_bytes == 0 || args.plane_bytes > 32) return Refused(kName, "planes too wide");
  if (args.tables == nullptr || args.scales == nullptr || args.factors == nullptr ||
      args.logits == nullptr) {
    return Refused(kName, "an array that is missing");
  }
  for (uint32_t p = 0; p < args.num_planes; ++p) {
    if (args.planes[p] == nullptr || !IsAligned(args.planes[p], 4)) {
      return Refused(kName, "planes that are not aligned");
    }
  }
  if (!IsAligned(args.tables, 4)) return Refused(kName, "tables that are not aligned");
  if (args.stride < args.num_rows) return Refused(kName, "a stride that is too small");
  CudaGrid grid{.y = (args.num_queries + kSignQueries - 1) / kSignQueries,
                .threads = kSignThreads,
                .shared_bytes = kSignQueries * args.plane_bytes * 32};
  if (grid.y > kMostGridY) return Refused(kName, "too many query rows");
  if (!SetBlocks(args.num_rows, kSignThreads * kSignRowsPerThread, grid.x)) {
    return Refused(kName, "too many rows");
  }
  return stream.kernels().sign_logits(stream.handle(), grid, args);
}

}  // namespace lectern
