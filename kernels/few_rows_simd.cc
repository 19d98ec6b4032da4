// Products of a few rows with stored rows, in two ways. MultiplyFewRows converts kLanes rows of
// kLanes elements, transposes them within registers and uses them at once. DotFewRows takes dot
// products along the stored rows. They have a file of their own because they take long to compile.
#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/few_rows_simd.cc"
#include "hwy/foreach_target.h"

#include "hwy/cache_control.h"
#include "kernels/few_rows-inl.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

// Transposes four rows within 128-bit blocks: block b of out[j] holds element 4 * b + j of the four
// rows.
HWY_INLINE void TransposeFour(const FloatVector* rows, FloatVector* out) {
  const FloatTag d;
  const hn::Repartition<uint64_t, FloatTag> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[0], rows[1]));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[2], rows[3]));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[0], rows[1]));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[2], rows[3]));
  out[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  out[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  out[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  out[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}

// Transposes kLanes vectors in place: rows[i][j] <-> rows[j][i].
HWY_INLINE void Transpose(FloatVector* rows) {
  const FloatTag d;
  FloatVector quads[kLanes];
  LECTERN_UNROLL_TILE
  for (size_t i = 0; i < kLanes; i += 4) TransposeFour(rows + i, quads + i);
  LECTERN_UNROLL_TILE
  for (size_t j = 0; j < 4; ++j) {
    if constexpr (kLanes == 4) {
      rows[j] = quads[j];
    } else if constexpr (kLanes == 8) {
      rows[j] = hn::ConcatLowerLower(d, quads[4 + j], quads[j]);
      rows[4 + j] = hn::ConcatUpperUpper(d, quads[4 + j], quads[j]);
    } else {
      static_assert(kLanes == 16 || kLanes == 4 || kLanes == 8);
      // 16 lanes: the quads' 128-bit blocks are a 4 x 4 matrix of blocks, transposed in two steps
      // of pairs.
      const auto even01 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(quads[4 + j]), quads[j]);
      const auto odd01 = hn::OddEvenBlocks(quads[4 + j], hn::SwapAdjacentBlocks(quads[j]));
      const auto even23 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(quads[12 + j]), quads[8 + j]);
      const auto odd23 = hn::OddEvenBlocks(quads[12 + j], hn::SwapAdjacentBlocks(quads[8 + j]));
      rows[j] = hn::ConcatLowerLower(d, even23, even01);
      rows[4 + j] = hn::ConcatLowerLower(d, odd23, odd01);
      rows[8 + j] = hn::ConcatUpperUpper(d, even23, even01);
      rows[12 + j] = hn::ConcatUpperUpper(d, odd23, odd01);
    }
  }
}

// The address to prefetch while elements from k on of these columns are used. Spread over k, so
// that the whole of the next data has been asked for when these columns end.
template <size_t kGroups>
HWY_INLINE uintptr_t Ahead(const FewRowsProduct& p, const std::byte* const* columns, size_t k) {
  return AddressAt(columns[0], p.ahead) + k * (p.b.stride * kGroups * kLanes / p.depth);
}

// sum[g][r] += A[r, k … k + count) * columns [g * kLanes, (g + 1) * kLanes) of B, for count <=
// kLanes. kWhole says at compile time that count == kLanes.
template <Dtype kDtype, size_t kRows, size_t kGroups, bool kWhole>
HWY_INLINE void AddBlock(const FewRowsProduct& p, const std::byte* const* columns, size_t k,
                         size_t count, FloatVector (*sum)[kRows]) {
  const FloatTag d;
  LECTERN_UNROLL_TILE
  for (size_t g = 0; g < kGroups; ++g) {
    FloatVector block[kLanes];
    LECTERN_UNROLL_TILE
    for (size_t i = 0; i < kLanes; ++i) {
      const std::byte* row = columns[g * kLanes + i];
      block[i] = kWhole ? LoadVector<kDtype>(row, k) : LoadPartial<kDtype>(row, k, count);
    }
    Transpose(block);
    LECTERN_UNROLL_TILE
    for (size_t j = 0; j < kLanes; ++j) {
      if (!kWhole && j == count) break;
      LECTERN_UNROLL_TILE
      for (size_t r = 0; r < kRows; ++r) {
        sum[g][r] = hn::MulAdd(hn::Set(d, p.a[r * p.a_stride + k + j]), block[j], sum[g][r]);
      }
    }
  }
}

// ---- Elements of 16 bits are transposed before they are converted: half as many vectors to move.
// Not where there are 16 registers: it takes more of them and gains nothing there.

template <Dtype kDtype>
constexpr bool kTurnsFirst = kLanes == 16 && (kDtype == Dtype::kF16 || kDtype == Dtype::kBf16);

using HalfTag = hn::Repartition<uint16_t, FloatTag>;
using HalfVector = hn::Vec<HalfTag>;

// Transposes eight rows of 16-bit elements within 128-bit blocks: block b of out[i] holds element 8
// * b + i of the eight rows.
HWY_INLINE void TransposeEight(const HalfVector* rows, HalfVector* out) {
  const HalfTag d;
  const hn::Repartition<uint32_t, HalfTag> twos;
  const hn::Repartition<uint64_t, HalfTag> fours;
  HalfVector pairs[8];
  LECTERN_UNROLL_TILE
  for (size_t i = 0; i < 8; i += 2) {
    pairs[i] = hn::InterleaveLower(d, rows[i], rows[i + 1]);
    pairs[i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + 1]);
  }
  hn::Vec<decltype(fours)> quads[8];
  LECTERN_UNROLL_TILE
  for (size_t i = 0; i < 8; i += 4) {
    LECTERN_UNROLL_TILE
    for (size_t upper = 0; upper < 2; ++upper) {
      const auto first = hn::BitCast(twos, pairs[i + upper]);
      const auto second = hn::BitCast(twos, pairs[i + 2 + upper]);
      quads[i + 2 * upper] = hn::BitCast(fours, hn::InterleaveLower(twos, first, second));
      quads[i + 2 * upper + 1] = hn::BitCast(fours, hn::InterleaveUpper(twos, first, second));
    }
  }
  LECTERN_UNROLL_TILE
  for (size_t i = 0; i < 4; ++i) {
    out[2 * i] = hn::BitCast(d, hn::InterleaveLower(fours, quads[i], quads[4 + i]));
    out[2 * i + 1] = hn::BitCast(d, hn::InterleaveUpper(fours, quads[i], quads[4 + i]));
  }
}

// Calls add(j, elements k + j of the kLanes columns) for 2 * kLanes values of j. For bf16 pairs of
// elements are transposed as floats, then each pair is split into its two values.
template <Dtype kDtype, class Add>
HWY_INLINE void ForEachTurned(const std::byte* const* columns, size_t k, const Add& add) {
  const FloatTag d;
  if constexpr (kDtype == Dtype::kBf16) {
    const hn::Repartition<uint32_t, FloatTag> du32;
    FloatVector pairs[kLanes];
    LECTERN_UNROLL_TILE
    for (size_t i = 0; i < kLanes; ++i) pairs[i] = LoadBytes(d, columns[i] + 2 * k);
    Transpose(pairs);
    LECTERN_UNROLL_TILE
    for (size_t j = 0; j < kLanes; ++j) {
      const auto bits = hn::BitCast(du32, pairs[j]);
      add(2 * j, hn::BitCast(d, hn::ShiftLeft<16>(bits)));
      add(2 * j + 1, hn::BitCast(d, hn::And(bits, hn::Set(du32, 0xFFFF0000u))));
    }
  } else {
    const HalfTag d16;
    const hn::Half<HalfTag> half;
    HalfVector rows[kLanes], turned[kLanes];
    LECTERN_UNROLL_TILE
    for (size_t i = 0; i < kLanes; ++i) rows[i] = LoadBytes(d16, columns[i] + 2 * k);
    LECTERN_UNROLL_TILE
    for (size_t i = 0; i < kLanes; i += 8) TransposeEight(rows + i, turned + i);
    LECTERN_UNROLL_TILE
    // Puts the blocks of the second eight columns beside those of the first eight.
    for (size_t i = 0; i < 8; ++i) {
      const HalfVector first = turned[i], second = turned[8 + i];
      turned[i] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(second), first);
      turned[8 + i] = hn::OddEvenBlocks(second, hn::SwapAdjacentBlocks(first));
    }
    LECTERN_UNROLL_TILE
    for (size_t i = 0; i < kLanes; ++i) add(i, F16ToFloat(hn::LowerHalf(half, turned[i])));
    LECTERN_UNROLL_TILE
    for (size_t i = 0; i < kLanes; ++i) {
      add(kLanes + i, F16ToFloat(hn::UpperHalf(half, turned[i])));
    }
  }
}

// Computes columns [column, column + kGroups * kLanes) and writes them at c. If there are fewer
// columns, the last one is repeated.
template <Dtype kDtype, size_t kRows, size_t kGroups>
HWY_INLINE void MultiplyColumns(const FewRowsProduct& p, size_t column, float* c, size_t c_stride) {
  const FloatTag d;
  const std::byte* columns[kGroups * kLanes];
  for (size_t i = 0; i < kGroups * kLanes; ++i) {
    columns[i] = p.b.row(std::min(column + i, p.b.num_rows - 1));
  }
  FloatVector sum[kGroups][kRows];
  LECTERN_UNROLL_TILE
  for (size_t g = 0; g < kGroups; ++g) {
    LECTERN_UNROLL_TILE
    for (size_t r = 0; r < kRows; ++r) {
      sum[g][r] = p.accumulate ? hn::LoadU(d, c + r * c_stride + g * kLanes) : hn::Zero(d);
    }
  }
  size_t k = 0;
  if constexpr (kTurnsFirst<kDtype>) {
    for (; k + 2 * kLanes <= p.depth; k += 2 * kLanes) {
      // One prefetch per two elements: all at once they would wait for each other.
      constexpr size_t kLines = 4 * kLanes * kLanes / 64;  // of a group
      const uintptr_t next = Ahead<kGroups>(p, columns, k);
      LECTERN_UNROLL_TILE
      for (size_t g = 0; g < kGroups; ++g) {
        ForEachTurned<kDtype>(columns + g * kLanes, k, [&](size_t j, FloatVector column) {
          if (j % 2 == 0 && j / 2 < kLines) AskFor(next + (g * kLines + j / 2) * 64);
          LECTERN_UNROLL_TILE
          for (size_t r = 0; r < kRows; ++r) {
            sum[g][r] = hn::MulAdd(hn::Set(d, p.a[r * p.a_stride + k + j]), column, sum[g][r]);
          }
        });
      }
    }
  }
  for (; k + kLanes <= p.depth; k += kLanes) {
    const uintptr_t next = Ahead<kGroups>(p, columns, k);
    const size_t bytes = p.b.stride * kGroups * kLanes * kLanes / p.depth;
    for (size_t i = 0; i < bytes; i += 64) AskFor(next + i);
    AddBlock<kDtype, kRows, kGroups, true>(p, columns, k, kLanes, sum);
  }
  if (k < p.depth) AddBlock<kDtype, kRows, kGroups, false>(p, columns, k, p.depth - k, sum);
  LECTERN_UNROLL_TILE
  for (size_t g = 0; g < kGroups; ++g) {
    LECTERN_UNROLL_TILE
    for (size_t r = 0; r < kRows; ++r) hn::StoreU(sum[g][r], d, c + r * c_stride + g * kLanes);
  }
}

// Computes all columns; the last few go through a padded copy of C.
template <Dtype kDtype, size_t kRows, size_t kGroups>
HWY_NOINLINE void MultiplyFewRowsOf(const FewRowsProduct& p) {
  size_t column = 0;
  for (; column + kGroups * kLanes <= p.b.num_rows; column += kGroups * kLanes) {
    MultiplyColumns<kDtype, kRows, kGroups>(p, column, p.c + column, p.c_stride);
  }
  for (; column < p.b.num_rows; column += kLanes) {
    const size_t bytes = std::min(kLanes, p.b.num_rows - column) * sizeof(float);
    float c[kRows][kLanes] = {};
    for (size_t r = 0; r < kRows; ++r) std::memcpy(c[r], p.c + r * p.c_stride + column, bytes);
    MultiplyColumns<kDtype, kRows, 1>(p, column, c[0], kLanes);
    for (size_t r = 0; r < kRows; ++r) std::memcpy(p.c + r * p.c_stride + column, c[r], bytes);
  }
}

// Picks how many groups of columns are computed together. A single chain of multiply-adds waits for
// its own latency, so one row takes two groups at once. But rows of B that lie a multiple of 2 KiB
// apart fall into the same few sets of the first-level cache, which then hold one group only.
template <Dtype kDtype, size_t kRows>
HWY_INLINE void MultiplyFewRowsOf(const FewRowsProduct& p) {
  if (kRows == 1 && p.b.stride % 2048 != 0) return MultiplyFewRowsOf<kDtype, kRows, 2>(p);
  MultiplyFewRowsOf<kDtype, kRows, 1>(p);
}

// Picks the instantiation for `num_rows` <= kRows at run time.
template <Dtype kDtype, size_t kRows = kFewRows>
HWY_INLINE void MultiplySomeFewRows(const FewRowsProduct& p, size_t num_rows) {
  if (num_rows == kRows) return MultiplyFewRowsOf<kDtype, kRows>(p);
  if constexpr (kRows > 1) MultiplySomeFewRows<kDtype, kRows - 1>(p, num_rows);
}

void MultiplyFewRows(const FewRowsProduct& p, Dtype dtype, size_t num_rows) {
  switch (dtype) {
    case Dtype::kF32:
      return MultiplySomeFewRows<Dtype::kF32>(p, num_rows);
    case Dtype::kF16:
      return MultiplySomeFewRows<Dtype::kF16>(p, num_rows);
    case Dtype::kBf16:
      return MultiplySomeFewRows<Dtype::kBf16>(p, num_rows);
    case Dtype::kQ8:
      return MultiplySomeFewRows<Dtype::kQ8>(p, num_rows);
  }
}

// ---- The same by dot products

// totals[i] = the sum of the lanes of sums[i], i < 8.
HWY_INLINE void SumLanesOfEight(const FloatVector* sums, float* totals) {
  const FloatTag d;
  FloatVector quads[2];  // lane j of block b: the sum of block b of sums[4 * q + j]
  LECTERN_UNROLL_TILE
  for (size_t q = 0; q < 2; ++q) {
    FloatVector parts[4];
    TransposeFour(sums + 4 * q, parts);
    quads[q] = hn::Add(hn::Add(parts[0], parts[1]), hn::Add(parts[2], parts[3]));
  }
  if constexpr (kLanes == 8) {
    hn::StoreU(hn::Add(hn::ConcatLowerLower(d, quads[1], quads[0]),
                       hn::ConcatUpperUpper(d, quads[1], quads[0])),
               d, totals);
  } else {
    float blocks[2][kLanes];
    for (size_t q = 0; q < 2; ++q) hn::StoreU(quads[q], d, blocks[q]);
    for (size_t i = 0; i < 8; ++i) {
      totals[i] = 0;
      for (size_t b = 0; b < kLanes; b += 4) totals[i] += blocks[i / 4][b + i % 4];
    }
  }
}

// Dot products of kRows rows with columns [column, column + kColumns). kRows * kColumns <= 8 sums
// fit in registers.
template <Dtype kDtype, size_t kRows, size_t kColumns>
HWY_INLINE void DotColumns(const FewRowsProduct& p, size_t column) {
  const FloatTag d;
  FloatVector sums[8];
  LECTERN_UNROLL_TILE
  for (size_t i = 0; i < 8; ++i) sums[i] = hn::Zero(d);
  const std::byte* columns[kColumns];
  LECTERN_UNROLL_TILE
  for (size_t j = 0; j < kColumns; ++j) columns[j] = p.b.row(column + j);
  for (size_t i = 0; p.ahead != 0 && i < kColumns * p.b.stride; i += 64) {
    AskFor(AddressAt(columns[0], p.ahead) + i);
  }
  size_t k = 0;
  for (; k + kLanes <= p.depth; k += kLanes) {
    FloatVector stored[kColumns];
    LECTERN_UNROLL_TILE
    for (size_t j = 0; j < kColumns; ++j) stored[j] = LoadVector<kDtype>(columns[j], k);
    LECTERN_UNROLL_TILE
    for (size_t r = 0; r < kRows; ++r) {
      FloatVector a = hn::LoadU(d, p.a + r * p.a_stride + k);
      LECTERN_LOAD_ONCE(a);
      LECTERN_UNROLL_TILE
      for (size_t j = 0; j < kColumns; ++j) {
        FloatVector& sum = sums[j * kRows + r];
        sum = hn::MulAdd(a, stored[j], sum);
      }
    }
  }
  // Kept apart: in loops that are not unrolled the compiler keeps the sums in memory.
  if (k < p.depth) {
    FloatVector rest[8] = {};
    for (size_t j = 0; j < kColumns; ++j) {
      const FloatVector column_rest = LoadPartial<kDtype>(columns[j], k, p.depth - k);
      for (size_t r = 0; r < kRows; ++r) {
        const auto* const row = reinterpret_cast<const std::byte*>(p.a + r * p.a_stride);
        rest[j * kRows + r] =
            hn::Mul(LoadPartial<Dtype::kF32>(row, k, p.depth - k), column_rest);
      }
    }
    LECTERN_UNROLL_TILE
    for (size_t i = 0; i < kColumns * kRows; ++i) sums[i] = hn::Add(sums[i], rest[i]);
  }
  float totals[8];
  SumLanesOfEight(sums, totals);
  LECTERN_UNROLL_TILE
  for (size_t r = 0; r < kRows; ++r) {
    LECTERN_UNROLL_TILE
    for (size_t j = 0; j < kColumns; ++j) {
      p.c[r * p.c_stride + column + j] = totals[j * kRows + r];
    }
  }
}

// Dot products of num_rows <= kRows rows with all columns: picks the instantiation at run time.
template <Dtype kDtype, size_t kRows = kFewRows>
HWY_INLINE void DotSomeFewRows(const FewRowsProduct& p, size_t num_rows) {
  if (num_rows == kRows) {
    constexpr size_t kColumns = 8 / kRows;
    size_t column = 0;
    for (; column + kColumns <= p.b.num_rows; column += kColumns) {
      DotColumns<kDtype, kRows, kColumns>(p, column);
    }
    for (; column < p.b.num_rows; ++column) DotColumns<kDtype, kRows, 1>(p, column);
    return;
  }
  if constexpr (kRows > 1) DotSomeFewRows<kDtype, kRows - 1>(p, num_rows);
}

void DotFewRows(const FewRowsProduct& p, Dtype dtype, size_t num_rows) {
  switch (dtype) {
    case Dtype::kF32:
      return DotSomeFewRows<Dtype::kF32>(p, num_rows);
    case Dtype::kF16:
      return DotSomeFewRows<Dtype::kF16>(p, num_rows);
    case Dtype::kBf16:
      return DotSomeFewRows<Dtype::kBf16>(p, num_rows);
    case Dtype::kQ8:
      return DotSomeFewRows<Dtype::kQ8>(p, num_rows);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR
