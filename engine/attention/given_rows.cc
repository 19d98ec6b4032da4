#include "engine/attention/given_rows.h"

#include <algorithm>
#include <utility>

namespace lectern {

GivenRows::GivenRows(std::vector<bool> tokens, size_t num_layers)
    : tokens_(std::move(tokens)),
      num_tokens_(static_cast<size_t>(std::count(tokens_.begin(), tokens_.end(), true))),
      plan_{std::vector<double>(num_layers, 0.5), {}},
      selector_([this](uint32_t layer, const LookupArgs& args)
                    -> Result<std::vector<HeadSelection>> { return Select(layer, args.heads); }) {}

const std::vector<HeadSelection>& GivenRows::Select(uint32_t layer,
                                                    std::span<const HeadIndex> heads) {
  if (layers_.size() <= layer) layers_.resize(layer + 1);
  std::vector<HeadSelection>& selections = layers_[layer];
  if (!selections.empty()) return selections;
  for (const HeadIndex& head : heads) {
    HeadSelection& selection = selections.emplace_back();
    selection.Clear(head.levels().size());
    const std::span<const uint32_t> positions = head.positions();
    // Sinks and window, which are read besides; without clusters there are none.
    const uint32_t num_ends = head.levels().empty() ? 0 : head.num_exact();
    for (uint32_t row = num_ends; row < head.num_rows(); ++row) {
      if (tokens_[positions[row]]) selection.rows.push_back(row);
    }
    const uint64_t row_bytes = head.dense_bytes() / head.num_rows();
    selection.bytes = (num_ends + selection.rows.size()) * row_bytes;
  }
  return selections;
}

}  // namespace lectern
