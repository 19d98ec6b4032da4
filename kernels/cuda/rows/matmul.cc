// Checks of matmul.h.
#include "kernels/cuda/rows/matmul.h"

#include "kernels/cuda/runtime/checks.h"

namespace lectern {

CudaStatus CudaMatMul(const CudaStream& stream, const CudaMatMulArgs& args) {
  constexpr const char* kName = "matmul";
  const auto& [input, weight, output, accumulate] = args;
  if (!AreRows(input) || !AreRows(weight) || !AreRows(output)) {
    return Refused(kName, "rows that are none");
  }
  if (input.dtype == Dtype::kF32 || weight.dtype != input.dtype) {
    return Refused(kName, "types that are not both f16 or both bf16");
  }
  if (accumulate && output.dtype != Dtype::kF32) return Refused(kName, "a rounded sum");
  if (output.dtype != Dtype::kF32 && output.dtype != input.dtype) {
    return Refused(kName, "an output of another type than f32 and the input's");
  }
  if (weight.num_cols != input.num_cols || output.num_rows != input.num_rows ||
      output.num_cols != weight.num_rows) {
    return Refused(kName, "shapes that differ");
  }
  constexpr size_t kMost = 0x7FFFFFFF;  // cuBLAS counts in int
  for (const DeviceRows* rows : {&input, &weight, &output}) {
    if (rows->num_rows > kMost || rows->stride > kMost) return Refused(kName, "too many rows");
  }
  if (input.num_rows == 0) return {};
  return stream.kernels().matmul(stream.handle(), {}, args);
}

}  // namespace lectern
