// The transform that row codes and queries share (index/row_codes.h): random signs, then a
// Walsh-Hadamard transform.
#ifndef LECTERN_KERNELS_HADAMARD_H_
#define LECTERN_KERNELS_HADAMARD_H_

#include "kernels/types.h"

namespace lectern {

struct SignedHadamardArgs {
  std::span<float> x;  // in/out [n], n a power of two
  std::span<const uint64_t>
      signs;  // >= n bits: where bit c % 64 of word c / 64 is set, -x_c counts
};
// x_c -> n^-1/2 sum_k (-1)^(number of bits that c and k share) ±x_k, by log2(n) rounds of sums and
// differences. Allocates nothing.
void SignedHadamardScalar(const SignedHadamardArgs& args);  // the definition
void SignedHadamard(const SignedHadamardArgs& args);        // the same, bit for bit

}  // namespace lectern

#endif  // LECTERN_KERNELS_HADAMARD_H_
