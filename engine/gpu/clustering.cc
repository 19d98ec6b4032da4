#include "engine/gpu/clustering.h"

#include <algorithm>

#include "index/cuda_assigner.h"

namespace lectern {

Result<DeviceClustering> MakeDeviceClustering(const Device& device, const AssignShape& shape) {
  LECTERN_RETURN_IF_ERROR(device.CheckAlive());
  const RamLimit& memory = *device.memory();
  const uint64_t room = memory.bytes() - std::min(memory.bytes(), memory.reserved());
  LECTERN_ASSIGN(const AssignPlan plan, PlanCudaAssign(shape, room));
  DeviceClustering clustering;
  LECTERN_ASSIGN(clustering.memory, device.memory()->Reserve(plan.total_bytes(), "clustering",
                                                             "allow more, or cluster on the CPU"));
  auto assigners = MakeCudaAssigners(device.kernels(), device.info().index, plan);
  if (!assigners.ok()) return device.Check(assigners.status());
  clustering.assigners = std::move(assigners).value();
  return clustering;
}

uint64_t PinnedAssignBytes(const AssignShape& shape) {
  return std::min(shape.num_points, kMostAssignRows) * (sizeof(uint32_t) + sizeof(float)) +
         shape.num_centroids * shape.dim * sizeof(float);
}

}  // namespace lectern
