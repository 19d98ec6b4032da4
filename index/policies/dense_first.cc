// Policy dense-first: the first two layers are read whole, as Quest (arXiv:2406.10774) and others
// do, and the other layers share the rest equally.
//
// Fewer than two layers are read whole if the budget cannot pay for them beside the floors of the
// other layers. If it cannot pay for one, all layers get equal shares: in a model of n layers that
// happens below a budget of about 1 / n.
#include <numeric>

#include "index/policies/policy.h"

namespace lectern {

// As in Quest (arXiv:2406.10774), whose lookup skips the first two layers.
constexpr uint32_t kMostDense = 2;
// Wanted so much more, a layer fills up before the others rise above their floors. Any number far
// above the number of rows would do.
constexpr double kFirst = 1e9;

std::vector<double> DenseFirstShares(const PolicyInput& input) {
  std::vector<double> layer_rows(input.num_layers, 0.0);
  for (size_t i = 0; i < input.rows.size(); ++i) {
    layer_rows[i / input.num_kv_heads] += static_cast<double>(input.rows[i]);
  }
  double left = input.kv_budget * std::accumulate(layer_rows.begin(), layer_rows.end(), 0.0) -
                std::accumulate(input.floors.begin(), input.floors.end(), 0.0);
  uint32_t dense = 0;
  for (; dense < kMostDense && dense < input.num_layers; ++dense) {
    left -= layer_rows[dense] - input.floors[dense];
    if (left < 0) break;
  }
  std::vector<double> shares;
  for (size_t i = 0; i < input.rows.size(); ++i) {
    shares.push_back(i / input.num_kv_heads < dense ? kFirst : 1);
  }
  return shares;
}

}  // namespace lectern
