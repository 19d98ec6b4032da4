#include <cublas_v2.h>

#include "kernels/cuda/rows/matmul.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace lectern {
namespace {

CudaStatus FromBlas(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return {};
    case CUBLAS_STATUS_ALLOC_FAILED:
      return {CudaCode::kOutOfDeviceMemory, "matmul", cublasGetStatusString(status)};
    default:
      return {CudaCode::kFailed, "matmul", cublasGetStatusString(status)};
  }
}

cudaDataType_t TypeOf(Dtype dtype) {
  return dtype == Dtype::kF32 ? CUDA_R_32F : dtype == Dtype::kF16 ? CUDA_R_16F : CUDA_R_16BF;
}

// The workspace is what cuBLAS asks for on Hopper; given by us, it allocates nothing while a graph
// is recorded. On the stream's device; on failure too, FinishMatMul frees what there is.
CudaStatus Prepare(CudaStreamHandle* handle) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaError_t error = cudaStreamIsCapturing(handle->stream, &capture);
  if (error != cudaSuccess) return ToStatus(error, "matmul");
  if (capture != cudaStreamCaptureStatusNone) {
    return {CudaCode::kInvalidArgument, "matmul", "the first one of a stream is recorded"};
  }
  const WhileNobodyRecords alone;
  if (handle->workspace == nullptr) {
    error = cudaMalloc(&handle->workspace, kCudaMatMulBytes);
    if (error != cudaSuccess) return ToStatus(error, "allocate for matmul");
  }
  cublasHandle_t blas = nullptr;
  cublasStatus_t status = cublasCreate(&blas);
  // cuBLAS reports NOT_INITIALIZED also if it finds no memory.
  size_t free = 0, total = 0;
  if (status == CUBLAS_STATUS_NOT_INITIALIZED && cudaMemGetInfo(&free, &total) == cudaSuccess &&
      free < kCudaMatMulBytes) {
    status = CUBLAS_STATUS_ALLOC_FAILED;
  }
  if (status != CUBLAS_STATUS_SUCCESS) return FromBlas(status);
  status = cublasSetStream(blas, handle->stream);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = cublasSetWorkspace(blas, handle->workspace, kCudaMatMulBytes);
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    handle->blas = blas;
  } else {
    (void)cublasDestroy(blas);
  }
  return FromBlas(status);
}

}  // namespace

void FinishMatMul(CudaStreamHandle* handle) {
  if (handle->blas != nullptr) (void)cublasDestroy(static_cast<cublasHandle_t>(handle->blas));
  if (handle->workspace != nullptr) (void)cudaFree(handle->workspace);
}

// cuBLAS takes columns for rows: to it the output is its own transpose, [N, M] = weight * input^T.
CudaStatus LaunchMatMul(CudaStreamHandle* handle, const CudaGrid&, const CudaMatMulArgs& args) {
  const cudaError_t error = cudaSetDevice(handle->device);
  if (error != cudaSuccess) return ToStatus(error, "matmul");
  if (handle->blas == nullptr) {
    const CudaStatus status = Prepare(handle);
    if (!status.ok()) return status;
  }
  const auto& input = args.input;
  const auto& weight = args.weight;
  const auto& output = args.output;
  const float one = 1, into = args.accumulate ? 1.0f : 0.0f;
  return FromBlas(cublasGemmEx(static_cast<cublasHandle_t>(handle->blas), CUBLAS_OP_T, CUBLAS_OP_N,
                               static_cast<int>(weight.num_rows), static_cast<int>(input.num_rows),
                               static_cast<int>(input.num_cols), &one, weight.data,
                               TypeOf(weight.dtype), static_cast<int>(weight.stride), input.data,
                               TypeOf(input.dtype), static_cast<int>(input.stride), &into,
                               output.data, TypeOf(output.dtype), static_cast<int>(output.stride),
                               CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

}  // namespace lectern
