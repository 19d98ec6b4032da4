// One bit per dimension of a key's residual: which rows to read.
//
// Below the finest clusters a key k of cluster i is known by r = H (k - C_i), H a fixed rotation,
// as signs s = sign(r) / sqrt(d) and one factor f = |r|^2 / <r, s>, so that
//     q . k  ≈  q . C_i + f <H q, s>
// (the estimator of RaBitQ, arXiv:2405.12497, applied to residuals of attention keys). Rows can
// then be chosen one by one, and what is not read keeps an estimated mass of its own.
#ifndef LECTERN_INDEX_ROW_CODES_H_
#define LECTERN_INDEX_ROW_CODES_H_

#include "kernels/types.h"

namespace lectern {

// ceil(d / 8) bytes of signs (bit c % 8 of byte c / 8 set: positive), then f as f16.
constexpr size_t RowCodeBytes(size_t head_dim) { return (head_dim + 7) / 8 + sizeof(f16); }

// H, in place: random signs and a fast Hadamard transform over the first p dimensions, then again
// over the last p, p the largest power of two <= d. Orthogonal; part of the format (FORMAT.md).
void Rotate(std::span<float> vector);

// Code of a key [d] against its stored centroid. A residual of 0 gives f = 0.
void EncodeRow(std::span<const float> key, std::span<const float> centroid, std::byte* code);

// out[t] = f_t s_t for packed codes: a stand-in for the rotated residual. out [n, d].
void DecodeRows(const std::byte* codes, Rows<float> out);

}  // namespace lectern

#endif  // LECTERN_INDEX_ROW_CODES_H_
