// Runs the assignment step of K-means on a CUDA device, by the kernel of
// kernels/cuda/clustering/assign.h.
#ifndef LECTERN_INDEX_CUDA_ASSIGNER_H_
#define LECTERN_INDEX_CUDA_ASSIGNER_H_

#include "index/assign_plan.h"
#include "index/assigner.h"

namespace lectern {

struct CudaKernels;
struct CudaStatus;

// Makes one assigner for each head of a plan by PlanCudaAssign. Each has a stream and device memory
// of its own, taken once, so nothing is allocated on the device while they work. Borrows `kernels`.
// Makes fewer than planned if the device has less memory than the plan assumed. Labels equal those
// of AssignNearestScalar except where products differ by rounding only. kOutOfMemory (param
// "device_memory", with the bytes) if there is not enough memory for one assigner; kIoError if the
// device fails, kInternal if a kernel refuses its arguments. SetCentroids and Assign of the
// assigners have the same errors.
Result<Assigners> MakeCudaAssigners(const CudaKernels& kernels, int device, const AssignPlan& plan);

}  // namespace lectern

#endif  // LECTERN_INDEX_CUDA_ASSIGNER_H_
