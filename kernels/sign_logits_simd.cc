#include "kernels/sign_logits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sign_logits_simd.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "kernels/centroid_scores.h"
#include "kernels/softcap.h"

#ifndef LECTERN_SIGN_LOGITS_INCLUDES
#define LECTERN_SIGN_LOGITS_INCLUDES
#include <algorithm>
#include <cstring>
#endif

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void FillSignTables(const FillSignTablesArgs& args) { FillSignTablesScalar(args); }
void AddSignLogits(const AddSignLogitsArgs& args) { AddSignLogitsScalar(args); }
void SignMasses(const SignMassesArgs& args) { SignMassesScalar(args); }
void PackSigns(const PackSignsArgs& args) { PackSignsScalar(args); }
#else
namespace hn = hwy::HWY_NAMESPACE;

using ByteTag = hn::CappedTag<uint8_t, kSignBlock>;  // rows that are handled at a time
using SumTag = hn::Repartition<uint16_t, ByteTag>;
using LogitTag = hn::Repartition<float, ByteTag>;
using Sums = hn::Vec<SumTag>;
using Logits = hn::Vec<LogitTag>;
constexpr size_t kByteLanes = HWY_MIN(HWY_LANES(uint8_t), kSignBlock);
constexpr size_t kQuarter = kByteLanes / 4;  // rows whose logits are a vector

// FillSignTables for this instruction set: the entries of a table side by side, with the additions
// of the definition in its order, so that the bytes are the same.
void FillSignTables(const FillSignTablesArgs& args) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  constexpr size_t kLanes = HWY_MIN(HWY_LANES(float), 16), kParts = 16 / kLanes;
  const size_t dim = args.queries.num_cols;
  // All bits of the lanes whose entry has bit i set.
  hn::Vec<decltype(d)> holds[kSignGroup][kParts];
  for (size_t i = 0; i < kSignGroup; ++i) {
    const auto bit = hn::Set(du, uint32_t{1} << i);
    for (size_t part = 0; part < kParts; ++part) {
      const auto entry = hn::Iota(du, static_cast<uint32_t>(part * kLanes));
      holds[i][part] = hn::BitCast(d, hn::VecFromMask(du, hn::Eq(hn::And(entry, bit), bit)));
    }
  }
  const auto zero = hn::Zero(d), half = hn::Set(d, 0.5f);
  for (size_t r = 0; r < args.queries.num_rows; ++r) {
    const auto step = hn::Set(d, args.scales[r].step);
    uint8_t* table = args.tables.data() + r * SignTableBytes(dim);
    for (size_t g = 0; g < 2 * PlaneBytes(dim); ++g, table += 16) {
      const size_t begin = g * kSignGroup;
      float padded[kSignGroup] = {};
      const float* q = args.queries[r] + begin;
      if (begin + kSignGroup > dim) {
        for (size_t c = begin; c < dim; ++c) padded[c - begin] = args.queries[r][c];
        q = padded;
      }
      hn::Vec<decltype(d)> changes[kSignGroup];
      HWY_UNROLL(4)
      for (size_t i = 0; i < kSignGroup; ++i) changes[i] = hn::Set(d, 2 * q[i]);
      auto least = zero;
      HWY_UNROLL(4)
      for (size_t i = 0; i < kSignGroup; ++i) {
        least = hn::Add(least, hn::Max(zero, hn::Neg(changes[i])));
      }
      HWY_UNROLL(4)
      for (size_t part = 0; part < kParts; ++part) {
        auto sum = least;
        HWY_UNROLL(4)
        for (size_t i = 0; i < kSignGroup; ++i) {
          sum = hn::Add(sum, hn::And(holds[i][part], changes[i]));
        }
        const auto entries = hn::Add(hn::Div(hn::Max(zero, sum), step), half);
        hn::StoreU(hn::U8FromU32(hn::BitCast(du, hn::ConvertTo(di, entries))), d8,
                   table + part * kLanes);
      }
    }
  }
}

// Adds up the table entries of one plane for kByteLanes rows and kQueries queries; `even` gets the
// sums of rows 0, 2, …, `odd` those of rows 1, 3, …. Four entries (two bytes of a plane) are added
// in a byte, which they fit (kLargestEntry), before the sum is widened to 16 bits.
template <size_t kQueries>
HWY_INLINE void SumTables(const std::byte* plane, size_t plane_bytes, const uint8_t* tables,
                          Sums (&even)[kQueries], Sums (&odd)[kQueries]) {
  const ByteTag d8;
  const SumTag d16;
  const auto low_bits = hn::Set(d8, uint8_t{15});
  const size_t table_bytes = plane_bytes * 32;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(plane);
  const auto look_up = [&](const uint8_t* table, auto bits) {
    return hn::TableLookupBytes(hn::LoadDup128(d8, table), bits);
  };
  const auto high_of = [&](auto byte) {
    return hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, byte))), low_bits);
  };
  HWY_UNROLL(4)
  for (size_t q = 0; q < kQueries; ++q) even[q] = odd[q] = hn::Zero(d16);
  // Two rows share each lane of 16 bits. The whole lane is added to `even`, its upper byte to
  // `odd`; the last loop takes the odd row's part out of `even`. This saves a mask for every
  // addition.
  const auto add = [&](size_t q, auto sum) {
    even[q] = hn::Add(even[q], hn::BitCast(d16, sum));
    odd[q] = hn::Add(odd[q], hn::ShiftRight<8>(hn::BitCast(d16, sum)));
  };
  size_t b = 0;
  for (; b + 2 <= plane_bytes; b += 2) {
    const auto first = hn::LoadU(d8, bytes + b * kSignBlock);
    const auto second = hn::LoadU(d8, bytes + (b + 1) * kSignBlock);
    const auto low0 = hn::And(first, low_bits), low1 = hn::And(second, low_bits);
    const auto high0 = high_of(first), high1 = high_of(second);
    HWY_UNROLL(4)
    for (size_t q = 0; q < kQueries; ++q) {
      const uint8_t* const table = tables + q * table_bytes + b * 32;
      add(q, hn::Add(hn::Add(look_up(table, low0), look_up(table + 16, high0)),
                     hn::Add(look_up(table + 32, low1), look_up(table + 48, high1))));
    }
  }
  if (b < plane_bytes) {
    const auto last = hn::LoadU(d8, bytes + b * kSignBlock);
    const auto low = hn::And(last, low_bits), high = high_of(last);
    HWY_UNROLL(4)
    for (size_t q = 0; q < kQueries; ++q) {
      const uint8_t* const table = tables + q * table_bytes + b * 32;
      add(q, hn::Add(look_up(table, low), look_up(table + 16, high)));
    }
  }
  HWY_UNROLL(4)
  for (size_t q = 0; q < kQueries; ++q) even[q] = hn::Sub(even[q], hn::ShiftLeft<8>(odd[q]));
}

// Turns the sums of the signs of kByteLanes rows (from `place` on) into sums of their numbers of
// three bits, 4 s + p + 2 p'.
template <size_t kQueries>
HWY_INLINE void AddFinePlanes(const AddSignLogitsArgs& args, size_t place, const uint8_t* tables,
                              Sums (&even)[kQueries], Sums (&odd)[kQueries]) {
  Sums more_even[kQueries], more_odd[kQueries];
  SumTables(args.planes[1] + place, args.plane_bytes, tables, more_even, more_odd);
  for (size_t q = 0; q < kQueries; ++q) {
    even[q] = hn::Add(hn::ShiftLeft<2>(even[q]), more_even[q]);
    odd[q] = hn::Add(hn::ShiftLeft<2>(odd[q]), more_odd[q]);
  }
  SumTables(args.planes[2] + place, args.plane_bytes, tables, more_even, more_odd);
  for (size_t q = 0; q < kQueries; ++q) {
    even[q] = hn::Add(even[q], hn::ShiftLeft<1>(more_even[q]));
    odd[q] = hn::Add(odd[q], hn::ShiftLeft<1>(more_odd[q]));
  }
}

// Calls body(first row, sums of kQuarter rows) for each of the four quarters of kByteLanes rows.
template <class Body>
HWY_INLINE void ForEachQuarter(Sums even, Sums odd, const Body& body) {
  const SumTag d16;
  const hn::Half<SumTag> half;
  const hn::RebindToSigned<LogitTag> d32;
  const LogitTag d;
  const auto quarter = [&](size_t row, auto sums) {
    body(row, hn::ConvertTo(d, hn::PromoteTo(d32, sums)));
  };
  // Interleaving works within 128-bit blocks: the first vector gets the first 8 of each 16 rows,
  // the second the last 8.
  const Sums first = hn::InterleaveLower(d16, even, odd);
  const Sums last = hn::InterleaveUpper(d16, even, odd);
  constexpr size_t kUpper = kByteLanes == 32 ? 16 : kQuarter;  // rows of the upper halves
  quarter(0, hn::LowerHalf(half, first));
  quarter(8, hn::LowerHalf(half, last));
  quarter(kUpper, hn::UpperHalf(half, first));
  quarter(8 + kUpper, hn::UpperHalf(half, last));
}

// exp(x) for x in [-87, 80], within 1e-5 relative; x outside counts as the nearest end. FastExp
// (fast_exp-inl.h) with a polynomial of degree 4: the coefficients of the best one for |f| <= ln(2)
// / 2.
HWY_INLINE Logits CoarseExp(Logits x) {
  const LogitTag d;
  const hn::RebindToSigned<LogitTag> di;
  x = hn::Min(hn::Max(x, hn::Set(d, -87.0f)), hn::Set(d, 80.0f));
  const Logits rounder = hn::Set(d, 0x1.8p23f);
  const Logits rounded = hn::MulAdd(x, hn::Set(d, 1.44269504f), rounder);
  const Logits f = hn::NegMulAdd(hn::Sub(rounded, rounder), hn::Set(d, 0.693147181f), x);
  Logits p = hn::Set(d, 0.0414586082f);
  for (const float c : {0.167909072f, 0.500043587f, 0.999963405f, 0.999999261f}) {
    p = hn::MulAdd(p, f, hn::Set(d, c));
  }
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, rounded))));
}

// Pointers to kByteLanes of the rows that a kernel is given, for its first query. The next queries
// follow `stride` floats apart.
struct RowsOfBlock {
  const float *factors, *sign_factors;
  float *logits, *changes;
  size_t stride, changes_stride;
  float* scores;
};

// Calls body(query, first row, logits) for the quarters of the rows of each query.
template <size_t kQueries, class Body>
HWY_INLINE void ForEachLogits(const AddSignLogitsArgs& codes, const RowsOfBlock& rows, size_t query,
                              const Sums (&even)[kQueries], const Sums (&odd)[kQueries],
                              const float* factors, float weights, const Body& body) {
  const LogitTag d;
  HWY_UNROLL(4)
  for (size_t q = 0; q < kQueries; ++q) {
    const SignScale scale = codes.scales[query + q];
    const Logits step = hn::Set(d, scale.step), offset = hn::Set(d, weights * scale.offset);
    ForEachQuarter(even[q], odd[q], [&](size_t row, Logits sums) HWY_ATTR {
      const Logits dot = hn::MulAdd(step, sums, offset);
      const Logits base = hn::LoadU(d, rows.logits + q * rows.stride + row);
      body(q, row, hn::MulAdd(hn::LoadU(d, factors + row), dot, base));
    });
  }
}

// The result wanted: logits, masses, masses that also add to scores, or masses with their changes
// from those of the signs alone.
enum class Finish { kLogits, kMasses, kScores, kChanges };

// Computes kByteLanes rows for kQueries queries, from the codes to the result, without leaving the
// registers.
template <Finish kFinish, size_t kQueries>
HWY_INLINE void AddRows(const SignMassesArgs& args, size_t query, size_t place,
                        const RowsOfBlock& rows) {
  const LogitTag d;
  const AddSignLogitsArgs& codes = args.codes;
  const uint8_t* const tables = codes.tables.data() + query * codes.plane_bytes * 32;
  Sums even[kQueries], odd[kQueries];
  SumTables(codes.planes[0] + place, codes.plane_bytes, tables, even, odd);
  const auto mass = [&](size_t q, Logits logit) HWY_ATTR {
    return CoarseExp(hn::Sub(logit, hn::Set(d, args.reference[query + q])));
  };
  // With kChanges the masses of the signs alone are stored first; `finish` then subtracts them from
  // the final masses.
  if constexpr (kFinish == Finish::kChanges) {
    ForEachLogits(codes, rows, query, even, odd, rows.sign_factors, 1,
                  [&](size_t q, size_t row, Logits logit) HWY_ATTR {
                    float* const change = rows.changes + q * rows.changes_stride + row;
                    hn::StoreU(mass(q, logit), d, change);
                  });
  }
  const bool is_fine = !IsOneBit(codes.planes);
  if (is_fine) AddFinePlanes(codes, place, tables, even, odd);
  const auto finish = [&](size_t q, size_t row, Logits logit) HWY_ATTR {
    if constexpr (kFinish != Finish::kLogits) logit = mass(q, logit);
    if constexpr (kFinish == Finish::kScores) {
      const Logits weight = hn::Set(d, args.weights[query + q]);
      float* const scores = rows.scores + row;
      hn::StoreU(hn::MulAdd(weight, logit, hn::LoadU(d, scores)), d, scores);
    }
    if constexpr (kFinish == Finish::kChanges) {
      float* const change = rows.changes + q * rows.changes_stride + row;
      hn::StoreU(hn::Sub(logit, hn::LoadU(d, change)), d, change);
    }
    hn::StoreU(logit, d, rows.logits + q * rows.stride + row);
  };
  ForEachLogits(codes, rows, query, even, odd, rows.factors, is_fine ? 7 : 1, finish);
}

// All rows for kQueries queries. The last rows, fewer than kByteLanes, go through padded copies.
template <Finish kFinish, size_t kQueries>
HWY_NOINLINE void AddQueries(const SignMassesArgs& args, size_t query) {
  constexpr bool kScores = kFinish == Finish::kScores, kChanges = kFinish == Finish::kChanges;
  const AddSignLogitsArgs& codes = args.codes;
  const Rows<float>&logits = codes.logits, &changes = args.changes;
  const size_t num_rows = codes.factors.size();
  const auto rows_from = [&](size_t row) {
    return RowsOfBlock{codes.factors.data() + row,
                       kChanges ? args.sign_factors.data() + row : nullptr,
                       logits[query] + row,
                       kChanges ? changes[query] + row : nullptr,
                       logits.stride,
                       changes.stride,
                       kScores ? args.scores.data() + row : nullptr};
  };
  const auto place_of = [&](size_t row) {
    return row / kSignBlock * kSignBlock * codes.plane_bytes + row % kSignBlock;
  };
  size_t row = 0;
  for (; row + kByteLanes <= num_rows; row += kByteLanes) {
    AddRows<kFinish, kQueries>(args, query, place_of(row), rows_from(row));
  }
  const size_t bytes = (num_rows - row) * sizeof(float);
  if (bytes == 0) return;
  const RowsOfBlock rows = rows_from(row);
  float factors[kByteLanes] = {}, sign_factors[kByteLanes] = {}, scores[kByteLanes] = {};
  float some_logits[kQueries][kByteLanes] = {}, some_changes[kQueries][kByteLanes];
  std::memcpy(factors, rows.factors, bytes);
  if (kChanges) std::memcpy(sign_factors, rows.sign_factors, bytes);
  if (kScores) std::memcpy(scores, rows.scores, bytes);
  for (size_t q = 0; q < kQueries; ++q) {
    std::memcpy(some_logits[q], rows.logits + q * rows.stride, bytes);
  }
  AddRows<kFinish, kQueries>(
      args, query, place_of(row),
      {factors, sign_factors, some_logits[0], some_changes[0], kByteLanes, kByteLanes, scores});
  if (kScores) std::memcpy(rows.scores, scores, bytes);
  for (size_t q = 0; q < kQueries; ++q) {
    std::memcpy(rows.logits + q * rows.stride, some_logits[q], bytes);
    if (kChanges) std::memcpy(rows.changes + q * rows.changes_stride, some_changes[q], bytes);
  }
}

// Queries go in fours, which share every load of the codes.
template <Finish kFinish>
void AddAllQueries(const SignMassesArgs& args) {
  const size_t num_queries = args.codes.logits.num_rows;
  size_t query = 0;
  for (; query + 4 <= num_queries; query += 4) AddQueries<kFinish, 4>(args, query);
  switch (num_queries - query) {
    case 3:
      return AddQueries<kFinish, 3>(args, query);
    case 2:
      return AddQueries<kFinish, 2>(args, query);
    case 1:
      return AddQueries<kFinish, 1>(args, query);
    default:
      return;
  }
}

void AddSignLogits(const AddSignLogitsArgs& args) {
  AddAllQueries<Finish::kLogits>({.codes = args, .reference = {}});
}

// Without a softcap; SignMassesSimd handles one.
void SignMasses(const SignMassesArgs& args) {
  if (!args.weights.empty()) return AddAllQueries<Finish::kScores>(args);
  if (!args.sign_factors.empty()) return AddAllQueries<Finish::kChanges>(args);
  AddAllQueries<Finish::kMasses>(args);
}

// ---- Packing

template <typename T>
using Lanes128 = hn::Full128<T>;
using Bytes = hn::Vec<Lanes128<uint8_t> >;

// Interleaves the lower (or upper) halves of a and b, as lanes of T.
template <typename T>
HWY_INLINE Bytes Lower(Bytes a, Bytes b) {
  const Lanes128<T> d;
  const Lanes128<uint8_t> d8;
  return hn::BitCast(d8, hn::InterleaveLower(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}
template <typename T>
HWY_INLINE Bytes Upper(Bytes a, Bytes b) {
  const Lanes128<T> d;
  const Lanes128<uint8_t> d8;
  return hn::BitCast(d8, hn::InterleaveUpper(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}

// Transposes a block of bytes: to[c * kSignBlock + r] = from[r * stride + c], r < 16, c < 8. Each
// step doubles the width of the lanes that are interleaved.
HWY_INLINE void TransposeBytes(const std::byte* from, size_t stride, std::byte* to) {
  const Lanes128<uint8_t> d8;
  const hn::Half<Lanes128<uint8_t> > half;
  const auto* rows = reinterpret_cast<const uint8_t*>(from);
  Bytes pairs[2][4];  // [rows 0 … 7 or 8 … 15][two of these rows]
  HWY_UNROLL(4)
  for (size_t i = 0; i < 4; ++i) {
    const auto row = [&](size_t r) {
      return hn::Combine(d8, hn::LoadU(half, rows + (8 + r) * stride),
                         hn::LoadU(half, rows + r * stride));
    };
    const Bytes even = row(2 * i), odd = row(2 * i + 1);
    pairs[0][i] = Lower<uint8_t>(even, odd);
    pairs[1][i] = Upper<uint8_t>(even, odd);
  }
  Bytes columns[2][4];  // [the same rows][two columns]
  HWY_UNROLL(2)
  for (size_t h = 0; h < 2; ++h) {
    const Bytes* const p = pairs[h];
    const Bytes low_first = Lower<uint16_t>(p[0], p[1]), low_last = Lower<uint16_t>(p[2], p[3]);
    const Bytes high_first = Upper<uint16_t>(p[0], p[1]), high_last = Upper<uint16_t>(p[2], p[3]);
    columns[h][0] = Lower<uint32_t>(low_first, low_last);
    columns[h][1] = Upper<uint32_t>(low_first, low_last);
    columns[h][2] = Lower<uint32_t>(high_first, high_last);
    columns[h][3] = Upper<uint32_t>(high_first, high_last);
  }
  auto* const out = reinterpret_cast<uint8_t*>(to);
  HWY_UNROLL(4)
  for (size_t k = 0; k < 4; ++k) {
    hn::StoreU(Lower<uint64_t>(columns[0][k], columns[1][k]), d8, out + 2 * k * kSignBlock);
    hn::StoreU(Upper<uint64_t>(columns[0][k], columns[1][k]), d8, out + (2 * k + 1) * kSignBlock);
  }
}

// PackSigns for this instruction set: 16 rows and 8 bytes at a time.
void PackSigns(const PackSignsArgs& args) {
  static_assert(kSignBlock % 16 == 0);
  for (size_t row = 0; row < args.num_rows; row += 16) {
    std::byte* const to =
        args.packed + row / kSignBlock * kSignBlock * args.plane_bytes + row % kSignBlock;
    const std::byte* const plane = args.planes + row * args.stride;
    const size_t count = HWY_MIN(args.num_rows - row, size_t{16});
    size_t b = 0;
    for (; count == 16 && b + 8 <= args.plane_bytes; b += 8) {
      TransposeBytes(plane + b, args.stride, to + b * kSignBlock);
    }
    for (; b < args.plane_bytes; ++b) {
      for (size_t r = 0; r < count; ++r) to[b * kSignBlock + r] = plane[r * args.stride + b];
    }
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(FillSignTables);
HWY_EXPORT(AddSignLogits);
HWY_EXPORT(SignMasses);
HWY_EXPORT(PackSigns);

namespace {
[[maybe_unused]] bool AreShapesRight(const AddSignLogitsArgs& args) {
  return args.logits.num_cols == args.factors.size() &&
         args.scales.size() == args.logits.num_rows &&
         args.tables.size() == args.logits.num_rows * args.plane_bytes * 32;
}
}  // namespace

void AddSignLogitsSimd(const AddSignLogitsArgs& args) {
  assert(AreShapesRight(args));
  HWY_DYNAMIC_DISPATCH(AddSignLogits)(args);
}

// A soft cap changes logits between the sum over signs and the exponential, so with one the fused
// kernel cannot be used: the steps are then done one after another.
void SignMassesSimd(const SignMassesArgs& args) {
  assert(AreShapesRight(args.codes));
  assert(args.reference.size() == args.codes.logits.num_rows);
  assert(args.weights.empty() || (args.weights.size() == args.codes.logits.num_rows &&
                                  args.scores.size() == args.codes.factors.size()));
  assert(args.sign_factors.empty() || args.weights.empty());
  assert(args.sign_factors.empty() || args.sign_factors.size() == args.codes.factors.size());
  assert(args.changes.num_rows == (args.sign_factors.empty() ? 0 : args.reference.size()));
  if (args.softcap == 0) {
    HWY_DYNAMIC_DISPATCH(SignMasses)(args);
    return;
  }
  const Rows<float>&masses = args.codes.logits, &changes = args.changes;
  const auto finish = [&](const AddSignLogitsArgs& codes) {
    AddSignLogitsSimd(codes);
    SoftcapSimd({.logits = codes.logits, .cap = args.softcap});
    ExpRowsSimd({.logits = codes.logits, .reference = args.reference});
  };
  for (size_t r = 0; r < changes.num_rows; ++r) {
    std::copy_n(masses[r], masses.num_cols, changes[r]);
  }
  finish(args.codes);
  if (!args.sign_factors.empty()) {
    finish(SignsAlone(args));
    for (size_t r = 0; r < changes.num_rows; ++r) {
      for (size_t t = 0; t < masses.num_cols; ++t) changes[r][t] = masses[r][t] - changes[r][t];
    }
  }
  if (args.weights.empty()) return;
  AddWeightedRowsSimd({.masses = masses, .weights = args.weights, .scores = args.scores});
}

void FillSignTables(const FillSignTablesArgs& args) {
  assert(args.scales.size() == args.queries.num_rows);
  assert(args.tables.size() == args.queries.num_rows * SignTableBytes(args.queries.num_cols));
  HWY_DYNAMIC_DISPATCH(FillSignTables)(args);
}

void PackSigns(const PackSignsArgs& args) { HWY_DYNAMIC_DISPATCH(PackSigns)(args); }

}  // namespace lectern
#endif  // HWY_ONCE
