// PyramidKV (arXiv:2406.02069): low layers look at much, high layers at little, along an arithmetic
// sequence.
//
// The window is read in every layer. Of what is left, B rows a layer in the mean, the last layer
// gets B / beta, the first 2 B less that, those between lie on the line. Where the first would get
// more than there is it gets all, and the last 2 B less that. Published code rounds the step down,
// by which the last layer gets more than meant and the total grows (B = 120, 32 layers: 4016 rows
// for 3840); here the numbers stay as in the paper and the plan rounds.
#include <algorithm>

#include "index/policies/policy.h"

namespace lectern {

constexpr double kBeta = 20;

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
