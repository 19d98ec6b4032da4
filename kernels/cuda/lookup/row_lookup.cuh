// The code that the kernels of row_lookup.h share.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_CUH_
#define LECTERN_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_CUH_

#include "kernels/cuda/lookup/row_lookup.h"
#include "kernels/cuda/lookup/row_select.cuh"

namespace lectern {

// A logit, bounded where the model has a cap.
__device__ __forceinline__ float Softcapped(const CudaRowLookupArgs& args, float logit) {
  return args.softcap > 0 ? args.softcap * tanhf(logit / args.softcap) : logit;
}
// Index of a head's query row in arrays [num_kv_heads][R].
__device__ __forceinline__ size_t QueryOf(const CudaRowLookupPass& pass, uint32_t head,
                                          uint32_t query) {
  return size_t{head} * pass.num_queries + query;
}
// The weight of a query row; where it is 0 the row's scores are not looked at.
__device__ __forceinline__ float WeightOf(const CudaRowLookupPass& pass, uint32_t query) {
  const float* const weights = pass.lookup.row_weights;
  return weights != nullptr ? weights[query] : 1.0f / static_cast<float>(pass.num_queries);
}
// The known log mass of a query row (index by QueryOf); -inf: none.
__device__ __forceinline__ float KnownOf(const CudaRowLookupPass& pass, size_t query) {
  const float* const known = pass.lookup.known_lse;
  return known != nullptr ? known[query] : NegativeInfinity();
}

// A log-sum-exp that a warp puts together: of states, and of what is known besides.
struct WarpLse {
  float most, sum;  // of the lane, until Join
  __device__ __forceinline__ explicit WarpLse(float known)
      : most(known),
        sum(known > NegativeInfinity() && threadIdx.x % kWarpSize == 0 ? 1.0f : 0.0f) {}
  __device__ __forceinline__ void Add(const float* maxima, const float* sums, uint32_t count) {
    AddStates<4>(maxima, sums, 1, threadIdx.x % kWarpSize, count, kWarpSize, most, sum);
  }
  __device__ __forceinline__ float Join() {
    const float base = LaneMax<kWarpSize>(most);
    if (base == NegativeInfinity()) return base;
    return base + logf(LaneSum<kWarpSize>(sum * expf(most - base)));
  }
};

// The state of `values` of all threads of a block, kCount each; thread 0 stores it.
template <uint32_t kCount>
__device__ __forceinline__ void StoreState(const float (&values)[kCount], float* max, float* sum) {
  auto* const of_warps = reinterpret_cast<float*>(Shared().of_warps);
  float most = NegativeInfinity(), total = 0;
#pragma unroll
  for (uint32_t i = 0; i < kCount; ++i) most = fmaxf(most, values[i]);
  most = BlockMax(most, of_warps);
  const float base = most == NegativeInfinity() ? 0 : most;
#pragma unroll
  for (uint32_t i = 0; i < kCount; ++i) total += expf(values[i] - base);
  total = BlockSum(total, of_warps);
  if (threadIdx.x > 0) return;
  *max = most;
  *sum = total;
}

// Slots of a tile that are one head's; none: end <= begin.
struct HeadSlots {
  uint32_t begin, end;
};
__device__ __forceinline__ HeadSlots SlotsOf(const CudaRowLookupPass& pass, uint32_t head,
                                             uint32_t tile) {
  const uint32_t first = tile * kRowTile;
  return {max(pass.head_slots[head], first), min(pass.head_slots[head + 1], first + kRowTile)};
}
// Calls body(head, slots) for each head that has slots of the tile. All threads of a block.
template <typename Body>
__device__ __forceinline__ void ForEachHeadOf(const CudaRowLookupPass& pass, uint32_t tile,
                                              const Body& body) {
  const uint32_t num_heads = pass.lookup.codes.num_kv_heads, last = (tile + 1) * kRowTile;
  for (uint32_t head = pass.tile_starts[tile].head;
       head < num_heads && pass.head_slots[head] < last; ++head) {
    const HeadSlots slots = SlotsOf(pass, head, tile);
    if (slots.begin < slots.end) body(head, slots);
  }
}
// Elements between two query rows of `logits`.
__device__ __forceinline__ size_t SlotStride(const CudaRowLookupPass& pass) {
  return size_t{SlotTiles(pass.lookup.num_coded)} * kRowTile;
}
// The number of states of a query row: one for each tile, and one for each head.
__device__ __forceinline__ size_t NumStates(const CudaRowLookupPass& pass) {
  return SlotTiles(pass.lookup.num_coded) + size_t{pass.lookup.codes.num_kv_heads};
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_CUH_
