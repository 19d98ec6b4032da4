#include "kernels/hadamard.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/hadamard_simd.cc"
#include "hwy/foreach_target.h"

#include "kernels/tile-inl.h"

#ifndef LECTERN_HADAMARD_INCLUDES
#define LECTERN_HADAMARD_INCLUDES
#include <bit>
#include <cmath>
#endif

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void SignedHadamard(const SignedHadamardArgs& args) { SignedHadamardScalar(args); }
#else

// One round within vectors, where partners are `swapped` lanes: a + b in the lower lane of a pair,
// a - b in the upper one, whose sign `upper` has.
HWY_INLINE FloatVector Butterfly(FloatVector v, FloatVector swapped, FloatVector upper) {
  return hn::Add(swapped, hn::Xor(v, upper));
}

void SignedHadamard(const SignedHadamardArgs& args) {
  static_assert(kLanes == 4 || kLanes == 8 || kLanes == 16);
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const size_t n = args.x.size();
  float* const x = args.x.data();
  if (n < kLanes) return SignedHadamardScalar(args);
  const auto lane = hn::Iota(du, 0);
  // The sign bit, in the lanes whose number has this bit set.
  const auto sign_where = [&](uint32_t bit) HWY_ATTR {
    const auto set = hn::Eq(hn::And(lane, hn::Set(du, bit)), hn::Set(du, bit));
    return hn::BitCast(d, hn::IfThenElseZero(set, hn::Set(du, 0x80000000u)));
  };
  const FloatVector upper1 = sign_where(1), upper2 = sign_where(2);
  [[maybe_unused]] const FloatVector upper4 = sign_where(4), upper8 = sign_where(8);
  const auto bit_of_lane = hn::Shl(hn::Set(du, 1), lane);
  for (size_t c = 0; c < n; c += kLanes) {
    const auto bits = hn::Set(du, static_cast<uint32_t>(args.signs[c / 64] >> (c % 64)));
    const auto negated = hn::Eq(hn::And(bits, bit_of_lane), bit_of_lane);
    const auto sign = hn::IfThenElseZero(negated, hn::Set(du, 0x80000000u));
    FloatVector v = hn::Xor(hn::LoadU(d, x + c), hn::BitCast(d, sign));
    v = Butterfly(v, hn::Shuffle2301(v), upper1);
    v = Butterfly(v, hn::Shuffle1032(v), upper2);
    if constexpr (kLanes >= 8) v = Butterfly(v, hn::SwapAdjacentBlocks(v), upper4);
    if constexpr (kLanes == 16) v = Butterfly(v, hn::ConcatLowerUpper(d, v, v), upper8);
    hn::StoreU(v, d, x + c);
  }
  for (size_t half = kLanes; half < n; half *= 2) {
    for (size_t begin = 0; begin < n; begin += 2 * half) {
      for (size_t c = begin; c < begin + half; c += kLanes) {
        const FloatVector a = hn::LoadU(d, x + c), b = hn::LoadU(d, x + c + half);
        hn::StoreU(hn::Add(a, b), d, x + c);
        hn::StoreU(hn::Sub(a, b), d, x + c + half);
      }
    }
  }
  const FloatVector scale = hn::Set(d, 1 / std::sqrt(static_cast<float>(n)));
  for (size_t c = 0; c < n; c += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + c), scale), d, x + c);
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(SignedHadamard);

void SignedHadamard(const SignedHadamardArgs& args) {
  assert(std::has_single_bit(args.x.size()) && args.signs.size() * 64 >= args.x.size());
  HWY_DYNAMIC_DISPATCH(SignedHadamard)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
