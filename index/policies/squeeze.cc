// Policy squeeze, SqueezeAttention (arXiv:2404.04793): layers whose attention changes the residual
// stream least give up most of their budget, and the others share it.
//
// Layers are divided into three groups by cosine similarity, by 3-means in one dimension. It is
// solved exactly, while the published code starts at random and may give another result each time.
// The group of greatest similarity keeps the share p of its budget; all other layers share equally
// what it gave up.
#include <algorithm>
#include <cmath>

#include "index/policies/policy.h"

namespace lectern {
namespace {

constexpr double kKept = 0.4;  // p: 0.3 to 0.4 in the paper, 0.4 best in its Table 6

// The least similarity in the third group, for the three groups of least squared error. Infinite
// where there are fewer than three different values.
double ThirdGroupFrom(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  // Prefix sums over values [0, i), relative to the first value: cosines near 1 would otherwise
  // lose their digits in the squares.
  std::vector<double> sums(n + 1, 0.0), squares(n + 1, 0.0);
  for (size_t i = 0; i < n; ++i) {
    const double x = values[i] - values.front();
    sums[i + 1] = sums[i] + x;
    squares[i + 1] = squares[i] + x * x;
  }
  // Squared error of values [begin, end) around their mean.
  const auto spread = [&](size_t begin, size_t end) {
    const double sum = sums[end] - sums[begin];
    return squares[end] - squares[begin] - sum * sum / static_cast<double>(end - begin);
  };
  const auto splits = [&](size_t i) { return values[i - 1] != values[i]; };
  double least = INFINITY, from = INFINITY;
  // All pairs of borders between different values: a model has few enough layers to try each.
  for (size_t second = 1; second + 1 < n; ++second) {
    if (!splits(second)) continue;
    for (size_t third = second + 1; third < n; ++third) {
      if (!splits(third)) continue;
      const double cost = spread(0, second) + spread(second, third) + spread(third, n);
      if (cost < least) {
        least = cost;
        from = values[third];
      }
    }
  }
  return from;
}

}  // namespace

std::vector<double> SqueezeShares(const PolicyInput& input) { return SqueezeShares(input, kKept); }

std::vector<double> SqueezeShares(const PolicyInput& input, double kept) {
  const double from = ThirdGroupFrom(input.cosine);
  double all = 0, third = 0;  // rows
  for (size_t i = 0; i < input.rows.size(); ++i) {
    const auto rows = static_cast<double>(input.rows[i]);
    all += rows;
    if (input.cosine[i / input.num_kv_heads] >= from) third += rows;
  }
  const double others = input.kv_budget * (all - kept * third) / (all - third);
  std::vector<double> shares;
  for (size_t i = 0; i < input.rows.size(); ++i) {
    const bool in_third = input.cosine[i / input.num_kv_heads] >= from;
    shares.push_back(in_third ? kept * input.kv_budget : others);
  }
  return shares;
}

}  // namespace lectern
