#include "kernels/backend.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/backend_simd.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lectern {
namespace HWY_NAMESPACE {

// Compiled once for every instruction set; HWY_DYNAMIC_DISPATCH picks the best one that runs here.
const char* ThisTarget() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace lectern
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lectern {

HWY_EXPORT(ThisTarget);

const char* SimdTarget() { return HWY_DYNAMIC_DISPATCH(ThisTarget)(); }

}  // namespace lectern
#endif  // HWY_ONCE
