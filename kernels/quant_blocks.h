// Element types of the tensors in model files, including GGUF's blocks of quantised values, and the
// functions that read them.
//
//   Q8_0            32 values: f16 d, 32 int8                       d * q
//   Q4_0, Q5_0      32 values: f16 d, 4 or 5 bits                   d * (q - 8), d * (q - 16)
//   Q4_1, Q5_1      32 values: f16 d, f16 m, 4 or 5 bits            d * q + m
//   Q4_K, Q5_K      256 values in groups of 32: f16 d, f16 dmin, of each group 6 bits s and 6 bits
//                   m, 4 or 5 bits                                  (d * s) * q - dmin * m
//   Q6_K            256 values in groups of 16: int8 s of each, f16 d, 6 bits  (d * s) * (q - 32)
//
// Source of the layouts: ggml-common.h and ggml-quants.c of github.com/ggml-org/ggml.
#ifndef LECTERN_KERNELS_QUANT_BLOCKS_H_
#define LECTERN_KERNELS_QUANT_BLOCKS_H_

#include <optional>

#include "kernels/types.h"

namespace lectern {

// Part of fingerprints (engine/model/weights/weights.h): never renumber.
enum class TensorType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBf16 = 2,
  kQ8_0 = 3,
  kQ4_0 = 4,
  kQ4_1 = 5,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ4_K = 8,
  kQ5_K = 9,
  kQ6_K = 10,
};
inline constexpr size_t kNumTensorTypes = 11;

// These three take types of the enumeration only, which is not checked.
const char* TensorTypeName(TensorType type);  // "F32", "Q4_K"; lives forever
size_t BlockValues(TensorType type);          // values of a block: 1, 32 or 256
size_t BlockBytes(TensorType type);           // bytes of a block
// The dtype of plain values; nothing for types of blocks.
constexpr std::optional<Dtype> PlainDtype(TensorType type) {
  if (type == TensorType::kF32) return Dtype::kF32;
  if (type == TensorType::kF16) return Dtype::kF16;
  if (type == TensorType::kBf16) return Dtype::kBf16;
  return std::nullopt;
}

// Borrowed rows of a tensor. A row is whole blocks; no alignment is promised.
struct TensorRows {
  const std::byte* data = nullptr;
  TensorType type = TensorType::kF32;
  size_t num_rows = 0;
  size_t num_cols = 0;

  size_t row_bytes() const { return num_cols / BlockValues(type) * BlockBytes(type); }
  const std::byte* row(size_t r) const { return data + r * row_bytes(); }
  // A view of rows [begin, end), which must lie within num_rows (asserted).
  TensorRows Slice(size_t begin, size_t end) const {
    assert(begin <= end && end <= num_rows);
    return {data + begin * row_bytes(), type, end - begin, num_cols};
  }
};

inline constexpr size_t kBlockGroup = 32;  // values of a BlockGroup

// 32 values of a row in whole numbers. Value i is
//   (scale * parts[i / 16]) * steps[i] + min * min_part.
struct BlockGroup {
  f16 scale, min;
  int parts[2];  // one for each 16 values; 1 where a block has one scale; else within int8
  int min_part;  // 1 for Q4_1 and Q5_1, -63 .. 0 for Q4_K and Q5_K, else 0: no min
  int8_t steps[kBlockGroup];

  float Scale(size_t i) const { return ToFloat(scale) * static_cast<float>(parts[i / 16]); }
  float Min() const { return min_part == 0 ? 0.0f : ToFloat(min) * static_cast<float>(min_part); }
  float Value(size_t i) const { return Scale(i) * static_cast<float>(steps[i]) + Min(); }
};
// Reads values [32 * group, 32 * group + 32) of a row of blocks, which must be there. Not for plain
// values (asserted). `min` is 0 where the type has none.
BlockGroup ReadBlockGroup(TensorType type, const std::byte* row, size_t group);

// out[r, c] = the value of rows at (r, c), for every type. This is the definition of a file's
// values, in ggml's order of float operations. Needs the same shape (asserted) and whole blocks.
void TensorToFloats(const TensorRows& rows, Rows<float> out);

}  // namespace lectern

#endif  // LECTERN_KERNELS_QUANT_BLOCKS_H_
