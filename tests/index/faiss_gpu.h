// Runs the assignment step of K-means by FAISS itself on a GPU, so that tests can compare our
// kernel (index/cuda_assigner.h) with it: GpuIndexFlat with StandardGpuResources, available where
// CMake found a FAISS with GPU support. FAISS ends the process on failures that it does not throw,
// so the memory that it will need is checked here before FAISS takes it.
#ifndef LECTERN_TESTS_INDEX_FAISS_GPU_H_
#define LECTERN_TESTS_INDEX_FAISS_GPU_H_

#include "index/assign_plan.h"
#include "index/assigner.h"

namespace lectern {

// Whether this build has a FAISS with GPU support.
bool HasFaissGpu();

// A plan by PlanCudaAssign in which every head also has FAISS's temporary memory.
struct FaissGpuPlan {
  AssignPlan assign;
  uint64_t temp_bytes = 0;  // part of head_bytes for FAISS's temporary memory
};
// Errors of PlanCudaAssign.
Result<FaissGpuPlan> PlanFaissGpu(const AssignShape& shape, uint64_t device_bytes);

// Like MakeCudaAssigners, for a plan by PlanFaissGpu. Products are within 1e-5 of
// AssignNearestScalar's; among equal ones the label may be any. kInvalidArgument (param "device")
// if this build has no such FAISS or the machine no such GPU.
Result<Assigners> MakeFaissGpuAssigners(int device, const FaissGpuPlan& plan);

}  // namespace lectern

#endif  // LECTERN_TESTS_INDEX_FAISS_GPU_H_
