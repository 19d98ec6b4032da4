// Highway's library, which Debian has no static one of: the three functions that kernels_test uses.
#include "hwy/targets.h"

namespace hwy {
namespace {

int64_t forced = 0;

}  // namespace

int64_t SupportedTargets() { return forced != 0 ? forced : HWY_AVX3_DL | HWY_AVX2 | HWY_SSE4; }

void SetSupportedTargetsForTest(int64_t targets) { forced = targets; }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
