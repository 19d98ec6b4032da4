#include <algorithm>

#include "tests/index/faiss_gpu.h"

namespace lectern {
namespace {

uint64_t Aligned(uint64_t bytes) {
  return (bytes + kAssignAlign - 1) / kAssignAlign * kAssignAlign;
}

// FAISS's temporary memory for one call. faiss/gpu/impl/Distance.cu multiplies up to 1,024 points
// with all centroids, two such tiles at a time; labels of 8 bytes and products also leave through
// temporary memory. kSmall is slack for its smaller arrays.
uint64_t TempBytes(size_t num_points, size_t num_centroids) {
  constexpr uint64_t kTileRows = 1024, kSmall = uint64_t{1} << 20;
  const uint64_t rows = std::min(num_points, kMostAssignRows);
  return 2 * Aligned(kTileRows * num_centroids * sizeof(float)) + Aligned(rows * sizeof(int64_t)) +
         Aligned(rows * sizeof(float)) + kSmall;
}

}  // namespace

Result<FaissGpuPlan> PlanFaissGpu(const AssignShape& shape, uint64_t device_bytes) {
  const uint64_t temp = TempBytes(shape.num_points, shape.num_centroids);
  AssignShape one = shape;
  one.num_heads = 1;
  LECTERN_ASSIGN(AssignPlan plan, PlanCudaAssign(one, device_bytes - std::min(device_bytes, temp)));
  plan.head_bytes += temp;
  if (plan.holds_points) {
    plan.num_heads =
        std::min<uint64_t>(std::max<size_t>(shape.num_heads, 1), device_bytes / plan.head_bytes);
  }
  return FaissGpuPlan{plan, temp};
}

}  // namespace lectern
