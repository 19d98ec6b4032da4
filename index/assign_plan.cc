#include "index/assign_plan.h"

#include <algorithm>
#include <string>

#include "kernels/cuda/rows/matmul.h"

namespace lectern {
namespace {

// Memory that a stream's cuBLAS is given, counted twice to cover what cuBLAS keeps besides. The
// factor is by hand; where it is too small, an allocation fails, which is an error like any other.
constexpr uint64_t kStreamBytes = 2 * uint64_t{kCudaMatMulBytes};

uint64_t Aligned(uint64_t bytes) {
  return (bytes + kAssignAlign - 1) / kAssignAlign * kAssignAlign;
}

}  // namespace

uint64_t AssignRowsBytes(size_t num_points, size_t num_centroids, size_t dim) {
  const uint64_t row = uint64_t{dim} * sizeof(float);
  return num_points * (row + sizeof(uint32_t) + sizeof(float)) + Aligned(num_centroids * row) +
         4 * kAssignAlign;
}

// Prefers that every head holds all its points on the device, for as many heads as fit. If not even
// one fits, one head gets all the memory and its points are copied in blocks.
Result<AssignPlan> PlanCudaAssign(const AssignShape& shape, uint64_t device_bytes) {
  const auto rows_bytes = [&](size_t num_points) {
    return AssignRowsBytes(num_points, shape.num_centroids, shape.dim);
  };
  AssignPlan plan;
  plan.dim = shape.dim;
  plan.block_rows = std::min(shape.num_points, kMostAssignRows);
  plan.rows_bytes = rows_bytes(shape.num_points);
  plan.head_bytes = plan.rows_bytes + kStreamBytes;
  plan.num_heads =
      std::min<uint64_t>(std::max<size_t>(shape.num_heads, 1), device_bytes / plan.head_bytes);
  if (plan.num_heads > 0) return plan;

  const uint64_t least = rows_bytes(std::min(shape.num_points, kLeastAssignRows)) + kStreamBytes;
  if (device_bytes < least) {
    return Status(Code::kOutOfMemory, "clustering " + std::to_string(shape.num_points) +
                                          " keys on the GPU needs " + std::to_string(least) +
                                          " bytes of its memory, and " +
                                          std::to_string(device_bytes) +
                                          " may be taken: allow more, or cluster on the CPU")
        .WithParam("device_memory");
  }
  plan.num_heads = 1;
  plan.holds_points = false;
  plan.rows_bytes = device_bytes - kStreamBytes;
  plan.head_bytes = device_bytes;
  const uint64_t row_bytes = rows_bytes(1) - rows_bytes(0);
  plan.block_rows =
      std::min<uint64_t>(plan.block_rows, (plan.rows_bytes - rows_bytes(0)) / row_bytes);
  return plan;
}

}  // namespace lectern
