#include "kernels/rms_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm_simd.cc"
#include "hwy/foreach_target.h"

#include <cmath>

#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void RmsNorm(const RmsNormArgs& args) { RmsNormScalar(args); }
#else

// Sum of squares in four independent chains: a row is short, and a single chain would spend most of
// its time waiting for the latency of its own additions.
float SumSquares(const float* x, size_t num_cols) {
  const FloatTag d;
  FloatVector sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  size_t c = 0;
  for (; c + 4 * kLanes <= num_cols; c += 4 * kLanes) {
    for (size_t i = 0; i < 4; ++i) {
      const FloatVector v = hn::LoadU(d, x + c + i * kLanes);
      sum[i] = hn::MulAdd(v, v, sum[i]);
    }
  }
  const FloatVector all = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  float total = hn::GetLane(hn::SumOfLanes(d, all));
  for (; c < num_cols; ++c) total += x[c] * x[c];
  return total;
}

// RmsNormSimd for this instruction set.
void RmsNorm(const RmsNormArgs& args) {
  const FloatTag d;
  const size_t num_cols = args.input.num_cols;
  for (size_t r = 0; r < args.input.num_rows; ++r) {
    const float* in = args.input[r];
    float* out = args.output[r];
    const float mean = SumSquares(in, num_cols) / static_cast<float>(num_cols);
    const float factor = 1 / std::sqrt(mean + args.epsilon);
    size_t c = 0;
    for (; c + kLanes <= num_cols; c += kLanes) {
      const FloatVector scaled = hn::Mul(hn::LoadU(d, in + c), hn::Set(d, factor));
      hn::StoreU(hn::Mul(scaled, hn::LoadU(d, &args.weight[c])), d, out + c);
    }
    for (; c < num_cols; ++c) out[c] = in[c] * factor * args.weight[c];
  }
}

#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(RmsNorm);

void RmsNormSimd(const RmsNormArgs& args) {
  assert(args.weight.size() == args.input.num_cols);
  assert(args.output.num_cols == args.input.num_cols);
  assert(args.output.num_rows == args.input.num_rows);
  HWY_DYNAMIC_DISPATCH(RmsNorm)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
