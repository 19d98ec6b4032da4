// Replaces faiss_gpu.cc in builds whose FAISS has no GPU support: every call fails with an error
// that says so.
#include "index/kmeans.h"
#include "tests/index/faiss_gpu.h"

namespace lectern {

bool HasFaissGpu() { return false; }

Result<Assigners> MakeFaissGpuAssigners(int, const FaissGpuPlan&) {
  return Status(Code::kInvalidArgument,
                std::string("FAISS ") + FaissVersion() +
                    " was built without GPU support: configure with -D CMAKE_PREFIX_PATH=… of one "
                    "that was built with FAISS_ENABLE_GPU=ON")
      .WithParam("device");
}

}  // namespace lectern
