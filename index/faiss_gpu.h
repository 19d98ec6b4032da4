// Runs the assignment step of K-means by FAISS itself on a GPU: GpuIndexFlat with
// StandardGpuResources, available where CMake found a FAISS with GPU support (LECTERN_FAISS_GPU).
// Our own kernel (cuda_assigner.h) needs no such FAISS and turns every failure of a device into an
// error. FAISS ends the process on failures that it does not throw, so the memory that it will need
// is checked here before FAISS takes it.
#ifndef LECTERN_INDEX_FAISS_GPU_H_
#define LECTERN_INDEX_FAISS_GPU_H_

#include "index/assign_plan.h"
#include "index/assigner.h"

namespace lectern {

// Whether this build has a FAISS with GPU support.
bool HasFaissGpu();

// Like MakeCudaAssigners, for a plan by PlanFaissGpuAssign. Products are within 1e-5 of
// AssignNearestScalar's; among equal ones the label may be any. kInvalidArgument (param "device")
// if this build has no such FAISS or the machine no such GPU.
Result<Assigners> MakeFaissGpuAssigners(int device, const AssignPlan& plan);

}  // namespace lectern

#endif  // LECTERN_INDEX_FAISS_GPU_H_
