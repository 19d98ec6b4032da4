// Converts between float rows and stored rows of any dtype. Only FromFloatRows rounds. (Weights and
// inputs of integer products are rounded elsewhere: packed_rows.h, packed_matmul.h.) The functions
// cannot fail; matching shapes are asserted only, no alignment is asked for.
#ifndef LECTERN_KERNELS_CONVERT_H_
#define LECTERN_KERNELS_CONVERT_H_

#include "kernels/types.h"

namespace lectern {

// out[r, c] = the value stored at (r, c), exact for every dtype; q8: scale * int8.
void ToFloatRowsScalar(TypedRows rows, Rows<float> out);
void ToFloatRowsSimd(TypedRows rows, Rows<float> out);  // bit-identical

// Scale of a q8 block: its largest magnitude (`largest`, >= 0) / 127, rounded to f16. It is capped
// at the largest finite f16, also for infinity and NaN. 0 where `largest` / 127 is below half of
// the least f16 (2^-25): such a block becomes zeros.
inline f16 Q8Scale(float largest) {
  return ToF16(largest < 127 * 65504.0f ? largest / 127 : 65504.0f);
}

// Rounds rows[r, :] to `dtype` at out + r * RowBytes(dtype, num_cols), to nearest, ties to even;
// f32 is copied. f16 and bf16: too large values become infinity, NaN stays NaN.
//   q8: scale = Q8Scale(max|x|), int8 = nearest(x / scale) clamped to [-127, 127], all 0 where the
//   scale is 0; x / scale may exceed 127 because the scale is rounded. num_cols % 32 == 0
//   (asserted). The input must be finite: a block with NaN or infinity holds unspecified values.
void FromFloatRowsScalar(Rows<const float> rows, Dtype dtype, std::byte* out);
void FromFloatRowsSimd(Rows<const float> rows, Dtype dtype, std::byte* out);  // bit-identical

}  // namespace lectern

#endif  // LECTERN_KERNELS_CONVERT_H_
