#include "index/window_attention.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

// Sums over the tokens of one query head's attention probabilities, raised to this power: [L].
std::vector<double> PowerSums(const WindowAttentionArgs& args, size_t head, int power,
                              std::vector<float>& logits, std::span<float> scratch) {
  const size_t tokens = args.queries.num_rows / args.group, num_keys = args.keys.num_rows;
  const size_t dim = args.queries.num_cols;
  args.backend.key_logits({.queries = {args.queries.data + head * args.queries.stride, tokens, dim,
                                       args.group * args.queries.stride},
                           .keys = args.keys,
                           .scale = args.scale,
                           .logits = {logits.data(), tokens, num_keys},
                           .scratch = scratch});
  Softcap(args.backend, {logits.data(), tokens, num_keys}, args.softcap);
  std::vector<double> sums(num_keys, 0.0);
  for (size_t t = 0; t < tokens; ++t) {
    const float* row = logits.data() + t * num_keys;
    // Token t is at position num_keys - tokens + t and sees keys up to itself.
    const size_t visible = num_keys - tokens + t + 1;
    const double largest = *std::max_element(row, row + visible);
    double sum = 0;
    for (size_t i = 0; i < visible; ++i) sum += std::exp(row[i] - largest);
    const double lse = largest + std::log(sum);
    for (size_t i = 0; i < visible; ++i) sums[i] += std::exp(power * (row[i] - lse));
  }
  return sums;
}

// The largest of the kPooledKeys sums around each one; fewer at the ends.
std::vector<double> MaxPooled(const std::vector<double>& sums) {
  std::vector<double> pooled;
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t begin = i - std::min(i, kPooledKeys / 2);
    const size_t end = std::min(i + kPooledKeys / 2 + 1, sums.size());
    pooled.push_back(*std::max_element(sums.begin() + static_cast<ptrdiff_t>(begin),
                                       sums.begin() + static_cast<ptrdiff_t>(end)));
  }
  return pooled;
}

// Log of the sums over the query heads.
std::vector<float> LogOfSums(const std::vector<std::vector<double>>& of_heads) {
  std::vector<float> logs;
  for (size_t i = 0; i < of_heads.front().size(); ++i) {
    double sum = 0;
    for (const std::vector<double>& head : of_heads) sum += head[i];
    logs.push_back(static_cast<float>(std::log(sum)));
  }
  return logs;
}

}  // namespace

std::vector<std::vector<double>> WindowSums(const WindowAttentionArgs& args, int power) {
  const size_t tokens = args.queries.num_rows / args.group, num_keys = args.keys.num_rows;
  assert(tokens >= 1 && tokens <= num_keys);
  std::vector<float> logits(tokens * num_keys);
  std::vector<float> scratch(AttendScratch(tokens, args.queries.num_cols));
  std::vector<std::vector<double>> sums;
  for (size_t head = 0; head < args.group; ++head) {
    sums.push_back(MaxPooled(PowerSums(args, head, power, logits, scratch)));
  }
  return sums;
}

std::vector<float> SquaredWindowAttention(const WindowAttentionArgs& args) {
  return LogOfSums(WindowSums(args, 2));
}

std::vector<float> PlainWindowAttention(const WindowAttentionArgs& args) {
  return LogOfSums(WindowSums(args, 1));
}

}  // namespace lectern
