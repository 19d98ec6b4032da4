// Between float rows and stored rows. Rounding happens here and nowhere else.
#ifndef LECTERN_KERNELS_CONVERT_H_
#define LECTERN_KERNELS_CONVERT_H_

#include "kernels/types.h"

namespace lectern {

// out[r, c] = the value stored at (r, c). Exact for f32, f16, bf16; q8: scale * int8.
void ToFloatRowsScalar(TypedRows rows, Rows<float> out);
void ToFloatRowsSimd(TypedRows rows, Rows<float> out);  // bit-identical

// Rounds rows[r, :] to `dtype` at out + r * RowBytes(dtype, num_cols). To nearest, ties to even.
//   q8: scale = f16(max|x| / 127), int8 = nearest(x / scale) clamped to [-127, 127]; all 0: scale 0.
void FromFloatRowsScalar(Rows<const float> rows, Dtype dtype, std::byte* out);
void FromFloatRowsSimd(Rows<const float> rows, Dtype dtype, std::byte* out);  // bit-identical

}  // namespace lectern

#endif  // LECTERN_KERNELS_CONVERT_H_
