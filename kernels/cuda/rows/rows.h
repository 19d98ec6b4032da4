// Row-wise operations of a transformer on a CUDA device.
//
// Rule for every function here: pointers are of the stream's device; the work is enqueued and the
// call returns; one thread at a time per stream. kInvalidArgument: the arguments break what the
// comments ask for (a pointer that is nullptr, a shape, a type, an alignment), or there are too
// many rows for a launch; nothing was enqueued. Otherwise errors are those of the stream
// (device.h). No rows: nothing is done. The content of arrays is not checked.
#ifndef LECTERN_KERNELS_CUDA_ROWS_ROWS_H_
#define LECTERN_KERNELS_CUDA_ROWS_ROWS_H_

#include "kernels/activation.h"
#include "kernels/dtype.h"

namespace lectern {

class CudaStream;
struct CudaStatus;

// Borrowed rows of the device, row major; `stride` in elements. Never q8. Aligned as their elements
// are; fastest where data and stride are multiples of 16 bytes.
struct DeviceRows {
  void* data = nullptr;
  Dtype dtype = Dtype::kF32;
  size_t num_rows = 0;
  size_t num_cols = 0;
  size_t stride = 0;
};

// Whether the view is one of rows: a plain type, at least one column, columns within the stride,
// and, if there are rows, data that is not nullptr and aligned as its elements.
bool AreRows(const DeviceRows& rows);

// kernels/rms_norm.h
struct CudaRmsNormArgs {
  DeviceRows input;     // [M, C] f32, C >= 1
  const float* weight;  // [C]
  float epsilon;
  DeviceRows output;  // [M, C] f32, f16 or bf16; may be the input where it is f32
};
// Sums in float: within 1e-5 relative of RmsNormScalar, and the rounding of the output.
CudaStatus CudaRmsNorm(const CudaStream& stream, const CudaRmsNormArgs& args);

// kernels/rope.h, of every head of a row; then all times `scale`. Columns of a head past 2 half are
// kept, times scale.
struct CudaRopeArgs {
  DeviceRows heads;     // [M, num_heads * head_dim] f32
  uint32_t head_dim;    // even
  const float* cosine;  // [M, half]
  const float* sine;    // [M, half]
  uint32_t half;        // at most head_dim / 2
  float scale = 1;
  DeviceRows output;  // as heads; f32, f16 or bf16; may be `heads` where it is f32
};
// Within 1e-6 * |x| of RopeScalar, and the rounding of the output.
CudaStatus CudaRope(const CudaStream& stream, const CudaRopeArgs& args);

struct CudaGluArgs {
  DeviceRows gate, up;  // [M, C] f32
  DeviceRows output;    // [M, C] f32, f16 or bf16; may be gate or up where it is f32
  Activation activation = Activation::kSilu;
};
// kernels/glu.h; within 1e-5 relative of GluScalar, and the rounding of the output.
CudaStatus CudaGlu(const CudaStream& stream, const CudaGluArgs& args);

struct CudaSoftcapArgs {
  DeviceRows logits;  // in/out [M, n] f32
  float cap;          // > 0
};
// kernels/softcap.h; within 1e-6 * cap of SoftcapScalar.
CudaStatus CudaSoftcap(const CudaStream& stream, const CudaSoftcapArgs& args);

struct CudaAddArgs {
  DeviceRows to;      // in/out [M, C] f32
  const float* from;  // [M, C], or [C] where from_stride is 0: a bias
  size_t from_stride;
};
CudaStatus CudaAdd(const CudaStream& stream, const CudaAddArgs& args);  // one rounding

// Rows of heads to where attention reads them (DeviceKv): token t of head h becomes row
// h * rows_per_head + first_position + *step + t. One head: a conversion.
struct CudaStoreRowsArgs {
  DeviceRows input;  // [M, num_heads * head_dim] f32, finite
  uint32_t num_heads, head_dim;
  Dtype dtype;   // of the output; q8: int8 and scales apart, head_dim a multiple of 32
  void* output;  // [num_heads][rows_per_head][head_dim]
  f16* scales;   // q8: [num_heads][rows_per_head][head_dim / 32]
  uint32_t rows_per_head;
  uint32_t first_position;         // and M more must fit into rows_per_head; with *step unchecked
  const uint32_t* step = nullptr;  // of the device: what a graph that is launched again moves on by
};
// Bits of FromFloatRows (kernels/convert.h).
CudaStatus CudaStoreRows(const CudaStream& stream, const CudaStoreRowsArgs& args);

// Rows of some arrays, each to the same places of another: row i of `from` becomes row places[i] of
// `to`. Places are not checked.
struct CudaPlaceRowsArgs {
  static constexpr uint32_t kMostArrays = 4;
  struct Array {
    const void* from = nullptr;  // [num_rows, row_bytes], packed; 16-byte aligned, as `to` is
    void* to = nullptr;
    uint32_t row_bytes = 0;  // even, at least 2; fastest where it is a multiple of 16
  };
  Array arrays[kMostArrays] = {};
  uint32_t num_arrays = 1;
  const uint32_t* places = nullptr;  // [num_rows], of the device; all different
  uint32_t num_rows = 0;
};
// Copies bits. `from` and `to` must not overlap.
CudaStatus CudaPlaceRows(const CudaStream& stream, const CudaPlaceRowsArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_ROWS_ROWS_H_
