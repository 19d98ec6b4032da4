// Inner products of query rows with vectors of signs: what row codes of one and of three bits need.
//
// A vector s of signs (one bit per dimension; set: +1) meets a query in tables: for every four
// dimensions the 16 sums of ±q that their bits can stand for, rounded to 6 bits with one step for
// the query, so that
//     <q, s>  ≈  step * sum_g table_g[bits of group g] + offset.
// The rounding is off by half a step per group, about a fiftieth of what signs leave unknown of a
// vector, and the sum is one of integers: all backends find the same. The idea is that of the fast
// scan of product quantization (André, Kermarrec, Le Scouarnec, VLDB 2015; FAISS).
#ifndef LECTERN_KERNELS_SIGN_LOGITS_H_
#define LECTERN_KERNELS_SIGN_LOGITS_H_

#include <array>

#include "kernels/types.h"

namespace lectern {

// Bytes of a plane: one bit per dimension, bit c % 8 of byte c / 8.
constexpr size_t PlaneBytes(size_t dim) { return (dim + 7) / 8; }

// --- queries ---

// A table entry e of a query stands for step * e + its group's share of `offset`.
struct SignScale {
  float step, offset;
};
constexpr size_t SignTableBytes(size_t dim) { return PlaneBytes(dim) * 32; }  // of one query row
// tables [R][SignTableBytes(dim)]: two groups of 16 for every byte of a plane, low bits first.
// Bits past `dim` count nothing. scales [R]. Queries finite.
void MakeSignTables(Rows<const float> queries, std::span<uint8_t> tables,
                    std::span<SignScale> scales);

// --- signs ---

// Planes of 32 rows are kept together, byte by byte: packed[row / 32][byte][row % 32].
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
void PackSignsScalar(const PackSignsArgs& args);  // the definition
void PackSigns(const PackSignsArgs& args);        // the same

// --- logits ---

// Packed: signs s alone, or s, p, p' of a number of three bits: 4 s + p + 2 p'.
using SignPlanes = std::array<const std::byte*, 3>;
constexpr bool IsOneBit(const SignPlanes& planes) { return planes[1] == nullptr; }

struct AddSignLogitsArgs {
  std::span<const uint8_t> tables;    // [R][SignTableBytes]
  std::span<const SignScale> scales;  // [R]
  size_t plane_bytes;
  SignPlanes planes;
  std::span<const float> factors;  // [n]
  Rows<float> logits;              // in/out [R, n]: += factors_t * <q_r, s_t>, or of the number
};
// Nothing is allocated; no byte of `planes` past the last block is read.
void AddSignLogitsScalar(const AddSignLogitsArgs& args);  // the definition
void AddSignLogitsSimd(const AddSignLogitsArgs& args);    // within 1e-6 of what it adds

// What the lookup makes of them, without a way through memory for each step.
struct SignMassesArgs {
  AddSignLogitsArgs codes;              // logits: -> exp(softcapped sum - reference_r)
  std::span<const float> reference;     // [R], finite; where a sum lies 80 above it, 80 are taken
  float softcap = 0;                    // of the sums (kernels/softcap.h); 0: none
  std::span<const float> weights = {};  // [R], >= 0, or none
  std::span<float> scores = {};  // [n] in/out, where there are weights: += sum_r weights_r mass_rt
  // Instead of weights, with three planes: how far the masses are from those of the signs alone.
  std::span<const float> sign_factors = {};  // [n] of these, or none
  Rows<float> changes = {};                  // out [R, n]: mass - mass by signs
};
inline AddSignLogitsArgs SignsAlone(const SignMassesArgs& args) {  // from logits in `changes`
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
