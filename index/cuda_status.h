// Turns the result of a CUDA call into a Status. It lives here because kernels/ knows no Status.
#ifndef LECTERN_INDEX_CUDA_STATUS_H_
#define LECTERN_INDEX_CUDA_STATUS_H_

#include "kernels/cuda/runtime/device.h"
#include "store/status.h"

namespace lectern {

// kOutOfMemory (param "device_memory"); kInternal if a kernel refused its arguments; kIoError if
// the device failed and cannot be used any more.
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
