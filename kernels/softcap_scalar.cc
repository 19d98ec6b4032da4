#include "kernels/softcap.h"

namespace lectern {

void SoftcapScalar(const SoftcapArgs& args) {
  assert(args.cap > 0);
  for (size_t r = 0; r < args.logits.num_rows; ++r) {
    for (size_t j = 0; j < args.logits.num_cols; ++j) {
      args.logits[r][j] = static_cast<float>(Softcapped(args.logits[r][j], args.cap));
    }
  }
}

}  // namespace lectern
