#include "engine/document/retrieval_heads.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <tuple>

namespace lectern {

Json RetrievalHeadsJson(const RetrievalHeads& heads) {
  Json::Array array;
  for (const auto& [layer, head, from_last_row] : heads.heads) {
    array.emplace_back(
        Json::Array{Json(int64_t{layer}), Json(int64_t{head}), Json(int64_t{from_last_row})});
  }
  return Json(std::move(array));
}

std::optional<RetrievalHeads> ParseRetrievalHeads(const Json& json, uint32_t num_layers) {
  if (json.array() == nullptr || json.array()->size() > kMostParsedHeads) return std::nullopt;
  RetrievalHeads heads;
  std::set<std::tuple<uint64_t, uint64_t, uint64_t>> seen;
  for (const Json& entry : *json.array()) {
    if (entry.array() == nullptr || entry.array()->size() != 3) return std::nullopt;
    uint64_t numbers[3];
    for (size_t i = 0; i < 3; ++i) {
      const auto number = (*entry.array())[i].unsigned_integer();
      if (!number || *number > UINT32_MAX) return std::nullopt;
      numbers[i] = *number;
    }
    const auto [layer, head, from_last_row] = numbers;
    if (layer >= num_layers || from_last_row > 1) return std::nullopt;
    if (!seen.insert({layer, head, from_last_row}).second) return std::nullopt;
    heads.heads.push_back(
        {static_cast<uint32_t>(layer), static_cast<uint32_t>(head), from_last_row == 1});
  }
  return heads;
}

std::vector<RetrievalWeights> WeightsByLayer(const RetrievalHeads& heads, uint32_t num_layers,
                                             uint32_t num_heads) {
  std::vector<RetrievalWeights> layers(num_layers);
  for (const auto& [layer, head, from_last_row] : heads.heads) {
    assert(layer < num_layers && head < num_heads);
    RetrievalWeights& weights = layers[layer];
    weights.all_rows.resize(num_heads);
    weights.last_row.resize(num_heads);
    (from_last_row ? weights.last_row : weights.all_rows)[head] = 1;
  }
  return layers;
}

}  // namespace lectern
