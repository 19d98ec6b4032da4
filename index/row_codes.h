// What is known of a key without reading it: one bit per dimension of its residual, then two more.
//
// Below the finest clusters a key k of cluster i is known by r = H A (k - C_i), H a fixed rotation and
// A the head's metric (index/query_metric.h; 1 where it has none). Where q stands below it is M q then.
// Its row code has the signs s of r and one factor f, so that
//     q . k  ≈  q . C_i + f <H q, s>,              f = |r|^2 / <r, s>
// (the estimator of RaBitQ, arXiv:2405.12497, applied to residuals of attention keys). Its fine
// code has the rest of a number of three bits per dimension, u = s (m + 1/2) with m in 0 … 3, and
// the factor that goes with u instead of s (as the extension of RaBitQ, arXiv:2409.09913): with 64
// dimensions its error is about a quarter of the row code's. Rows are chosen one by one: by their
// row codes whose fine codes to read, by those which rows to read; and what is not read keeps an
// estimated mass of its own.
#ifndef LECTERN_INDEX_ROW_CODES_H_
#define LECTERN_INDEX_ROW_CODES_H_

#include <array>
#include <vector>

#include "kernels/sign_logits.h"
#include "kernels/types.h"

namespace lectern {

// Factors have 8 bits: an f16 without its sign and the last 7 bits, that is 5 bits of exponent and
// 3 of mantissa. Planes: kernels/sign_logits.h. The plane of signs (set: positive), then the
// factor.
constexpr size_t RowCodeBytes(size_t head_dim) { return PlaneBytes(head_dim) + 1; }
// The planes of bit 0 and bit 1 of m, then the factor.
constexpr size_t FineCodeBytes(size_t head_dim) { return 2 * PlaneBytes(head_dim) + 1; }

// H, in place: random signs and a fast Hadamard transform over the first p dimensions, then again
// over the last p, p the largest power of two <= d. Orthogonal; part of the format (FORMAT.md).
void Rotate(std::span<float> vector);
// The random signs, for other implementations: bit c % 32 of word i * ((head_dim + 31) / 32) +
// c / 32 is set where round i (0 or 1) negates the dimension c of those that it transforms.
std::vector<uint32_t> RotationSigns(size_t head_dim);

// Codes of a key's residual [d]: the key less its stored centroid, by the head's metric where it has
// one (index/query_metric.h). Overwrites the residual. A residual of 0 gives factors of 0.
void EncodeResidual(std::span<float> residual, std::byte* row_code, std::byte* fine_code);
// Codes of a key [d] against its stored centroid, without a metric.
void EncodeRow(std::span<const float> key, std::span<const float> centroid, std::byte* row_code,
               std::byte* fine_code);

// What stands in for the rotated residual of a row: RowFactor * s, s its plane of signs; closer,
// FineFactor * (4 s + p + 2 p'), p and p' its planes of m after MakeFinePlanes.
float RowFactor(const std::byte* row_code, size_t head_dim);
// Of codes one after the other.
void RowFactors(const std::byte* row_codes, size_t head_dim, std::span<float> factors);
float FineFactor(const std::byte* fine_code, size_t head_dim);
// Planes of bit 0 and bit 1 of m -> p, p'. All three of the same size: of a row, or of many.
void MakeFinePlanes(std::span<const std::byte> signs, std::span<std::byte> low,
                    std::span<std::byte> high);

// What codes prove. A residual r whose product with a vector u is |r|^2 / f has
//     q . r  <=  (f <q, u> + f |u| |q|) / 2
// for every q, whatever its length (which is at most f |u|): the part of q along u and the part
// across it meet r at their best together. Ours; for u the signs or the numbers of three bits.
// These are f |u| / 2 and f / 2 for a factor as large as it can have been before it was rounded;
// infinity where it was cut off. `times_u`: f / 2 as a factor of signs, or of 4 s + p + 2 p'.
struct ResidualBound {
  float times_norm;  // of |q|
  float times_u;
};
ResidualBound RowBound(const std::byte* row_code, size_t head_dim);
ResidualBound FineBound(const std::byte* fine_code, size_t head_dim);

}  // namespace lectern

#endif  // LECTERN_INDEX_ROW_CODES_H_
