// What host and device code of sign_logits.h agree on.
#ifndef LECTERN_KERNELS_CUDA_SIGN_LOGITS_GEOMETRY_H_
#define LECTERN_KERNELS_CUDA_SIGN_LOGITS_GEOMETRY_H_

#include <cstdint>

namespace lectern {

constexpr uint32_t kSignThreads = 128;
constexpr uint32_t kSignRowsPerThread = 4;  // a word of each byte plane
constexpr uint32_t kSignQueries = 4;        // query rows of a block: their sums stay in registers

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_SIGN_LOGITS_GEOMETRY_H_
