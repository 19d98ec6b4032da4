// What a CUDA call says, as a Status. Here and not in kernels/, which knows no Status.
#ifndef LECTERN_INDEX_CUDA_STATUS_H_
#define LECTERN_INDEX_CUDA_STATUS_H_

#include "kernels/cuda/runtime/device.h"
#include "store/status.h"

namespace lectern {

// kOutOfMemory, param "device_memory"; kInternal for what a kernel refuses; kIoError for what the
// device can do nothing after.
inline Status FromCuda(const CudaStatus& status) {
  switch (status.code) {
    case CudaCode::kOk:
      return {};
    case CudaCode::kOutOfDeviceMemory:
      return Status(Code::kOutOfMemory, CudaMessage(status)).WithParam("device_memory");
    case CudaCode::kInvalidArgument:
      return {Code::kInternal, CudaMessage(status)};
    default:
      return {Code::kIoError, CudaMessage(status)};
  }
}

}  // namespace lectern

#endif  // LECTERN_INDEX_CUDA_STATUS_H_
