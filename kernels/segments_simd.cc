// Sums over segments of rows, and values spread to many columns (kernels/centroid_scores.h).
#include "kernels/centroid_scores.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/segments_simd.cc"
#include "hwy/foreach_target.h"

#include "kernels/part_vector-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void SumSegments(const SumSegmentsArgs& args) { SumSegmentsScalar(args); }
void SpreadValues(const SpreadValuesArgs& args) { SpreadValuesScalar(args); }
#else

// Sum of count floats: 1024 terms at a time in float, these sums joined in double. Two chains hide
// the latency of the addition.
HWY_INLINE double SumOf(const float* x, size_t count) {
  const FloatTag d;
  double sum = 0;
  for (size_t begin = 0; begin < count; begin += 1024) {
    const size_t end = std::min<size_t>(begin + 1024, count);
    FloatVector even = hn::Zero(d), odd = hn::Zero(d);
    size_t j = begin;
    for (; j + 2 * kLanes <= end; j += 2 * kLanes) {
      even = hn::Add(even, hn::LoadU(d, x + j));
      odd = hn::Add(odd, hn::LoadU(d, x + j + kLanes));
    }
    for (; j < end; j += kLanes) even = hn::Add(even, LoadFilled(x + j, end - j, 0));
    sum += hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  }
  return sum;
}

// sums[0 … 3] = the lane sums of a, b, c and e: halves the vectors until they have four lanes, then
// transposes and adds.
template <class D, class V>
HWY_INLINE void SumLanes(D d, V a, V b, V c, V e, float* sums) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    const auto fold = [&](V v) HWY_ATTR {
      return hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v));
    };
    SumLanes(half, fold(a), fold(b), fold(c), fold(e), sums);
  } else {
    const hn::Repartition<double, D> pairs;
    const auto fold = [&](V v, V w) HWY_ATTR {
      return hn::Add(hn::InterleaveLower(d, v, w), hn::InterleaveUpper(d, v, w));
    };
    const auto ab = hn::BitCast(pairs, fold(a, b)), ce = hn::BitCast(pairs, fold(c, e));
    hn::StoreU(hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                       hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce))),
               d, sums);
  }
}

// sums[i] = the lane sum of v[i], by the additions of SumLanes, for eight vectors of 16 lanes:
// these share their vectors as soon as they are folded.
[[maybe_unused]] HWY_INLINE void SumEightVectors(const FloatVector* v, float* sums) {
  const FloatTag d;
  const hn::Repartition<double, FloatTag> pairs;
  const auto as_pairs = [&](FloatVector x) HWY_ATTR { return hn::BitCast(pairs, x); };
  const auto fold = [&](FloatVector x, FloatVector y) HWY_ATTR {
    return hn::Add(hn::ConcatLowerLower(d, y, x), hn::ConcatUpperUpper(d, y, x));
  };
  // Blocks of 128 bits of x and y, each added to its neighbour: those of x in the even places.
  const auto fold_blocks = [&](FloatVector x, FloatVector y) HWY_ATTR {
    return hn::OddEvenBlocks(hn::Add(y, hn::SwapAdjacentBlocks(y)),
                             hn::Add(x, hn::SwapAdjacentBlocks(x)));
  };
  // Four numbers each of v[0], v[2], v[1], v[3] and of v[4], v[6], v[5], v[7].
  const FloatVector first = fold_blocks(fold(v[0], v[1]), fold(v[2], v[3]));
  const FloatVector last = fold_blocks(fold(v[4], v[5]), fold(v[6], v[7]));
  const FloatVector two =
      hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, as_pairs(first), as_pairs(last))),
              hn::BitCast(d, hn::InterleaveUpper(pairs, as_pairs(first), as_pairs(last))));
  float all[kLanes];  // every second one is a sum
  hn::StoreU(hn::Add(two, hn::Shuffle2301(two)), d, all);
  constexpr size_t kPlaces[8] = {0, 8, 4, 12, 2, 10, 6, 14};
  for (size_t i = 0; i < 8; ++i) sums[i] = all[kPlaces[i]];
}

// Segment sums of rows [row, row + kRows), at most eight, which share the branches on a segment's
// length: these are often mispredicted. The last vector of a segment, often its only one, is read
// with a mask.
template <size_t kRows>
HWY_INLINE void SumSegmentsOf(const SumSegmentsArgs& args, size_t row) {
  // Longer segments are summed by SumOf, partly in double. By hand: a lane then adds at most
  // 1024 / 4 terms, which rounding puts off by at most 256 * 2^-24, which is 1.5e-5 of the total.
  constexpr size_t kLong = 1024;
  const FloatTag d;
  const float* masses[kRows];
  float* sums[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    masses[r] = args.masses[row + r];
    sums[r] = args.sums[row + r];
  }
  for (size_t i = 0; i < args.sums.num_cols; ++i) {
    const size_t begin = args.begin[i], count = args.begin[i + 1] - begin;
    if (count <= 2) {  // as the vectors would add them
      for (size_t r = 0; r < kRows; ++r) {
        const float* const x = masses[r] + begin;
        sums[r][i] = count == 2 ? x[0] + x[1] : count == 1 ? x[0] : 0.0f;
      }
    } else if (count > kLong) {
      for (size_t r = 0; r < kRows; ++r) {
        sums[r][i] = static_cast<float>(SumOf(masses[r] + begin, count));
      }
    } else {
      constexpr size_t kSums = (kRows + 3) / 4 * 4;
      FloatVector sum[kSums];
      for (size_t r = 0; r < kSums; ++r) sum[r] = hn::Zero(d);
      size_t j = begin;
      for (; begin + count - j > kLanes; j += kLanes) {
        for (size_t r = 0; r < kRows; ++r) sum[r] = hn::Add(sum[r], hn::LoadU(d, masses[r] + j));
      }
      const size_t left = begin + count - j;
      const auto mask = hn::FirstN(d, left);
      for (size_t r = 0; r < kRows; ++r) {
        sum[r] = hn::Add(sum[r], LoadMasked(mask, masses[r] + j, left));
      }
      float of_rows[kSums];
      if constexpr (kLanes == 16 && kSums == 8) {
        SumEightVectors(sum, of_rows);
      } else {
        for (size_t r = 0; r < kSums; r += 4) {
          SumLanes(d, sum[r], sum[r + 1], sum[r + 2], sum[r + 3], of_rows + r);
        }
      }
      for (size_t r = 0; r < kRows; ++r) sums[r][i] = of_rows[r];
    }
  }
}

void SumSegments(const SumSegmentsArgs& args) {
  size_t row = 0;
  for (; row + 8 <= args.masses.num_rows; row += 8) SumSegmentsOf<8>(args, row);
  if (row + 4 <= args.masses.num_rows) {
    SumSegmentsOf<4>(args, row);
    row += 4;
  }
  switch (args.masses.num_rows - row) {
    case 3:
      return SumSegmentsOf<3>(args, row);
    case 2:
      return SumSegmentsOf<2>(args, row);
    case 1:
      return SumSegmentsOf<1>(args, row);
  }
}

// Values of rows [row, row + kRows) for all columns.
template <size_t kRows>
HWY_INLINE void SpreadRows(const SpreadValuesArgs& args, size_t row) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const size_t n = args.columns.size(), num_values = args.values.num_cols;
  const float* values[kRows];
  float* out[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    values[r] = args.values[row + r];
    out[r] = args.out[row + r];
  }
  size_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    const uint32_t* const columns = args.columns.data() + j;
    const uint32_t first = columns[0];
    if (columns[kLanes - 1] - first >= kLanes) {
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t k = 0; k < kLanes; ++k) out[r][j + k] = values[r][columns[k]];
      }
      continue;
    }
    // Neighbouring values, which one shuffle spreads.
    const auto lanes =
        hn::IndicesFromVec(d, hn::Sub(hn::LoadU(di, reinterpret_cast<const int32_t*>(columns)),
                                      hn::Set(di, static_cast<int32_t>(first))));
    const size_t count = HWY_MIN(num_values - first, kLanes);
    const auto mask = hn::FirstN(d, count);
    HWY_UNROLL(4)
    for (size_t r = 0; r < kRows; ++r) {
      const FloatVector some = LoadMasked(mask, values[r] + first, count);
      hn::StoreU(hn::TableLookupLanes(some, lanes), d, out[r] + j);
    }
  }
  for (; j < n; ++j) {
    for (size_t r = 0; r < kRows; ++r) out[r][j] = values[r][args.columns[j]];
  }
}

// SpreadValuesSimd for this instruction set.
void SpreadValues(const SpreadValuesArgs& args) {
  size_t row = 0;
  for (; row + 4 <= args.out.num_rows; row += 4) SpreadRows<4>(args, row);
  switch (args.out.num_rows - row) {
    case 3:
      return SpreadRows<3>(args, row);
    case 2:
      return SpreadRows<2>(args, row);
    case 1:
      return SpreadRows<1>(args, row);
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(SumSegments);
HWY_EXPORT(SpreadValues);

void SumSegmentsSimd(const SumSegmentsArgs& args) {
  assert(args.begin.size() == args.sums.num_cols + 1);
  assert(args.sums.num_rows == args.masses.num_rows);
  HWY_DYNAMIC_DISPATCH(SumSegments)(args);
}

void SpreadValuesSimd(const SpreadValuesArgs& args) {
  assert(args.columns.size() == args.out.num_cols && args.values.num_rows == args.out.num_rows);
  HWY_DYNAMIC_DISPATCH(SpreadValues)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
