// Loads what a product needs of packed rows (kernels/packed_rows.h), by type: steps, scales, mins.
//
// Per-target header of Highway: included once for each instruction set, from *_simd.cc only. It
// defines nothing for a target without AddDots (kernels/packed_dots-inl.h).
#include "kernels/packed_rows.h"

#if defined(LECTERN_KERNELS_PACKED_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LECTERN_KERNELS_PACKED_STEPS_INL_H_
#undef LECTERN_KERNELS_PACKED_STEPS_INL_H_
#else
#define LECTERN_KERNELS_PACKED_STEPS_INL_H_
#endif

#include <type_traits>

#include "kernels/packed_dots-inl.h"

#if LECTERN_HAS_PACKED_DOTS
HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

// ---- Steps

// Four consecutive k, number `four` of a group, for each of columns [column, column + kLanes) of a
// panel, as they are stored. `steps` points behind the group's scales.
template <PackedType kType>
HWY_INLINE Int8Vector LoadStored(const std::byte* steps, size_t four, size_t column) {
  const Int8Tag d;
  const hn::RebindToUnsigned<Int8Tag> du;
  constexpr size_t kBits = PackedBits(kType);
  steps += four * PackedFourBytes(kType);
  if constexpr (kBits == 8) {
    return LoadBytes(d, steps + 4 * column);
  } else if constexpr (kBits == 4) {
#if HWY_TARGET == HWY_AVX3_DL  // both halves of the panel in one vector
    static_assert(kLanes == kPackedColumns);
    const hn::Half<decltype(du)> half;
    const auto pairs = LoadBytes(half, steps);
    const auto nibbles =
        hn::Combine(du, hn::ShiftRight<4>(pairs), hn::And(pairs, hn::Set(half, 15)));
#else
    constexpr size_t kHalf = kPackedColumns / 2;
    const auto pairs = LoadBytes(du, steps + 4 * (column % kHalf));
    const auto nibbles =
        column < kHalf ? hn::And(pairs, hn::Set(du, 15)) : hn::ShiftRight<4>(pairs);
#endif
    return hn::BitCast(d, nibbles);
  } else {  // the two lower bits: all columns have theirs in 16 bytes
    const hn::RebindToUnsigned<Int32Tag> du32;
    const auto all = hn::BitCast(du32, hn::LoadDup128(du, reinterpret_cast<const uint8_t*>(steps)));
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_AVX2
    alignas(64) static constexpr uint32_t kShifts[kPackedColumns] = {0, 0, 0, 0, 2, 2, 2, 2,
                                                                     4, 4, 4, 4, 6, 6, 6, 6};
    const auto shifted = hn::Shr(all, hn::Load(du32, kShifts + column));
#else
    static_assert(kLanes == 4);
    const auto shifted = hn::ShiftRightSame(all, static_cast<int>(column / 4 * 2));
#endif
    return hn::And(hn::BitCast(d, shifted), hn::Set(d, 3));
  }
}

// Adds the third bits to the two lower ones of a type of 3 bits.
HWY_INLINE Int8Vector AddThirdBits(Int8Vector two, const std::byte* steps, size_t four,
                                   size_t column) {
  const Int8Tag d;
  const auto thirds = LoadBytes(d, steps + kThirdBits + 4 * column);
#if HWY_TARGET == HWY_AVX3_DL
  const __mmask64 has_third =
      _mm512_test_epi8_mask(thirds.raw, _mm512_set1_epi8(static_cast<char>(1 << four)));
  return Int8Vector{_mm512_mask_add_epi8(two.raw, has_third, two.raw, _mm512_set1_epi8(4))};
#else
  const hn::Repartition<uint16_t, Int8Tag> d16;
  const auto third =
      hn::And(hn::BitCast(d, hn::ShiftRightSame(hn::BitCast(d16, thirds), static_cast<int>(four))),
              hn::Set(d, 1));
  const auto high = hn::BitCast(d, hn::ShiftLeft<2>(hn::BitCast(d16, third)));
  return hn::Or(two, high);
#endif
}

// Whether products take steps as they are stored, with a zero of PackedZero that comes off the
// sums.
constexpr bool HasStoredSteps(PackedType type) { return PackedBits(type) < 4; }

// The same as steps.
template <PackedType kType>
HWY_INLINE Int8Vector LoadSteps(const std::byte* steps, size_t four, size_t column) {
  const Int8Tag d;
  const Int8Vector stored = LoadStored<kType>(steps, four, column);
  if constexpr (PackedHasTable(kType)) {
    return hn::TableLookupBytes(hn::LoadDup128(d, PackedTable(kType)), stored);
  } else if constexpr (kType == PackedType::kQ3Halves) {
    return AddThirdBits(stored, steps, four, column);
  } else if constexpr (PackedZero(kType) != 0) {
    return hn::Sub(stored, hn::Set(d, PackedZero(kType)));
  } else {
    return stored;
  }
}

// Steps as AddDots takes them, and the vectors that it sums them in.
constexpr bool IsUnsigned(PackedType type) { return PackedHasMin(type) || HasStoredSteps(type); }
template <PackedType kType>
HWY_INLINE auto PrepareSteps(Int8Vector steps) {
  if constexpr (IsUnsigned(kType)) {
    return UnsignedWeights{steps};
  } else {
    return Prepare(steps);
  }
}
template <PackedType kType>
using StepSumTag =
    std::conditional_t<IsUnsigned(kType) && PackedBits(kType) <= 4, NibbleTag, Int32Tag>;

// Where one instruction multiplies unsigned bytes by signed ones, steps with a sign are raised by a
// constant, and a sum begins with minus that constant times the sum of the input's steps: otherwise
// every row and vector would need an instruction more for signs. The sum ends as the same number.
#if HWY_TARGET == HWY_AVX3_DL
constexpr bool kRaisesSteps = true;
#else
constexpr bool kRaisesSteps = false;
#endif

// The number that is added to the steps of a type so that none is negative.
constexpr int16_t StepsRaisedBy(PackedType type) {
  if (PackedHasMin(type)) return 0;
  return PackedZero(type) != 0 ? PackedZero(type) : 128;
}

// The steps of four k of a panel's columns, raised.
template <PackedType kType>
HWY_INLINE Int8Vector LoadRaised(const std::byte* steps, size_t four) {
  if constexpr (kType == PackedType::kQ4) {
    return LoadStored<kType>(steps, four, 0);
  } else if constexpr (HasStoredSteps(kType)) {
    return LoadSteps<kType>(steps, four, 0);
  } else {  // 128 more is the other sign bit
    return hn::Xor(LoadSteps<kType>(steps, four, 0), hn::Set(Int8Tag(), -128));
  }
}

// The same steps with their sign.
template <PackedType kType>
HWY_INLINE Int8Vector LoadSigned(const std::byte* steps, size_t four) {
  const Int8Vector loaded = LoadSteps<kType>(steps, four, 0);
  if constexpr (HasStoredSteps(kType) && PackedZero(kType) != 0) {
    return hn::Sub(loaded, hn::Set(Int8Tag(), PackedZero(kType)));
  } else {
    return loaded;
  }
}

// Four steps as AddDots takes them, raised where that is done.
template <PackedType kType>
HWY_INLINE auto LoadWeights(const std::byte* steps, size_t four, size_t column) {
  if constexpr (kRaisesSteps && StepsRaisedBy(kType) != 0) {
    return UnsignedWeights{LoadRaised<kType>(steps, four)};
  } else {
    return PrepareSteps<kType>(LoadSteps<kType>(steps, four, column));
  }
}
// The number that a sum of such steps begins with, for part `part` of a group of an input row.
template <PackedType kType>
HWY_INLINE hn::Vec<StepSumTag<kType>> StartOfSum(const HalfSums& sums, size_t part) {
  const StepSumTag<kType> d;
  if constexpr (kRaisesSteps && StepsRaisedBy(kType) != 0) {
    const int32_t sum = PackedScales(kType) == 1 ? sums.first + sums.second
                        : part == 0              ? sums.first
                                                 : sums.second;
    return hn::Set(d, -StepsRaisedBy(kType) * sum);
  } else {
    return hn::Zero(d);
  }
}

// ---- Steps in planes

// Both planes' nibbles of an eight of k, put together and raised: a high nibble is stored plus 8.
// The first four k come first.
struct RaisedEight {
  Int8Vector first, second;
};
HWY_INLINE RaisedEight LoadRaisedEight(const std::byte* high, const std::byte* low) {
  const hn::RebindToUnsigned<Int8Tag> d;
  const hn::Repartition<uint16_t, FloatTag> d16;
  const auto upper = LoadBytes(d, high), lower = LoadBytes(d, low);
  const auto low_bits = hn::Set(d, 15);
  const auto up = [&](auto nibbles) HWY_ATTR {  // bits that leave a byte are cleared
    return hn::AndNot(low_bits, hn::BitCast(d, hn::ShiftLeft<4>(hn::BitCast(d16, nibbles))));
  };
  const auto down = [&](auto both) HWY_ATTR {
    return hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, both))), low_bits);
  };
  return {hn::BitCast(Int8Tag(), hn::Or(up(upper), hn::And(lower, low_bits))),
          hn::BitCast(Int8Tag(), hn::Or(hn::AndNot(low_bits, upper), down(lower)))};
}

// ---- Scales and mins

// Items [column, column + kLanes) of array number `array` (kPackedColumns items each) of small
// integers, as floats.
template <typename T>
HWY_INLINE FloatVector LoadBytesAsFloats(const std::byte* from, size_t array, size_t column) {
  const hn::Rebind<T, FloatTag> narrow;
  const auto bytes = LoadBytes(narrow, from + array * kPackedColumns + column);
  return hn::ConvertTo(FloatTag(), hn::PromoteTo(Int32Tag(), bytes));
}

// The scales of E8M0 that kLanes bytes stand for, as E8m0Scale: 2^(e - 128). The first two are no
// normal floats.
HWY_INLINE FloatVector LoadE8m0s(const std::byte* from) {
  const Int32Tag di;
  const hn::Rebind<uint8_t, FloatTag> narrow;
  const auto e = hn::PromoteTo(di, LoadBytes(narrow, from));
  const auto one = hn::Set(di, 1);
  const auto normal = hn::ShiftLeft<23>(hn::Sub(e, one));
  const auto small = hn::ShiftLeft<21>(hn::Add(e, one));
  return hn::BitCast(FloatTag(), hn::IfThenElse(hn::Gt(e, one), normal, small));
}

// Scales of part `part` of a group for columns [column, column + kLanes), and below the mins. Super
// types multiply the group's small integer by the f16 in the head.
template <PackedType kType>
HWY_INLINE FloatVector LoadScales(const std::byte* head, const std::byte* group, size_t part,
                                  size_t column) {
  if constexpr (kType == PackedType::kFp4) {
    return LoadE8m0s(group + column);
  } else if constexpr (PackedHeadBytes(kType) == 0) {
    return LoadF16s(group, 0, column);
  } else if constexpr (!PackedHasMin(kType)) {
    return hn::Mul(LoadF16s(head, 0, column), LoadBytesAsFloats<int8_t>(group, part, column));
  } else {
    return hn::Mul(LoadF16s(head, 0, column), LoadBytesAsFloats<uint8_t>(group, 0, column));
  }
}
template <PackedType kType>
HWY_INLINE FloatVector LoadMins(const std::byte* head, const std::byte* group, size_t column) {
  if constexpr (PackedHeadBytes(kType) == 0) {
    return LoadF16s(group, 1, column);
  } else {
    return hn::Neg(
        hn::Mul(LoadF16s(head, 1, column), LoadBytesAsFloats<uint8_t>(group, 1, column)));
  }
}

// The whole numbers that half `half` of a group multiplies d with, and dmin, for types of fewer
// than 4 bits.
template <PackedType kType>
HWY_INLINE Int32Vector LoadHalfScales(const std::byte* group, size_t half, size_t column) {
  const Int32Tag di;
  const std::byte* const from = group + half * kPackedColumns + column;
  if constexpr (kType == PackedType::kQ3Halves) {
    return hn::PromoteTo(di, LoadBytes(hn::Rebind<int8_t, FloatTag>(), from));
  } else {
    const auto both = hn::PromoteTo(di, LoadBytes(hn::Rebind<uint8_t, FloatTag>(), from));
    return hn::And(both, hn::Set(di, 15));
  }
}
HWY_INLINE Int32Vector LoadHalfMins(const std::byte* group, size_t half, size_t column) {
  const std::byte* const from = group + half * kPackedColumns + column;
  return hn::ShiftRight<4>(
      hn::PromoteTo(Int32Tag(), LoadBytes(hn::Rebind<uint8_t, FloatTag>(), from)));
}

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();
#endif
#endif  // include guard
