// The assignment step of K-means by FAISS itself on a GPU, to compare our kernel with
// (index/cuda_assigner.h): GpuIndexFlat with StandardGpuResources, where CMake found a FAISS that
// was built with GPU support. FAISS ends the process at failures that it does not throw, so memory
// is asked for here before it is taken.
#ifndef LECTERN_TESTS_INDEX_FAISS_GPU_H_
#define LECTERN_TESTS_INDEX_FAISS_GPU_H_

#include "index/assign_plan.h"
#include "index/assigner.h"

namespace lectern {

bool HasFaissGpu();

// A plan as PlanCudaAssign makes it, of which every head has FAISS's temporary memory besides.
struct FaissGpuPlan {
  AssignPlan assign;
  uint64_t temp_bytes = 0;  // of each head, in its head_bytes
};
// Errors of PlanCudaAssign.
Result<FaissGpuPlan> PlanFaissGpu(const AssignShape& shape, uint64_t device_bytes);

// As MakeCudaAssigners. Products within 1e-5 of AssignNearestScalar's; among equal ones the label
// is any. kInvalidArgument, param "device": this build has no such FAISS, or the machine no such
// GPU.
Result<Assigners> MakeFaissGpuAssigners(int device, const FaissGpuPlan& plan);

}  // namespace lectern

#endif  // LECTERN_TESTS_INDEX_FAISS_GPU_H_
