// The first two layers are read whole, as Quest (arXiv:2406.10774) and others leave them, and the
// others share what is left alike.
//
// Of the two as many as the budget pays beside the floors of the other layers. Where it does not
// pay one, all layers are alike: of a model of n layers below a budget of about 1 / n.
#include <numeric>

#include "index/policies/policy.h"

namespace lectern {

constexpr uint32_t kMostDense = 2;
constexpr double kFirst = 1e9;  // wanted this much more, a layer is full before another rises

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
