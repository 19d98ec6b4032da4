#include "engine/forward/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lectern {

void Route(Rows<const float> scores, const ExpertsConfig& experts, Routing* routing) {
  const size_t num_tokens = scores.num_rows, used = experts.used, count = experts.count;
  routing->rows.resize(num_tokens * used);
  routing->tokens.resize(num_tokens * used);
  routing->weights.resize(num_tokens * used);
  routing->scratch.resize(num_tokens * used);
  std::vector<uint32_t>& chosen = routing->chosen;  // [tokens, used], then an order of all experts
  chosen.resize(num_tokens * used + count);
  uint32_t* const order = chosen.data() + num_tokens * used;
  // Offsets of the experts' rows are counted first.
  std::vector<size_t> begins(count + 1);
  for (size_t t = 0; t < num_tokens; ++t) {
    const float* const score = scores[t];
    const auto value = [&](uint32_t expert) {
      return std::isnan(score[expert]) ? -INFINITY : score[expert];
    };
    std::iota(order, order + count, 0u);
    std::partial_sort(order, order + used, order + count, [&](uint32_t a, uint32_t b) {
      return value(a) != value(b) ? value(a) > value(b) : a < b;
    });
    const float largest = score[order[0]];
    float sum = 0;
    for (size_t j = 0; j < (experts.normalised ? used : count); ++j) {
      sum += std::exp(score[experts.normalised ? order[j] : j] - largest);
    }
    std::sort(order, order + used);
    for (size_t j = 0; j < used; ++j) {
      chosen[t * used + j] = order[j];
      routing->scratch[t * used + j] = std::exp(score[order[j]] - largest) / sum;
      ++begins[order[j] + 1];
    }
  }
  routing->groups.clear();
  for (size_t expert = 0; expert < count; ++expert) {
    begins[expert + 1] += begins[expert];
    if (begins[expert + 1] == begins[expert]) continue;
    routing->groups.push_back({static_cast<uint32_t>(expert), begins[expert], begins[expert + 1]});
  }
  for (size_t i = 0; i < num_tokens * used; ++i) {
    const size_t row = begins[chosen[i]]++;
    routing->tokens[row] = static_cast<uint32_t>(i / used);
    routing->weights[row] = routing->scratch[i];
    routing->rows[i] = static_cast<uint32_t>(row);
  }
}

}  // namespace lectern
