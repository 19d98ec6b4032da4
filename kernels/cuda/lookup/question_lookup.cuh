// The code that the kernels of question_lookup.h share, and how they are chosen by type, width and
// columns.
#ifndef LECTERN_KERNELS_CUDA_LOOKUP_QUESTION_LOOKUP_CUH_
#define LECTERN_KERNELS_CUDA_LOOKUP_QUESTION_LOOKUP_CUH_

#include "kernels/cuda/lookup/question_lookup.h"
#include "kernels/cuda/lookup/question_lookup_geometry.h"
#include "kernels/cuda/lookup/row_clusters.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace lectern {

using QuestionPass = CudaQuestionLookupPass;
constexpr float kNoQuestionMass = 1e-30f;  // as kNoMass of index/head_lookup.h

// All logits that a lane has: one branch for them, as most models have no cap.
template <uint32_t kCount>
__device__ __forceinline__ void SoftcapAll(const QuestionPass& pass, float (&logits)[kCount][4]) {
  const float cap = pass.lookup.softcap;
  if (!(cap > 0)) return;
#pragma unroll
  for (uint32_t n = 0; n < kCount; ++n) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) logits[n][i] = cap * tanhf(logits[n][i] / cap);
  }
}
// The known log mass of a column's query row; -inf: none, or no query row.
__device__ __forceinline__ float KnownOf(const QuestionPass& pass, uint32_t head, uint32_t column) {
  const CudaQuestionLookupArgs& args = pass.lookup;
  if (args.known_lse == nullptr || column >= args.num_chosen) return NegativeInfinity();
  return args.known_lse[size_t{head} * pass.num_queries + args.chosen[column]];
}
// The scores of a head's rows.
__device__ __forceinline__ float* ScoresOf(const QuestionPass& pass, uint32_t head) {
  return pass.scores + size_t{head} * pass.num_tiles * kRowTile;
}

// The mass of a row at a column, by its logit; the column's reference is times log2(e).
constexpr float kMostExponent = 80 * kLog2E;  // as in kernels/sign_logits.h
__device__ __forceinline__ float MassOf(float logit, float reference) {
  return exp2f(fminf(logit * kLog2E - reference, kMostExponent));
}
// The mass of a key of a cluster, by the logit of its centroid. `norm`: scaled, of the column's
// query.
__device__ __forceinline__ float KeyMass(const QuestionPass& pass, const ClusterKeys& keys,
                                         float logit, float norm, float reference) {
  const float cap = pass.lookup.softcap;
  float of_key = KeysLogit(pass.lookup.codes, logit, keys, norm);
  if (cap > 0) of_key = cap * tanhf(of_key / cap);
  return MassOf(of_key, reference);
}

// Rows that are refined, as their head counts them.
__device__ __forceinline__ const uint32_t* RefinedOf(const QuestionPass& pass, uint32_t head) {
  return pass.list.refined.rows + pass.refined_begin[head];
}
__device__ __forceinline__ uint32_t NumRefined(const QuestionPass& pass, uint32_t head) {
  return pass.refined_begin[head + 1] - pass.refined_begin[head];
}
// How many of a head's refined rows, which ascend, are below `row`.
__device__ __forceinline__ uint32_t RefinedBelow(const QuestionPass& pass, uint32_t head,
                                                 uint32_t row) {
  const uint32_t* const refined = RefinedOf(pass, head);
  uint32_t begin = 0, end = NumRefined(pass, head);
  while (begin < end) {
    const uint32_t middle = begin + (end - begin) / 2;
    if (refined[middle] < row) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// Kernel<T, kHeadDim, kColumns>::kFunction.
using QuestionFunction = void (*)(CudaQuestionLookupPass);
template <template <typename, uint32_t, uint32_t> class Kernel>
struct ForQuestion {
  static CudaStatus Run(CudaStreamHandle* stream, const CudaGrid& grid, const char* name,
                        const QuestionPass& pass) {
    const bool is_few = QuestionColumns(pass.lookup.num_chosen) == kFewRows;
    if (pass.lookup.queries.dtype == Dtype::kF16) {
      return is_few ? RunOf<f16, kFewRows>(stream, grid, name, pass)
                    : RunOf<f16, kManyRows>(stream, grid, name, pass);
    }
    return is_few ? RunOf<bf16, kFewRows>(stream, grid, name, pass)
                  : RunOf<bf16, kManyRows>(stream, grid, name, pass);
  }
  template <typename T, uint32_t kColumns>
  static CudaStatus RunOf(CudaStreamHandle* stream, const CudaGrid& grid, const char* name,
                          const QuestionPass& pass) {
    switch (TileWidth(pass.lookup.queries.head_dim)) {
      case 64:
        return Launch(stream, grid, name, Kernel<T, 64, kColumns>::kFunction, pass);
      case 128:
        return Launch(stream, grid, name, Kernel<T, 128, kColumns>::kFunction, pass);
      default:
        return Launch(stream, grid, name, Kernel<T, 256, kColumns>::kFunction, pass);
    }
  }
};

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_LOOKUP_QUESTION_LOOKUP_CUH_
