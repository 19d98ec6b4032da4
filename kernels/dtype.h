// Element types of stored numbers and the bytes that a row of them takes. Valid C++17, because
// device code includes it too.
#ifndef LECTERN_KERNELS_DTYPE_H_
#define LECTERN_KERNELS_DTYPE_H_

#include <cstddef>
#include <cstdint>

namespace lectern {

// IEEE binary16 and bfloat16 as stored. Arithmetic happens in float.
struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

// Element type of weights and of stored keys and values. On disk: never renumber.
//   q8: blocks of 32 elements, an f16 scale then 32 int8 (34 bytes); num_cols % 32 == 0.
enum class Dtype : uint8_t { kF32 = 0, kF16 = 1, kBf16 = 2, kQ8 = 3 };

// Elements of a q8 block that share one scale. The layout is that of ggml's q8_0.
inline constexpr size_t kQ8Block = 32;

// Bytes of a row of `num_cols` elements; for q8, columns past the last whole block do not count. 0
// for a number that is no Dtype.
constexpr size_t RowBytes(Dtype dtype, size_t num_cols) {
  switch (dtype) {
    case Dtype::kF32: return num_cols * 4;
    case Dtype::kF16:
    case Dtype::kBf16: return num_cols * 2;
    case Dtype::kQ8: return num_cols / kQ8Block * (kQ8Block + 2);
  }
  return 0;
}

}  // namespace lectern

#endif  // LECTERN_KERNELS_DTYPE_H_
