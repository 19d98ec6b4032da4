// The functions that device code needs beyond C++: conversions, warp sums, and the instructions
// that have no C++ name (tensor cores, ldmatrix, cp.async), as PTX. The tests' emulation has the
// same functions, lane by lane, in a header that it puts before this one. Scans and sums of a block
// are ours, not CUB's, for the same reason: the tests run them without a GPU. Nothing here is
// scanned or sorted by a launch of its own, which is what CUB is best at: lists are made while they
// are chosen (row_select.h).
#ifndef LECTERN_KERNELS_CUDA_RUNTIME_PRIMITIVES_CUH_
#define LECTERN_KERNELS_CUDA_RUNTIME_PRIMITIVES_CUH_

#include <cuda_runtime.h>

#include "kernels/dtype.h"

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace lectern {

// A block's dynamic shared memory: its launch said how much. Aligned to 128 bytes.
__device__ __forceinline__ unsigned char* SharedMemory() {
  extern __shared__ __align__(128) unsigned char bytes[];
  return bytes;
}

__device__ __forceinline__ float ToFloat(float x) { return x; }
__device__ __forceinline__ float ToFloat(f16 x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ __forceinline__ float ToFloat(bf16 x) {
  return __int_as_float(static_cast<int>(static_cast<uint32_t>(x.bits) << 16));
}
// Rounded to nearest, ties to even.
template <typename T>
__device__ T FromFloat(float x);
template <>
__device__ __forceinline__ float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ f16 FromFloat<f16>(float x) {
  return {__half_as_ushort(__float2half_rn(x))};
}
template <>
__device__ __forceinline__ bf16 FromFloat<bf16>(float x) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}

// ---- griddepcontrol (9.7.13.13): every kernel does this first. The blocks of a launch that may
// overlap (launch.cuh) come while those of the kernel before it still run: as soon as all of those
// have begun, and one kernel ahead at most. Memory that earlier kernels wrote can be read after the
// wait, and not before it.
__device__ __forceinline__ void WaitForEarlierKernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- cp.async (PTX ISA 9.7.9.25): 16 bytes from global to shared memory, both aligned to 16. Of
// fewer `bytes` the rest is zero; of 0 nothing is read.
__device__ __forceinline__ void CopyAsync16(void* to, const void* from, uint32_t bytes) {
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes)
               : "memory");
}
// Makes the copies that this thread has started since the last call one group.
__device__ __forceinline__ void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most so many of the groups that this thread committed are under way. Others see what was
// copied after a barrier.
template <int kGroupsLeft>
__device__ __forceinline__ void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
}

// ---- ld.relaxed, st.relaxed (9.7.9.8, 9.7.9.11): for a word that holds everything that blocks of
// a kernel tell each other. Others may see a stored value at any later time, or never.
__device__ __forceinline__ uint64_t LoadRelaxed(const uint64_t* from) {
  uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ __forceinline__ void StoreRelaxed(uint64_t* to, uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
// StoreRelaxed; the tests' emulation shows the value to others late, as a device may.
__device__ __forceinline__ void StoreLate(uint64_t* to, uint64_t value) { StoreRelaxed(to, value); }

// ---- ex2.approx.ftz (9.7.3.21): within 2^-22 of 2^x relatively; 0 below 2^-126.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// ---- ldmatrix (9.7.15.5.15): four 8x8 matrices of 16-bit elements; lane l holds the address of
// row l % 8 of matrix l / 8. r[i] of a lane: elements (lane / 4, 2 (lane % 4) + {0, 1}) of matrix
// i; of its transpose by the second function.
__device__ __forceinline__ void LoadMatrices(uint32_t (&r)[4], const void* row) {
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}
__device__ __forceinline__ void LoadTransposedMatrices(uint32_t (&r)[4], const void* row) {
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}

// ---- mma.sync m16n8k16 (9.7.15.5.8): d += a b, a [16, 16], b [16, 8], d [16, 8] in float. In lane
// l, with g = l / 4 and t = l % 4:
//   a: (g, 2t..), (g + 8, 2t..), (g, 2t + 8..), (g + 8, 2t + 8..)     two elements a register
//   b: (2t.., g), (2t + 8.., g)
//   d: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
template <typename T>
__device__ void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void MultiplyAdd<f16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                 uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void MultiplyAdd<bf16>(float (&d)[4], const uint32_t (&a)[4],
                                                  uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace lectern

#else
#include "cuda_emulation_primitives.h"
#endif

namespace lectern {

constexpr uint32_t kAllLanes = 0xFFFFFFFFu;
constexpr uint32_t kWarpSize = 32;

__device__ __forceinline__ float NegativeInfinity() {
  return __int_as_float(static_cast<int>(0xFF800000u));
}

// Calls body(i, load(i)) for i = first, first + stride, … below `end`, in this order. Loads of so
// many turns are made together: turns are counted, as those of an index that might wrap cannot be,
// which leaves a branch between one load and the next.
template <int kAtOnce, typename Load, typename Body>
__device__ __forceinline__ void Strided(uint32_t first, uint32_t end, uint32_t stride,
                                        const Load& load, const Body& body) {
  const uint32_t turns = end > first ? (end - first + stride - 1) / stride : 0;
#pragma unroll 1
  for (uint32_t turn = 0; turn < turns; turn += kAtOnce) {
    decltype(load(0u)) values[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {  // past the end the last one: no load is a branch's
      values[i] = load(first + min(turn + i, turns - 1) * stride);
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (turn + i < turns) body(first + (turn + i) * stride, values[i]);
    }
  }
}

// Two neighbours as they lie in memory, low half first.
template <typename T>
__device__ __forceinline__ uint32_t Pack(float low, float high) {
  return static_cast<uint32_t>(FromFloat<T>(low).bits) |
         static_cast<uint32_t>(FromFloat<T>(high).bits) << 16;
}

// Over `kLanes` neighbouring lanes (a power of two); every lane gets the result. The order of the
// sum is fixed.
template <int kLanes, typename T>
__device__ __forceinline__ T LaneSum(T x) {
#pragma unroll
  for (int bits = kLanes / 2; bits > 0; bits /= 2) x += __shfl_xor_sync(kAllLanes, x, bits);
  return x;
}
template <int kLanes>
__device__ __forceinline__ float LaneMax(float x) {
#pragma unroll
  for (int bits = kLanes / 2; bits > 0; bits /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, bits));
  }
  return x;
}

// Returns the sum of `value` over the threads of the block before this one; `total` is that over
// all. Takes [warps] of shared memory, which are free again when all threads have passed.
__device__ __forceinline__ uint32_t BlockScan(uint32_t value, uint32_t* of_warps, uint32_t& total) {
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  uint32_t sum = value;
#pragma unroll
  for (uint32_t delta = 1; delta < kWarpSize; delta *= 2) {
    const uint32_t before = __shfl_up_sync(kAllLanes, sum, delta);
    if (lane >= delta) sum += before;
  }
  if (lane == kWarpSize - 1) of_warps[warp] = sum;
  __syncthreads();
  uint32_t before = 0;
  total = 0;
  for (uint32_t w = 0; w < blockDim.x / kWarpSize; ++w) {
    if (w < warp) before += of_warps[w];
    total += of_warps[w];
  }
  __syncthreads();
  return before + sum - value;
}

// Returns the largest `value` of the threads of the block before this one; in the first thread 0.
// Shared memory as BlockScan.
__device__ __forceinline__ uint32_t BlockMaxBefore(uint32_t value, uint32_t* of_warps) {
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  uint32_t most = value;
#pragma unroll
  for (uint32_t delta = 1; delta < kWarpSize; delta *= 2) {
    most = max(most, __shfl_up_sync(kAllLanes, most, delta));  // of itself where there is none
  }
  if (lane == kWarpSize - 1) of_warps[warp] = most;
  const uint32_t before = __shfl_up_sync(kAllLanes, most, 1);
  __syncthreads();
  most = lane > 0 ? before : 0;
  for (uint32_t w = 0; w < warp; ++w) most = max(most, of_warps[w]);
  __syncthreads();
  return most;
}

// Sums x over the threads of a block in a fixed order; every thread gets the result. Shared memory
// as BlockScan.
__device__ __forceinline__ float BlockSum(float x, float* of_warps) {
  x = LaneSum<kWarpSize>(x);
  if (threadIdx.x % kWarpSize == 0) of_warps[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  float sum = 0;
  for (uint32_t w = 0; w < blockDim.x / kWarpSize; ++w) sum += of_warps[w];
  __syncthreads();
  return sum;
}
// The largest x of the threads of a block, likewise.
__device__ __forceinline__ float BlockMax(float x, float* of_warps) {
  x = LaneMax<kWarpSize>(x);
  if (threadIdx.x % kWarpSize == 0) of_warps[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  float most = of_warps[0];
  for (uint32_t w = 1; w < blockDim.x / kWarpSize; ++w) most = fmaxf(most, of_warps[w]);
  __syncthreads();
  return most;
}

// Whether this block is the last of `num_blocks` that come here with the same counter of global
// memory, which was 0 and then is so again. The last one may read what the others wrote to global
// memory before, by __ldcg: not what this multiprocessor's own cache may hold of it. All threads of
// a block come; `is_last`, of shared memory, is free again after the block's next barrier.
__device__ __forceinline__ bool IsLastBlock(uint32_t* counter, uint32_t num_blocks,
                                            uint32_t* is_last) {
  __syncthreads();  // all threads of this block have written
  if (threadIdx.x == 0) {
    __threadfence();  // what they wrote comes before the count: fences are cumulative
    const bool last = atomicAdd(counter, 1u) + 1 == num_blocks;
    __threadfence();  // and the count before what is read
    if (last) *counter = 0;
    *is_last = last ? 1 : 0;
  }
  __syncthreads();
  return *is_last != 0;
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_RUNTIME_PRIMITIVES_CUH_
