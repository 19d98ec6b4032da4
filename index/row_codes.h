// Row codes: what the lookup knows of a key without reading it. One bit per dimension of its
// residual (the row code), then two more (the fine code).
//
// Below the finest clusters a key k of cluster i is described by r = H A (k - C_i), where H is a
// fixed rotation that spreads outliers over all dimensions, and A the head's metric
// (index/query_metric.h; 1 if it has none, and below q stands for M q if it has one). Its row code
// has the signs s of r and one factor f, so that
//     q . k  ≈  q . C_i + f <H q, s>,              f = |r|^2 / <r, s>
// (the estimator of RaBitQ, arXiv:2405.12497, applied to residuals of attention keys). Its fine
// code has the rest of a number of three bits per dimension, u = s (m + 1/2) with m in 0 … 3, and
// the factor that goes with u instead of s (as in the extension of RaBitQ, arXiv:2409.09913). With
// 64 dimensions its error is about a quarter of the row code's.
// Rows are chosen one by one: row codes decide whose fine codes to read, fine codes decide which
// rows to read. Rows that are not read keep an estimated mass of their own.
#ifndef LECTERN_INDEX_ROW_CODES_H_
#define LECTERN_INDEX_ROW_CODES_H_

#include <array>
#include <vector>

#include "kernels/sign_logits.h"
#include "kernels/types.h"

namespace lectern {

// Bytes of a row code: the plane of signs (a set bit is positive; kernels/sign_logits.h), then the
// factor. Factors are stored times sqrt(head_dim), in 8 bits: an f16 without its sign and its last
// 7 bits, so 5 bits of exponent and 3 of mantissa.
constexpr size_t RowCodeBytes(size_t head_dim) { return PlaneBytes(head_dim) + 1; }
// Bytes of a fine code: the planes of bit 0 and bit 1 of m, then the factor.
constexpr size_t FineCodeBytes(size_t head_dim) { return 2 * PlaneBytes(head_dim) + 1; }

// Applies H in place: random signs and a fast Hadamard transform over the first p dimensions, then
// again over the last p, where p is the largest power of two <= d. Two overlapping rounds mix all
// dimensions although a Hadamard transform needs a power of two. Orthogonal; part of the format
// (FORMAT.md).
void Rotate(std::span<float> vector);
// The random signs, for implementations on a device: bit c % 32 of word i * ((head_dim + 31) / 32)
// + c / 32 is set where round i (0 or 1) negates its dimension c, counted from the first that the
// round transforms.
std::vector<uint32_t> RotationSigns(size_t head_dim);

// Computes the codes of a key's residual [d]: the key less its stored centroid, in the head's
// metric if it has one (index/query_metric.h). Overwrites the residual and all RowCodeBytes and
// FineCodeBytes of the codes. A residual of 0 gives factors of 0; stored factors above 61440 become
// 61440, also those of a residual that is not finite.
void EncodeResidual(std::span<float> residual, std::byte* row_code, std::byte* fine_code);
// Computes the codes of a key [d] against its stored centroid, without a metric.
void EncodeRow(std::span<const float> key, std::span<const float> centroid, std::byte* row_code,
               std::byte* fine_code);

// Factors of the approximations of a rotated residual: RowFactor * s, where s are the signs; or,
// closer, FineFactor * (4 s + p + 2 p'), where p and p' are the planes of m after MakeFinePlanes.
float RowFactor(const std::byte* row_code, size_t head_dim);
// RowFactor of each of factors.size() codes that lie one after the other.
void RowFactors(const std::byte* row_codes, size_t head_dim, std::span<float> factors);
float FineFactor(const std::byte* fine_code, size_t head_dim);
// Turns the planes of bit 0 and bit 1 of m into p and p', in place. All three planes have the same
// size: that of one row, or of many.
void MakeFinePlanes(std::span<const std::byte> signs, std::span<std::byte> low,
                    std::span<std::byte> high);

// Bounds that codes prove. A residual r whose product with a vector u is |r|^2 / f satisfies
//     q . r  <=  (f <q, u> + f |u| |q|) / 2
// for every q, whatever the length of r (which is at most f |u|): r lies on a sphere through 0 with
// diameter f u, and the right side is the largest product of q with a point of it. Derived here,
// not in the papers; u is the signs or the numbers of three bits.
// f is taken as large as it can have been before it was rounded. Where it was cut off, times_norm
// is infinite and times_u is 0.
struct ResidualBound {
  float times_norm;  // f |u| / 2, the factor of |q|
  float times_u;     // f / 2 for the signs; f / 4 for 4 s + p + 2 p', which is 2 u
};
ResidualBound RowBound(const std::byte* row_code, size_t head_dim);
ResidualBound FineBound(const std::byte* fine_code, size_t head_dim);

}  // namespace lectern

#endif  // LECTERN_INDEX_ROW_CODES_H_
