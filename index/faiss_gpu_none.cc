// Replaces faiss_gpu.cc in builds whose FAISS has no GPU support: every call fails with an error
// that says so.
#include "index/faiss_gpu.h"
#include "index/kmeans.h"

namespace lectern {

bool HasFaissGpu() { return false; }

Result<Assigners> MakeFaissGpuAssigners(int, const AssignPlan&) {
  return Status(Code::kInvalidArgument,
                std::string("FAISS ") + FaissVersion() +
                    " was built without GPU support: build Lectern with -D LECTERN_FAISS_GPU=ON "
                    "against one that has it, or cluster with Lectern's own kernels")
      .WithParam("device");
}

}  // namespace lectern
