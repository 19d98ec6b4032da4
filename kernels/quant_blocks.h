// Element types of the tensors in model files, including GGUF's blocks of quantised values, and the
// functions that read them.
//
//   Q8_0            32 values: f16 d, 32 int8                       d * q
//   Q4_0, Q5_0      32 values: f16 d, 4 or 5 bits                   d * (q - 8), d * (q - 16)
//   Q4_1, Q5_1      32 values: f16 d, f16 m, 4 or 5 bits            d * q + m
//   Q4_K, Q5_K      256 values in groups of 32: f16 d, f16 dmin, of each group 6 bits s and 6 bits
//                   m, 4 or 5 bits                                  (d * s) * q - dmin * m
//   Q6_K            256 values in groups of 16: int8 s of each, f16 d, 6 bits  (d * s) * (q - 32)
//   Q2_K            256 values in groups of 16: of each 4 bits s and 4 bits m, f16 d, f16 dmin, 2
//                   bits                                            (d * s) * q - dmin * m
//   Q3_K            256 values in groups of 16: 6 bits s of each, f16 d, 3 bits
//                                                                   (d * (s - 32)) * (q - 4)
//   IQ4_NL          32 values: f16 d, 4 bits                        d * kIq4Levels[q]
//   IQ4_XS          256 values in groups of 32: 6 bits s of each, f16 d, 4 bits
//                                                                   (d * (s - 32)) * kIq4Levels[q]
//   MXFP4           32 values: a byte e, 4 bits                     2^(e - 128) * kE2m1Levels[q]
//
// Source of the layouts: ggml-common.h and ggml-quants.c of github.com/ggml-org/ggml. MXFP4 is that
// of the OCP Microscaling Formats Specification 1.0 (5.1, E2M1 with a scale of E8M0), with both
// sides of the product doubled and halved, so that levels are whole numbers.
#ifndef LECTERN_KERNELS_QUANT_BLOCKS_H_
#define LECTERN_KERNELS_QUANT_BLOCKS_H_

#include <bit>
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
  kQ2_K = 11,
  kQ3_K = 12,
  kIQ4_NL = 13,
  kIQ4_XS = 14,
  kMXFP4 = 15,
};
inline constexpr size_t kNumTensorTypes = 16;

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

// The steps that the 16 codes of IQ4_NL and IQ4_XS, and those of MXFP4, stand for.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr int8_t kE2m1Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline constexpr size_t kBlockGroup = 32;  // values of a BlockGroup

// 32 values of a row in whole numbers. Value i is
//   (scale * parts[i / 16]) * steps[i] + min * min_parts[i / 16].
struct BlockGroup {
  float scale, min;  // an f16 each, but for MXFP4's scale: a power of two from 2^-128 to 2^127
  int parts[2];      // one for each 16 values; 1 where a block has one scale; else within int8
  int min_parts[2];  // 1 for Q4_1 and Q5_1, -63 .. 0 for Q4_K, Q5_K and Q2_K, else 0: no min
  int8_t steps[kBlockGroup];

  float Scale(size_t i) const { return scale * static_cast<float>(parts[i / 16]); }
  float Min(size_t i) const {
    return min_parts[i / 16] == 0 ? 0.0f : min * static_cast<float>(min_parts[i / 16]);
  }
  float Value(size_t i) const { return Scale(i) * static_cast<float>(steps[i]) + Min(i); }
};
// Reads values [32 * group, 32 * group + 32) of a row of blocks, which must be there. Not for plain
// values (asserted). `min` is 0 where the type has none.
BlockGroup ReadBlockGroup(TensorType type, const std::byte* row, size_t group);

// 2^(e - 128), the scale of MXFP4 that the byte `e` stands for.
inline float E8m0Scale(uint8_t e) {
  const uint32_t bits = e < 2 ? uint32_t{0x00200000} << e : (uint32_t{e} - 1) << 23;
  return std::bit_cast<float>(bits);
}

// out[r, c] = the value of rows at (r, c), for every type. This is the definition of a file's
// values, in ggml's order of float operations. Needs the same shape (asserted) and whole blocks.
void TensorToFloats(const TensorRows& rows, Rows<float> out);

}  // namespace lectern

#endif  // LECTERN_KERNELS_QUANT_BLOCKS_H_
