// Reads one element of a stored row as float, for scalar code. Rows promise no alignment, hence the
// memcpy.
#ifndef LECTERN_KERNELS_ELEMENT_H_
#define LECTERN_KERNELS_ELEMENT_H_

#include <cstring>

#include "kernels/types.h"

namespace lectern {

// The T whose bytes begin at `from`, at any alignment.
template <typename T>
T LoadUnaligned(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// The value at column `col`, which nobody checks, of a row stored as `dtype`; 0 for a number that
// is no Dtype.
inline float LoadElement(const std::byte* row, Dtype dtype, size_t col) {
  switch (dtype) {
    case Dtype::kF32: return LoadUnaligned<float>(row + 4 * col);
    case Dtype::kF16: return ToFloat(LoadUnaligned<f16>(row + 2 * col));
    case Dtype::kBf16: return ToFloat(LoadUnaligned<bf16>(row + 2 * col));
    case Dtype::kQ8: {
      const std::byte* block = row + col / kQ8Block * (kQ8Block + 2);
      const int8_t quantized = LoadUnaligned<int8_t>(block + 2 + col % kQ8Block);
      return ToFloat(LoadUnaligned<f16>(block)) * static_cast<float>(quantized);
    }
  }
  return 0;
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_ELEMENT_H_
