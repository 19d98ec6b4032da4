#include "kernels/cuda/rows/rows.h"
#include "kernels/cuda/rows/rows_geometry.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/primitives.cuh"

namespace lectern {
namespace {

// Four floats by one load where they are aligned, which the whole grid agrees on.
__device__ __forceinline__ float4 Load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}

__device__ __forceinline__ void Store4(const float4& x, float* to) {
  *reinterpret_cast<float4*>(to) = x;
}
template <typename T>
__device__ __forceinline__ void Store4(const float4& x, T* to) {
  *reinterpret_cast<uint2*>(to) = uint2{Pack<T>(x.x, x.y), Pack<T>(x.z, x.w)};
}

// Over kRowThreads threads: a warp, or a block, all of which come here.
template <uint32_t kRowThreads>
__device__ __forceinline__ float RowSum(float x) {
  x = LaneSum<kWarpSize>(x);
  if (kRowThreads == kWarpSize) return x;
  auto* const of_warps = reinterpret_cast<float*>(SharedMemory());
  if (threadIdx.x % kWarpSize == 0) of_warps[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  float sum = 0;
  for (uint32_t w = 0; w < kRowThreads / kWarpSize; ++w) sum += of_warps[w];
  return sum;
}

// A row by kRowThreads threads, each of which has kFours times four neighbours in registers, so
// that one token's row is read at once; 0: any number of elements one by one, read twice. The
// output may be the input: a thread reads and writes the same columns.
template <typename Out, uint32_t kRowThreads, uint32_t kFours>
__global__ void RmsNormKernel(const CudaRmsNormArgs args) {
  WaitForEarlierKernels();
  const uint32_t lane = threadIdx.x % kRowThreads;
  const size_t row = size_t{blockIdx.x} * (blockDim.x / kRowThreads) + threadIdx.x / kRowThreads;
  const size_t num_cols = args.input.num_cols;
  const bool is_row = row < args.input.num_rows;  // all threads stay for the sums
  const float* const in =  // what there is none of is read of what nobody writes
      is_row ? static_cast<const float*>(args.input.data) + row * args.input.stride : args.weight;
  Out* const out = static_cast<Out*>(args.output.data) + row * args.output.stride;
  float squares = 0;
  if constexpr (kFours > 0) {
    float4 values[kFours], weights[kFours];
#pragma unroll
    for (uint32_t i = 0; i < kFours; ++i) {  // past the end weights: no load is a branch's
      const size_t c = 4 * (size_t{i} * kRowThreads + lane);
      weights[i] = Load4(args.weight + min(c, num_cols - 4));
      values[i] = Load4(c < num_cols ? in + c : args.weight);
    }
#pragma unroll
    for (uint32_t i = 0; i < kFours; ++i) {
      if (4 * (i * kRowThreads + lane) >= num_cols) continue;
      const float4& x = values[i];
      squares += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    }
    const float mean = RowSum<kRowThreads>(squares) / static_cast<float>(num_cols);
    if (!is_row) return;
    const float factor = 1.0f / sqrtf(mean + args.epsilon);
#pragma unroll
    for (uint32_t i = 0; i < kFours; ++i) {
      const uint32_t c = 4 * (i * kRowThreads + lane);
      if (c >= num_cols) continue;
      const float4 &x = values[i], &w = weights[i];
      Store4(float4{w.x * (x.x * factor), w.y * (x.y * factor), w.z * (x.z * factor),
                    w.w * (x.w * factor)},
             out + c);
    }
  } else {
    for (size_t c = lane; is_row && c < num_cols; c += kRowThreads) squares += in[c] * in[c];
    const float mean = RowSum<kRowThreads>(squares) / static_cast<float>(num_cols);
    if (!is_row) return;
    const float factor = 1.0f / sqrtf(mean + args.epsilon);
    for (size_t c = lane; c < num_cols; c += kRowThreads) {
      out[c] = FromFloat<Out>(args.weight[c] * (in[c] * factor));
    }
  }
}

__device__ __forceinline__ size_t ThreadIndex() {
  return size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
template <typename T>
__device__ __forceinline__ T* At(const DeviceRows& rows, size_t row, size_t col) {
  return static_cast<T*>(rows.data) + row * rows.stride + col;
}

// A thread turns one pair; where a head has columns past its pairs, two of them.
template <typename Out>
__global__ void RopeKernel(const CudaRopeArgs args) {
  WaitForEarlierKernels();
  const size_t pairs = args.heads.num_cols / 2, i = ThreadIndex();
  const size_t row = i / pairs;
  if (row >= args.heads.num_rows) return;
  const uint32_t half_dim = args.head_dim / 2;
  const size_t head = i % pairs / half_dim * args.head_dim;
  const auto pair = static_cast<uint32_t>(i % pairs % half_dim);
  const bool is_turned = pair < args.half;
  const uint32_t low_col = is_turned ? pair : 2 * pair;  // past 2 half: neighbours
  const uint32_t high_col = is_turned ? pair + args.half : 2 * pair + 1;
  const float low = *At<float>(args.heads, row, head + low_col);
  const float high = *At<float>(args.heads, row, head + high_col);
  float new_low = low, new_high = high;
  if (is_turned) {
    const float cosine = args.cosine[row * args.half + pair];
    const float sine = args.sine[row * args.half + pair];
    new_low = low * cosine - high * sine;
    new_high = high * cosine + low * sine;
  }
  *At<Out>(args.output, row, head + low_col) = FromFloat<Out>(new_low * args.scale);
  *At<Out>(args.output, row, head + high_col) = FromFloat<Out>(new_high * args.scale);
}

__device__ __forceinline__ float Activated(float x, Activation activation) {
  constexpr float kSlope = 1.5957691216057308f;  // 2 sqrt(2 / pi)
  const float t = activation == Activation::kSilu ? x : kSlope * (x + 0.044715f * x * x * x);
  return x / (1 + expf(-t));
}

// A thread has four neighbours of a row: 16 bytes a load where rows are aligned.
template <typename Out>
__global__ void GluKernel(const CudaGluArgs args) {
  WaitForEarlierKernels();
  const size_t fours = (args.gate.num_cols + 3) / 4, i = ThreadIndex();
  const size_t row = i / fours, first = i % fours * 4;
  if (row >= args.gate.num_rows) return;
  const float* const gate = At<float>(args.gate, row, first);
  const float* const up = At<float>(args.up, row, first);
  float g[4], u[4];
  const size_t count = min(args.gate.num_cols - first, size_t{4});
  if (count == 4 && reinterpret_cast<uintptr_t>(gate) % 16 == 0 &&
      reinterpret_cast<uintptr_t>(up) % 16 == 0) {
    const float4 gates = Load4(gate), ups = Load4(up);
    g[0] = gates.x, g[1] = gates.y, g[2] = gates.z, g[3] = gates.w;
    u[0] = ups.x, u[1] = ups.y, u[2] = ups.z, u[3] = ups.w;
  } else {
#pragma unroll
    for (size_t k = 0; k < 4; ++k) {
      g[k] = k < count ? gate[k] : 0;
      u[k] = k < count ? up[k] : 0;
    }
  }
#pragma unroll
  for (size_t k = 0; k < 4; ++k) {
    if (k >= count) break;
    *At<Out>(args.output, row, first + k) = FromFloat<Out>(Activated(g[k], args.activation) * u[k]);
  }
}

__global__ void SoftcapKernel(const CudaSoftcapArgs args) {
  WaitForEarlierKernels();
  const size_t i = ThreadIndex(), row = i / args.logits.num_cols;
  if (row >= args.logits.num_rows) return;
  float* const logit = At<float>(args.logits, row, i % args.logits.num_cols);
  *logit = args.cap * tanhf(*logit / args.cap);
}

__global__ void AddKernel(const CudaAddArgs args) {
  WaitForEarlierKernels();
  const size_t i = ThreadIndex(), row = i / args.to.num_cols, col = i % args.to.num_cols;
  if (row >= args.to.num_rows) return;
  *At<float>(args.to, row, col) += args.from[row * args.from_stride + col];
}

// The place of an element among the output's rows.
__device__ __forceinline__ size_t StoredPlace(const CudaStoreRowsArgs& args, size_t token,
                                              size_t col) {
  const size_t position = token + args.first_position + (args.step != nullptr ? *args.step : 0);
  return (col / args.head_dim * args.rows_per_head + position) * args.head_dim +
         col % args.head_dim;
}

template <typename Out>
__global__ void StoreRowsKernel(const CudaStoreRowsArgs args) {
  WaitForEarlierKernels();
  const size_t i = ThreadIndex(), row = i / args.input.num_cols, col = i % args.input.num_cols;
  if (row >= args.input.num_rows) return;
  static_cast<Out*>(args.output)[StoredPlace(args, row, col)] =
      FromFloat<Out>(*At<float>(args.input, row, col));
}

// A warp has a block of 32 elements: head_dim, and so a row, is a multiple of it.
__global__ void StoreQ8RowsKernel(const CudaStoreRowsArgs args) {
  WaitForEarlierKernels();
  const size_t i = ThreadIndex(), row = i / args.input.num_cols, col = i % args.input.num_cols;
  if (row >= args.input.num_rows) return;  // the whole warp
  const float x = *At<float>(args.input, row, col);
  const float largest = LaneMax<32>(fabsf(x));
  const f16 scale = FromFloat<f16>(largest < 127 * 65504.0f ? largest / 127 : 65504.0f);
  const float step = ToFloat(scale);
  const float nearest = step > 0 ? rintf(x / step) : 0;
  const size_t place = StoredPlace(args, row, col);
  static_cast<int8_t*>(args.output)[place] =
      static_cast<int8_t>(fminf(fmaxf(nearest, -127.0f), 127.0f));
  if (threadIdx.x % kWarpSize == 0) args.scales[place / kQ8Block] = scale;
}

// A block row of the grid has an array, a thread one unit of it.
template <typename Unit>
__device__ __forceinline__ void PlaceUnit(const CudaPlaceRowsArgs& args,
                                          const CudaPlaceRowsArgs::Array& array) {
  const size_t units = array.row_bytes / sizeof(Unit), i = ThreadIndex(), row = i / units;
  if (row >= args.num_rows) return;
  static_cast<Unit*>(array.to)[args.places[row] * units + i % units] =
      static_cast<const Unit*>(array.from)[i];
}
// An index of arguments that is not known beforehand makes a copy of them.
__device__ __forceinline__ CudaPlaceRowsArgs::Array PlacedArray(const CudaPlaceRowsArgs& args) {
  static_assert(CudaPlaceRowsArgs::kMostArrays == 4);
  switch (blockIdx.y) {
    case 0:
      return args.arrays[0];
    case 1:
      return args.arrays[1];
    case 2:
      return args.arrays[2];
    default:
      return args.arrays[3];
  }
}
__global__ void PlaceRowsKernel(const CudaPlaceRowsArgs args) {
  WaitForEarlierKernels();
  const CudaPlaceRowsArgs::Array array = PlacedArray(args);
  if (PlacedUnit(array.row_bytes) == sizeof(uint4)) {
    PlaceUnit<uint4>(args, array);
  } else {
    PlaceUnit<uint16_t>(args, array);
  }
}

bool IsByFours(const DeviceRows& rows) {
  return rows.num_cols % 4 == 0 && rows.stride % 4 == 0 &&
         reinterpret_cast<uintptr_t>(rows.data) % (4 * RowBytes(rows.dtype, 1)) == 0;
}
template <typename Out>
auto RmsNormOf(const CudaRmsNormArgs& args) {
  const size_t num_cols = args.input.num_cols;
  const bool by_fours = IsByFours(args.input) && IsByFours(args.output) &&
                        reinterpret_cast<uintptr_t>(args.weight) % sizeof(float4) == 0;
  if (num_cols <= kWarpRowCols) {
    static_assert(kWarpRowCols <= 4 * 4 * kWarpSize, "in four registers times four");
    return by_fours ? RmsNormKernel<Out, kWarpSize, 4> : RmsNormKernel<Out, kWarpSize, 0>;
  }
  const size_t fours = (num_cols / 4 + kRowBlockThreads - 1) / kRowBlockThreads;
  if (!by_fours || fours > 8) return RmsNormKernel<Out, kRowBlockThreads, 0>;
  if (fours > 4) return RmsNormKernel<Out, kRowBlockThreads, 8>;
  return fours > 2 ? RmsNormKernel<Out, kRowBlockThreads, 4>
                   : RmsNormKernel<Out, kRowBlockThreads, 2>;
}

}  // namespace

CudaStatus LaunchRmsNorm(CudaStreamHandle* stream, const CudaGrid& grid,
                         const CudaRmsNormArgs& args) {
  switch (args.output.dtype) {
    case Dtype::kF32:
      return Launch(stream, grid, "rms_norm", RmsNormOf<float>(args), args);
    case Dtype::kF16:
      return Launch(stream, grid, "rms_norm", RmsNormOf<f16>(args), args);
    default:
      return Launch(stream, grid, "rms_norm", RmsNormOf<bf16>(args), args);
  }
}

CudaStatus LaunchRope(CudaStreamHandle* stream, const CudaGrid& grid, const CudaRopeArgs& args) {
  switch (args.output.dtype) {
    case Dtype::kF32:
      return Launch(stream, grid, "rope", RopeKernel<float>, args);
    case Dtype::kF16:
      return Launch(stream, grid, "rope", RopeKernel<f16>, args);
    default:
      return Launch(stream, grid, "rope", RopeKernel<bf16>, args);
  }
}
CudaStatus LaunchGlu(CudaStreamHandle* stream, const CudaGrid& grid, const CudaGluArgs& args) {
  switch (args.output.dtype) {
    case Dtype::kF32:
      return Launch(stream, grid, "glu", GluKernel<float>, args);
    case Dtype::kF16:
      return Launch(stream, grid, "glu", GluKernel<f16>, args);
    default:
      return Launch(stream, grid, "glu", GluKernel<bf16>, args);
  }
}
CudaStatus LaunchSoftcap(CudaStreamHandle* stream, const CudaGrid& grid,
                         const CudaSoftcapArgs& args) {
  return Launch(stream, grid, "softcap", SoftcapKernel, args);
}
// Machine code from PTX below 9.0 cannot overlap, whatever the device: there is no wait in it.
bool KernelsCanOverlap() {
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, AddKernel) == cudaSuccess) {
    return attributes.ptxVersion >= 90;
  }
  (void)cudaGetLastError();
  return false;
}

CudaStatus LaunchAdd(CudaStreamHandle* stream, const CudaGrid& grid, const CudaAddArgs& args) {
  return Launch(stream, grid, "add", AddKernel, args);
}
CudaStatus LaunchStoreRows(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaStoreRowsArgs& args) {
  switch (args.dtype) {
    case Dtype::kF32:
      return Launch(stream, grid, "store_rows", StoreRowsKernel<float>, args);
    case Dtype::kF16:
      return Launch(stream, grid, "store_rows", StoreRowsKernel<f16>, args);
    case Dtype::kBf16:
      return Launch(stream, grid, "store_rows", StoreRowsKernel<bf16>, args);
    default:
      return Launch(stream, grid, "store_rows", StoreQ8RowsKernel, args);
  }
}
CudaStatus LaunchPlaceRows(CudaStreamHandle* stream, const CudaGrid& grid,
                           const CudaPlaceRowsArgs& args) {
  return Launch(stream, grid, "place_rows", PlaceRowsKernel, args);
}

}  // namespace lectern
