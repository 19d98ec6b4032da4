// The assignment step of K-means by FAISS itself on a GPU: GpuIndexFlat with StandardGpuResources,
// where CMake found a FAISS that was built with GPU support (LECTERN_FAISS_GPU). Our own kernel
// (cuda_assigner.h) needs no such FAISS, and turns every failure of a device into an error: FAISS
// ends the process at those that it does not throw, so memory is asked for here before it is taken.
#ifndef LECTERN_INDEX_FAISS_GPU_H_
#define LECTERN_INDEX_FAISS_GPU_H_

#include "index/assign_plan.h"
#include "index/assigner.h"

namespace lectern {

bool HasFaissGpu();

// As MakeCudaAssigners, of a plan of PlanFaissGpuAssign. Products within 1e-5 of
// AssignNearestScalar's; among equal ones the label is any. kInvalidArgument, param "device": this
// build has no such FAISS, or the machine no such GPU.
Result<Assigners> MakeFaissGpuAssigners(int device, const AssignPlan& plan);

}  // namespace lectern

#endif  // LECTERN_INDEX_FAISS_GPU_H_
