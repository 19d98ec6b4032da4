// The assignment step of K-means on a CUDA device, by kernels/cuda/clustering/assign.h.
#ifndef LECTERN_INDEX_CUDA_ASSIGNER_H_
#define LECTERN_INDEX_CUDA_ASSIGNER_H_

#include "index/assign_plan.h"
#include "index/assigner.h"

namespace lectern {

struct CudaKernels;
struct CudaStatus;

// One for each head of a plan of PlanCudaAssign, with a stream and device memory of its own, taken
// once: nothing is allocated on the device while they work. Where there is less memory than was
// planned with, fewer than planned. kOutOfMemory, param "device_memory", where there is none for
// even one, with the bytes; kIoError where the device fails, kInternal for what a kernel refuses.
// Labels are those of AssignNearestScalar but for products that differ by rounding.
Result<Assigners> MakeCudaAssigners(const CudaKernels& kernels, int device, const AssignPlan& plan);

}  // namespace lectern

#endif  // LECTERN_INDEX_CUDA_ASSIGNER_H_
