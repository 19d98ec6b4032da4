#include "kernels/softcap.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softcap_simd.cc"
#include "hwy/foreach_target.h"

#include "kernels/softcap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
void Softcap(const SoftcapArgs& args) { SoftcapScalar(args); }
#else
void Softcap(const SoftcapArgs& args) {
  for (size_t r = 0; r < args.logits.num_rows; ++r) {
    SoftcapRow(args.logits[r], args.logits.num_cols, 1 / args.cap, args.cap);
  }
}
#endif  // HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(Softcap);

void SoftcapSimd(const SoftcapArgs& args) {
  assert(args.cap > 0);
  HWY_DYNAMIC_DISPATCH(Softcap)(args);
}

}  // namespace lectern
#endif  // HWY_ONCE
