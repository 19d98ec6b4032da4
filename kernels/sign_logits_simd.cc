#include "kernels/sign_logits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sign_logits_simd.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void AddSignLogits(const AddSignLogitsArgs& args) { AddSignLogitsScalar(args); }
void PackSigns(const PackSignsArgs& args) { PackSignsScalar(args); }
#else
namespace hn = hwy::HWY_NAMESPACE;

using ByteTag = hn::CappedTag<uint8_t, kSignBlock>;  // rows that are met at a time
using SumTag = hn::Repartition<uint16_t, ByteTag>;
constexpr size_t kByteLanes = HWY_MIN(HWY_LANES(uint8_t), kSignBlock);
constexpr size_t kMostQueries = 4;  // that share the reading of a plane

// Sums of a plane's tables for kByteLanes rows and some queries: rows 0, 2, … and rows 1, 3, ….
template <size_t kQueries>
HWY_INLINE void SumTables(const std::byte* plane, size_t plane_bytes, const uint8_t* tables,
                          hn::Vec<SumTag> (&even)[kQueries], hn::Vec<SumTag> (&odd)[kQueries]) {
  const ByteTag d8;
  const SumTag d16;
  const auto low_bits = hn::Set(d8, uint8_t{15});
  const auto low_bytes = hn::Set(d16, uint16_t{255});
  const size_t table_bytes = plane_bytes * 32;
  HWY_UNROLL(4)
  for (size_t q = 0; q < kQueries; ++q) even[q] = odd[q] = hn::Zero(d16);
  for (size_t b = 0; b < plane_bytes; ++b) {
    const auto bytes = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(plane) + b * kSignBlock);
    const auto low = hn::And(bytes, low_bits);
    const auto high =
        hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, bytes))), low_bits);
    HWY_UNROLL(4)
    for (size_t q = 0; q < kQueries; ++q) {
      const uint8_t* table = tables + q * table_bytes + b * 32;
      const auto sum =
          hn::BitCast(d16, hn::Add(hn::TableLookupBytes(hn::LoadDup128(d8, table), low),
                                   hn::TableLookupBytes(hn::LoadDup128(d8, table + 16), high)));
      even[q] = hn::Add(even[q], hn::And(sum, low_bytes));
      odd[q] = hn::Add(odd[q], hn::ShiftRight<8>(sum));
    }
  }
}

// Adds to logits[0, count) what their sums, in the order of rows, stand for.
HWY_INLINE void AddLogits(const uint16_t* sums, size_t count, float step, float offset,
                          const float* factors, float* logits) {
  const hn::CappedTag<float, 8> d;
  const hn::Rebind<int32_t, decltype(d)> d32;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto sum = hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d16, sums + i)));
    const auto dot = hn::MulAdd(hn::Set(d, step), sum, hn::Set(d, offset));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, factors + i), dot, hn::LoadU(d, logits + i)), d, logits + i);
  }
  for (; i < count; ++i) logits[i] += factors[i] * (step * static_cast<float>(sums[i]) + offset);
}

// Rows [row, row + count), count <= kByteLanes, within one block.
template <size_t kQueries>
HWY_INLINE void AddRows(const AddSignLogitsArgs& args, size_t query, size_t row, size_t count) {
  const SumTag d16;
  const size_t place = row / kSignBlock * kSignBlock * args.plane_bytes + row % kSignBlock;
  const uint8_t* tables = args.tables.data() + query * args.plane_bytes * 32;
  hn::Vec<SumTag> even[kQueries], odd[kQueries];
  SumTables(args.planes[0] + place, args.plane_bytes, tables, even, odd);
  float weights = 1;
  if (args.planes.size() == 3) {
    weights = 7;
    hn::Vec<SumTag> more_even[kQueries], more_odd[kQueries];
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
  for (size_t q = 0; q < kQueries; ++q) {
    // Interleaving works within blocks of 16 rows: their first and their last 8.
    HWY_ALIGN uint16_t first[kByteLanes / 2], last[kByteLanes / 2];
    hn::Store(hn::InterleaveLower(d16, even[q], odd[q]), d16, first);
    hn::Store(hn::InterleaveUpper(d16, even[q], odd[q]), d16, last);
    const SignScale scale = args.scales[query + q];
    for (size_t i = 0; i < count; i += 8) {
      const uint16_t* sums = (i % 16 == 0 ? first : last) + i / 16 * 8;
      AddLogits(sums, HWY_MIN(count - i, size_t{8}), scale.step, weights * scale.offset,
                args.factors.data() + row + i, args.logits[query + q] + row + i);
    }
  }
}

template <size_t kQueries>
HWY_NOINLINE void AddQueries(const AddSignLogitsArgs& args, size_t query) {
  const size_t num_rows = args.factors.size();
  for (size_t row = 0; row < num_rows; row += kByteLanes) {
    AddRows<kQueries>(args, query, row, HWY_MIN(kByteLanes, num_rows - row));
  }
}

void AddSignLogits(const AddSignLogitsArgs& args) {
  static_assert(kMostQueries == 4);
  const size_t num_queries = args.logits.num_rows;
  size_t query = 0;
  for (; query + 4 <= num_queries; query += 4) AddQueries<4>(args, query);
  switch (num_queries - query) {
    case 3:
      return AddQueries<3>(args, query);
    case 2:
      return AddQueries<2>(args, query);
    case 1:
      return AddQueries<1>(args, query);
    default:
      return;
  }
}

// ---- Packing

template <typename T>
using Lanes128 = hn::Full128<T>;
using Bytes = hn::Vec<Lanes128<uint8_t>>;

// As lanes of T: the lower or the upper halves of a and b by turns.
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

// to[c * kSignBlock + r] = from[r * stride + c], r < 16, c < 8.
HWY_INLINE void TransposeBytes(const std::byte* from, size_t stride, std::byte* to) {
  const Lanes128<uint8_t> d8;
  const hn::Half<Lanes128<uint8_t>> half;
  const auto* rows = reinterpret_cast<const uint8_t*>(from);
  Bytes pairs[2][4];  // [rows 0 … 7, 8 … 15][two of them]
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
  Bytes columns[2][4];  // [rows][two columns of theirs]
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

HWY_EXPORT(AddSignLogits);
HWY_EXPORT(PackSigns);

void AddSignLogitsSimd(const AddSignLogitsArgs& args) {
  assert(args.planes.size() == 1 || args.planes.size() == 3);
  assert(args.logits.num_cols == args.factors.size());
  assert(args.scales.size() == args.logits.num_rows);
  assert(args.tables.size() == args.logits.num_rows * args.plane_bytes * 32);
  HWY_DYNAMIC_DISPATCH(AddSignLogits)(args);
}

void PackSigns(const PackSignsArgs& args) { HWY_DYNAMIC_DISPATCH(PackSigns)(args); }

}  // namespace lectern
#endif  // HWY_ONCE
