// Inner products of query rows with vectors of signs, which row codes of one and of three bits need
// (index/row_codes.h).
//
// A vector s of signs has one bit per dimension; a set bit is +1. For every four dimensions a query
// has a table with the 16 sums of ±q that four bits can stand for, rounded to 6 bits (less than
// that above 592 dimensions) with one step size for the whole query, so that
//     <q, s>  ≈  step * sum_g table_g[bits of group g] + offset.
// Rounding is off by at most half a step per group, about a fiftieth of the error that one bit per
// dimension has anyway. The sum is one of integers, so all backends find the same. The idea is the
// fast scan of product quantization (André, Kermarrec, Le Scouarnec, VLDB 2015; FAISS).
#ifndef LECTERN_KERNELS_SIGN_LOGITS_H_
#define LECTERN_KERNELS_SIGN_LOGITS_H_

#include <array>

#include "kernels/types.h"

namespace lectern {

// Bytes of a plane, the bits of one vector: dimension c is bit c % 8 of byte c / 8.
constexpr size_t PlaneBytes(size_t dim) { return (dim + 7) / 8; }

// --- queries ---

// Table entry e of a query stands for step * e plus its group's share of `offset`.
struct SignScale {
  float step, offset;
};
constexpr size_t SignTableBytes(size_t dim) { return PlaneBytes(dim) * 32; }  // of one query row
// Makes the tables of R query rows: [R][SignTableBytes(dim)], for every byte of a plane two tables
// of 16 entries, that of the low four bits first. Bits past `dim` add nothing. scales [R]. Sizes of
// both spans are asserted. Queries must be finite; one of zeros gets a step of 1.
void MakeSignTables(Rows<const float> queries, std::span<uint8_t> tables,
                    std::span<SignScale> scales);

// The second step of MakeSignTables, once the scales are known.
inline constexpr size_t kSignGroup = 4;  // dimensions that share a table
struct FillSignTablesArgs {
  Rows<const float> queries;          // [R, dim]
  std::span<const SignScale> scales;  // [R]; steps > 0, for which no entry exceeds 255
  std::span<uint8_t> tables;          // out [R][SignTableBytes(dim)]
};
void FillSignTablesScalar(const FillSignTablesArgs& args);  // the definition
void FillSignTables(const FillSignTablesArgs& args);        // the same

// --- signs ---

// Planes of 32 rows lie together byte by byte, packed[row / 32][byte][row % 32], so that one vector
// load gets the same byte of 32 rows.
inline constexpr size_t kSignBlock = 32;
constexpr size_t PackedSignBytes(size_t num_rows, size_t plane_bytes) {
  return (num_rows + kSignBlock - 1) / kSignBlock * kSignBlock * plane_bytes;
}
struct PackSignsArgs {
  const std::byte* planes;  // of the first row; the others follow `stride` bytes apart
  size_t stride;
  size_t num_rows;
  size_t plane_bytes;
  std::byte* packed;  // of >= PackedSignBytes(num_rows, plane_bytes) bytes
};
// Bytes of `packed` for rows past the last are not written.
void PackSignsScalar(const PackSignsArgs& args);  // the definition
void PackSigns(const PackSignsArgs& args);        // the same

// --- logits ---

// Packed planes: the signs s alone, the last two nullptr; or s, p and p' of numbers of three bits,
// whose value is 4 s + p + 2 p', where each set bit counts as 1 and each other bit as -1.
using SignPlanes = std::array<const std::byte*, 3>;
constexpr bool IsOneBit(const SignPlanes& planes) { return planes[1] == nullptr; }

struct AddSignLogitsArgs {
  std::span<const uint8_t> tables;    // [R][SignTableBytes]
  std::span<const SignScale> scales;  // [R]
  size_t plane_bytes;
  SignPlanes planes;
  std::span<const float> factors;  // [n], as many as logits has columns
  Rows<float> logits;              // in/out [R, n]: += factors_t * <q_r, s_t>, or * <q_r, number_t>
};
// Allocates nothing and reads no byte of `planes` past the last block of 32 rows.
void AddSignLogitsScalar(const AddSignLogitsArgs& args);  // the definition
// Within 1e-6 * |factors_t| * sum|q_r| of it (times 7 for numbers of three bits).
void AddSignLogitsSimd(const AddSignLogitsArgs& args);

// AddSignLogits followed by the exponentials and sums that the lookup needs, in one pass: no step
// goes through memory.
struct SignMassesArgs {
  AddSignLogitsArgs codes;              // logits: -> exp(softcapped sum - reference_r)
  // [R], finite; a sum more than 80 above it counts as 80, to stay finite.
  std::span<const float> reference;
  float softcap = 0;                    // of the sums (kernels/softcap.h); 0: none
  std::span<const float> weights = {};  // [R], >= 0; or empty: no scores are wanted
  std::span<float> scores = {};  // [n] in/out, where there are weights: += sum_r weights_r mass_rt
  // Instead of weights (never both), with three planes: the difference between the masses by three
  // bits and by the signs alone.
  std::span<const float> sign_factors = {};  // [n]: factors of the signs; or empty: not wanted
  Rows<float> changes = {};  // out [R, n]: mass - mass by signs; no rows if it is not wanted
};
// The arguments for adding the products with the signs alone to `changes`.
inline AddSignLogitsArgs SignsAlone(const SignMassesArgs& args) {
  AddSignLogitsArgs signs = args.codes;
  signs.planes = {args.codes.planes[0]};
  signs.factors = args.sign_factors;
  signs.logits = args.changes;
  return signs;
}
void SignMassesScalar(const SignMassesArgs& args);  // the definition
// Within 1e-5 relative of the exponentials of what AddSignLogitsSimd makes, and 1e-30.
void SignMassesSimd(const SignMassesArgs& args);

}  // namespace lectern

#endif  // LECTERN_KERNELS_SIGN_LOGITS_H_
