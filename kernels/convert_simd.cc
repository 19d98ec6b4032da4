#include "kernels/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert_simd.cc"
#include "hwy/foreach_target.h"

#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void ToFloatRows(TypedRows rows, Rows<float> out) { ToFloatRowsScalar(rows, out); }
void FromFloatRows(Rows<const float> rows, Dtype dtype, std::byte* out) {
  FromFloatRowsScalar(rows, dtype, out);
}
#else

template <Dtype kDtype>
void ToFloatRowsOf(TypedRows rows, Rows<float> out) {
  const FloatTag d;
  for (size_t r = 0; r < rows.num_rows; ++r) {
    size_t c = 0;
    for (; c + kLanes <= rows.num_cols; c += kLanes) {
      hn::StoreU(LoadVector<kDtype>(rows.row(r), c), d, out[r] + c);
    }
    for (; c < rows.num_cols; ++c) out[r][c] = LoadElement(rows.row(r), kDtype, c);
  }
}

void ToFloatRows(TypedRows rows, Rows<float> out) {
  switch (rows.dtype) {
    case Dtype::kF32: return ToFloatRowsOf<Dtype::kF32>(rows, out);
    case Dtype::kF16: return ToFloatRowsOf<Dtype::kF16>(rows, out);
    case Dtype::kBf16: return ToFloatRowsOf<Dtype::kBf16>(rows, out);
    case Dtype::kQ8: return ToFloatRowsOf<Dtype::kQ8>(rows, out);
  }
}

using Bits = hn::Rebind<uint32_t, FloatTag>;

// Stores a vector at any alignment.
template <class V>
HWY_INLINE void StoreBytes(V v, std::byte* to) {
  const hn::Repartition<uint8_t, hn::DFromV<V> > bytes;
  hn::StoreU(hn::BitCast(bytes, v), bytes, reinterpret_cast<uint8_t*>(to));
}

// Stores the low halves of `bits`, all below 65536, as 2 * kLanes bytes.
HWY_INLINE void StoreLow16(hn::Vec<Bits> bits, std::byte* to) {
  uint32_t wide[kLanes];
  uint16_t narrow[kLanes];
  hn::StoreU(bits, Bits(), wide);
  for (size_t i = 0; i < kLanes; ++i) narrow[i] = static_cast<uint16_t>(wide[i]);
  std::memcpy(to, narrow, sizeof narrow);
}

// ToF16 (types.h) in vector form, step by step: all four cases are computed and the right one is
// selected.
HWY_INLINE hn::Vec<Bits> F16Bits(FloatVector x) {
  const FloatTag d;
  const Bits du;
  const auto bits = hn::BitCast(du, x);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  auto half =
      hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, odd), hn::Set(du, 0xFFFu - 0x38000000u)));
  const auto rounded = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
  const auto subnormal = hn::Sub(hn::BitCast(du, rounded), hn::Set(du, 0x3F000000u));
  half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000u)), subnormal, half);
  half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477FEFFFu)), hn::Set(du, 0x7C00u), half);
  const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3FFu));
  half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7F800000u)),
                        hn::Or(payload, hn::Set(du, 0x7E00u)), half);
  return hn::Or(sign, half);
}

// ToBf16 in vector form.
HWY_INLINE hn::Vec<Bits> Bf16Bits(FloatVector x) {
  const Bits du;
  const auto bits = hn::BitCast(du, x);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, odd), hn::Set(du, 0x7FFFu)));
  const auto is_nan = hn::Gt(hn::And(bits, hn::Set(du, 0x7FFFFFFFu)), hn::Set(du, 0x7F800000u));
  return hn::IfThenElse(is_nan, hn::Or(high, hn::Set(du, 0x40u)), rounded);
}

// The scalar QuantizeBlock in vector form. Clamping before rounding gives the same int8, because
// the bounds are whole numbers.
HWY_INLINE void QuantizeBlock(const float* x, std::byte* out) {
  const FloatTag d;
  FloatVector largest = hn::Zero(d);
  for (size_t i = 0; i < kQ8Block; i += kLanes) {
    largest = hn::Max(largest, hn::Abs(hn::LoadU(d, x + i)));
  }
  const f16 stored = Q8Scale(hn::GetLane(hn::MaxOfLanes(d, largest)));
  std::memcpy(out, &stored, sizeof stored);
  std::memset(out + 2, 0, kQ8Block);
  if (!(ToFloat(stored) > 0)) return;
  const FloatVector scale = hn::Set(d, ToFloat(stored));
  const FloatVector limit = hn::Set(d, 127.0f);
  for (size_t i = 0; i < kQ8Block; i += kLanes) {
    const FloatVector steps = hn::Div(hn::LoadU(d, x + i), scale);
    const auto nearest = hn::NearestInt(hn::Max(hn::Min(steps, limit), hn::Neg(limit)));
    StoreBytes(hn::DemoteTo(hn::Rebind<int8_t, FloatTag>(), nearest), out + 2 + i);
  }
}

// Rounds a row to f16 or bf16; the rest that fills no vector goes through the scalar definition.
void RoundRow16(const float* x, size_t num_cols, Dtype dtype, std::byte* out) {
  const FloatTag d;
  size_t c = 0;
  for (; c + kLanes <= num_cols; c += kLanes) {
    const FloatVector v = hn::LoadU(d, x + c);
    StoreLow16(dtype == Dtype::kF16 ? F16Bits(v) : Bf16Bits(v), out + 2 * c);
  }
  const Rows<const float> rest(x + c, 1, num_cols - c);
  FromFloatRowsScalar(rest, dtype, out + 2 * c);
}

// FromFloatRowsSimd for this instruction set.
void FromFloatRows(Rows<const float> rows, Dtype dtype, std::byte* out) {
  const size_t row_bytes = RowBytes(dtype, rows.num_cols);
  for (size_t r = 0; r < rows.num_rows; ++r, out += row_bytes) {
    switch (dtype) {
      case Dtype::kF32: std::memcpy(out, rows[r], row_bytes); break;
      case Dtype::kF16:
      case Dtype::kBf16: RoundRow16(rows[r], rows.num_cols, dtype, out); break;
      case Dtype::kQ8:
        for (size_t c = 0; c < rows.num_cols; c += kQ8Block) {
          QuantizeBlock(rows[r] + c, out + RowBytes(dtype, c));
        }
        break;
    }
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(ToFloatRows);
HWY_EXPORT(FromFloatRows);

void ToFloatRowsSimd(TypedRows rows, Rows<float> out) {
  assert(out.num_rows == rows.num_rows && out.num_cols == rows.num_cols);
  HWY_DYNAMIC_DISPATCH(ToFloatRows)(rows, out);
}

void FromFloatRowsSimd(Rows<const float> rows, Dtype dtype, std::byte* out) {
  assert(dtype != Dtype::kQ8 || rows.num_cols % kQ8Block == 0);
  HWY_DYNAMIC_DISPATCH(FromFloatRows)(rows, dtype, out);
}

}  // namespace lectern
#endif  // HWY_ONCE
