// Measures how much rows turned, on a CUDA device: how a layer's attention changes the residual
// stream.
#ifndef LECTERN_KERNELS_CUDA_ROWS_ROW_COSINES_H_
#define LECTERN_KERNELS_CUDA_ROWS_ROW_COSINES_H_

#include "kernels/cuda/rows/rows.h"

namespace lectern {

struct CudaRowCosinesArgs {
  DeviceRows before, after;  // [M, C] f32, finite
  float* cosines;            // out [M]
};
// Finds the cosine of the angle between rows: <before, after> / (|before| |after|), 1 where a row
// is zero. The result is within 1e-5 of the same in double; each is a sum in one order, whatever
// ran when. Enqueues and returns; kInvalidArgument as rows.h says.
CudaStatus CudaRowCosines(const CudaStream& stream, const CudaRowCosinesArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ROWS_ROW_COSINES_H_
