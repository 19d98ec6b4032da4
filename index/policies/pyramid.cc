// Policy pyramid, PyramidKV (arXiv:2406.02069): low layers look at many rows, high layers at few,
// so shares fall along an arithmetic sequence.
//
// The window is read in every layer. The rest is B rows per layer in the mean. The last layer gets
// B / beta and the first 2 B - B / beta; the layers between lie on the line. If the first layer
// would get more rows than there are, it gets all, and the last gets 2 B less that. The published
// code rounds the step down, which gives the last layer more than intended and lets the total grow
// (B = 120, 32 layers: 4016 rows instead of 3840); here the numbers stay as in the paper and the
// plan rounds.
#include <algorithm>

#include "index/policies/policy.h"

namespace lectern {

constexpr double kBeta = 20;  // as in the paper and its code

std::vector<double> PyramidShares(const PolicyInput& input) {
  std::vector<double> shares;
  for (size_t i = 0; i < input.rows.size(); ++i) {
    const double rows = static_cast<double>(input.rows[i]);
    const double most = rows - input.num_protected;
    const double mean = input.kv_budget * rows - input.num_protected;
    if (input.num_layers == 1 || mean <= 0 || most <= 0) {
      shares.push_back(input.kv_budget);
      continue;
    }
    const double first = std::min(2 * mean - mean / kBeta, most), last = 2 * mean - first;
    const double place =
        static_cast<double>(i / input.num_kv_heads) / static_cast<double>(input.num_layers - 1);
    shares.push_back((input.num_protected + first + (last - first) * place) / rows);
  }
  return shares;
}

}  // namespace lectern
