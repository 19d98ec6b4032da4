#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/ranks/communicator.h"
#include "index/lookup_share.h"
#include "kernels/attention.h"

namespace lectern {

void JoinPartialRows(std::span<const float> from, std::span<float> into, size_t row_floats) {
  const size_t dim = row_floats - kPartialRowFloats;
  std::vector<float> other(dim);
  for (size_t begin = 0; begin < into.size(); begin += row_floats) {
    PartialRow a, b;
    std::memcpy(&a, into.data() + begin, sizeof(a));
    std::memcpy(&b, from.data() + begin, sizeof(b));
    float* const out = into.data() + begin + kPartialRowFloats;
    std::copy_n(from.data() + begin + kPartialRowFloats, dim, other.data());
    MergeStates({{out, 1, dim}, {&a.max, 1}, {&a.sum, 1}},
                {{other.data(), 1, dim}, {&b.max, 1}, {&b.sum, 1}});
    a.read_lse = LogAddExp(a.read_lse, b.read_lse);
    a.unread_bound = LogAddExp(a.unread_bound, b.unread_bound);
    std::memcpy(into.data() + begin, &a, sizeof(a));
  }
}

}  // namespace lectern
