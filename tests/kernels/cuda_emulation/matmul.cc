// In the place of cuBLAS.
#include "kernels/cuda/rows/matmul.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/primitives.cuh"

namespace lectern {
namespace {

struct Element {
  float operator()(const DeviceRows& rows, size_t row, size_t col) const {
    const size_t at = row * rows.stride + col;
    switch (rows.dtype) {
      case Dtype::kF32:
        return static_cast<const float*>(rows.data)[at];
      case Dtype::kF16:
        return ToFloat(static_cast<const f16*>(rows.data)[at]);
      default:
        return ToFloat(static_cast<const bf16*>(rows.data)[at]);
    }
  }
};

void MatMulKernel(const CudaMatMulArgs args) {
  WaitForEarlierKernels();
  constexpr Element kElement;
  for (size_t m = 0; m < args.input.num_rows; ++m) {
    for (size_t n = 0; n < args.weight.num_rows; ++n) {
      float sum = args.accumulate ? kElement(args.output, m, n) : 0;
      for (size_t k = 0; k < args.input.num_cols; ++k) {
        sum += kElement(args.input, m, k) * kElement(args.weight, n, k);
      }
      const size_t at = m * args.output.stride + n;
      switch (args.output.dtype) {
        case Dtype::kF32:
          static_cast<float*>(args.output.data)[at] = sum;
          break;
        case Dtype::kF16:
          static_cast<f16*>(args.output.data)[at] = ToF16(sum);
          break;
        default:
          static_cast<bf16*>(args.output.data)[at] = ToBf16(sum);
          break;
      }
    }
  }
}

}  // namespace

void FinishMatMul(CudaStreamHandle*) {}
CudaStatus LaunchMatMul(CudaStreamHandle* stream, const CudaGrid&, const CudaMatMulArgs& args) {
  return Launch(stream, {.threads = 1}, "matmul", MatMulKernel, args);
}

}  // namespace lectern
