#include "index/assign_plan.h"

#include <algorithm>
#include <string>

#include "kernels/cuda/matmul.h"

namespace lectern {
namespace {

// What a stream's cuBLAS is given, and as much for what it keeps besides.
constexpr uint64_t kStreamBytes = 2 * uint64_t{kCudaMatMulBytes};

uint64_t Aligned(uint64_t bytes) {
  return (bytes + kAssignAlign - 1) / kAssignAlign * kAssignAlign;
}

// `other_bytes(n)`: what a head takes beside its rows when n of its points are there.
template <typename OtherBytes>
Result<AssignPlan> Plan(const AssignShape& shape, uint64_t device_bytes,
                        const OtherBytes& other_bytes) {
  const auto rows_bytes = [&](size_t num_points) {
    return AssignRowsBytes(num_points, shape.num_centroids, shape.dim);
  };
  AssignPlan plan{.dim = shape.dim};
  plan.rows_bytes = rows_bytes(shape.num_points);
  plan.head_bytes = plan.rows_bytes + other_bytes(shape.num_points);
  plan.num_heads =
      std::min<uint64_t>(std::max<size_t>(shape.num_heads, 1), device_bytes / plan.head_bytes);
  if (plan.num_heads > 0) return plan;

  const size_t least = std::min(shape.num_points, kLeastAssignRows);
  const uint64_t least_bytes = rows_bytes(least) + other_bytes(shape.num_points);
  if (device_bytes < least_bytes) {
    return Status(Code::kOutOfMemory, "clustering " + std::to_string(shape.num_points) +
                                          " keys on the GPU needs " + std::to_string(least_bytes) +
                                          " bytes of its memory, and " +
                                          std::to_string(device_bytes) +
                                          " may be taken: allow more, or cluster on the CPU")
        .WithParam("device_memory");
  }
  plan.num_heads = 1;
  plan.holds_points = false;
  plan.rows_bytes = device_bytes - other_bytes(shape.num_points);
  plan.head_bytes = device_bytes;
  return plan;
}

}  // namespace

uint64_t AssignRowsBytes(size_t num_points, size_t num_centroids, size_t dim) {
  const uint64_t row = uint64_t{dim} * sizeof(float);
  return num_points * (row + sizeof(uint32_t) + sizeof(float)) + Aligned(num_centroids * row) +
         4 * kAssignAlign;
}

// faiss/gpu/impl/Distance.cu multiplies 512 or 1,024 points with all centroids, two tiles at a
// time; labels of 8 bytes and products leave through temporary memory.
uint64_t FaissGpuTempBytes(size_t num_points, size_t num_centroids) {
  constexpr uint64_t kTileRows = 1024, kSmall = uint64_t{1} << 20;
  return 2 * Aligned(kTileRows * num_centroids * sizeof(float)) +
         Aligned(num_points * sizeof(int64_t)) + Aligned(num_points * sizeof(float)) + kSmall;
}

Result<AssignPlan> PlanCudaAssign(const AssignShape& shape, uint64_t device_bytes) {
  return Plan(shape, device_bytes, [](size_t) { return kStreamBytes; });
}

Result<AssignPlan> PlanFaissGpuAssign(const AssignShape& shape, uint64_t device_bytes) {
  return Plan(shape, device_bytes, [&](size_t num_points) {
    return kStreamBytes + FaissGpuTempBytes(num_points, shape.num_centroids);
  });
}

}  // namespace lectern
