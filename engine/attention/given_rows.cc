#include "engine/attention/given_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lectern {

namespace {

size_t NumTrue(const std::vector<bool>& tokens) {
  return static_cast<size_t>(std::count(tokens.begin(), tokens.end(), true));
}

uint64_t RowBytesOf(const HeadIndex& head) { return head.dense_bytes() / head.num_rows(); }

}  // namespace

GivenRows::GivenRows(std::vector<bool> tokens, size_t num_layers)
    : tokens_(std::move(tokens)),
      num_tokens_(NumTrue(tokens_)),
      looks_up_(false),
      plan_{std::vector<double>(num_layers, 0.5), {}},
      selector_(
          [this](uint32_t layer, const LookupArgs& args) -> Result<std::vector<HeadSelection>> {
            return Select(layer, args.heads);
          }) {}

GivenRows::GivenRows(std::vector<bool> tokens, BudgetPlan lookup)
    : tokens_(std::move(tokens)),
      num_tokens_(NumTrue(tokens_)),
      looks_up_(true),
      plan_(std::move(lookup)),
      selector_(
          [this](uint32_t layer, const LookupArgs& args) { return SelectBeside(layer, args); }) {}

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
    selection.bytes = (num_ends + selection.rows.size()) * RowBytesOf(head);
  }
  return selections;
}

Result<std::vector<HeadSelection>> GivenRows::SelectBeside(uint32_t layer, const LookupArgs& args) {
  // Without a tail, in which the given rows would count a second time.
  LookupArgs rest = args;
  rest.tail = false;
  LECTERN_ASSIGN(std::vector<HeadSelection> selections, Lookup(rest));
  const std::vector<HeadSelection>& given = Select(layer, args.heads);
  for (size_t h = 0; h < selections.size(); ++h) {
    HeadSelection& selection = selections[h];
    std::vector<uint32_t> rows;
    rows.reserve(selection.rows.size() + given[h].rows.size());
    std::ranges::set_union(selection.rows, given[h].rows, std::back_inserter(rows));
    selection.bytes += (rows.size() - selection.rows.size()) * RowBytesOf(args.heads[h]);
    selection.rows = std::move(rows);
  }
  return selections;
}

}  // namespace lectern
