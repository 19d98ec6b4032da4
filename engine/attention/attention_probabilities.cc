#include "engine/attention/attention_probabilities.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/attention/step.h"

namespace lectern {
namespace {

// Columns that are tested and exponentiated together. By hand; no measurement of other sizes is on
// record. It changes the speed alone, because each column is tested again by itself.
constexpr size_t kProbabilityTile = 64;

// limits[r] is the logit below which, if no row reaches its limit, a column's sum of squares stays
// below kNegligibleSquares: squares sum to at most lse.size() * exp(2 (limit - lse)).
void FindLimits(std::span<const float> lse, std::vector<float>& limits) {
  const float least = 0.5f * std::log(kNegligibleSquares / static_cast<float>(lse.size()));
  limits.resize(lse.size());
  for (size_t r = 0; r < lse.size(); ++r) limits[r] = lse[r] + least;
}

// Adds a tile's attention. Its columns are [begin, begin + logits.num_cols) of all that a head
// observed.
template <typename RowOf>
void AddTile(const Backend& backend, const HeadIndex& head, Rows<float> logits,
             std::span<const float> lse, std::span<const float> limits, size_t begin,
             const RowOf& row_of, std::span<double> mass, std::span<double> squared_mass) {
  // In a long document most tiles hold nothing above the limits. They are skipped before the
  // exponential, and before looking up their positions, which would cost most.
  if (mass.empty() && !backend.any_at_least({.logits = logits, .limits = limits})) return;
  backend.exp_rows({.logits = logits, .reference = lse});
  std::array<float, kProbabilityTile> squares{};
  for (size_t r = 0; r < lse.size(); ++r) {
    for (size_t i = 0; i < logits.num_cols; ++i) squares[i] += logits[r][i] * logits[r][i];
  }
  for (size_t i = 0; i < logits.num_cols; ++i) {
    if (mass.empty() && squares[i] < kNegligibleSquares) continue;
    const size_t position = head.positions()[row_of(begin + i)];
    if (!squared_mass.empty()) squared_mass[position] += ToExactShare(double{squares[i]});
    for (size_t r = 0; !mass.empty() && r < lse.size(); ++r) mass[position] += logits[r][i];
  }
}

// Adds the attention of the rows whose logits these are; row_of(i) is the stored row of column i.
template <typename RowOf>
void AddRows(const Backend& backend, const HeadIndex& head, std::span<float> logits,
             std::span<const float> lse, std::span<const float> limits, const RowOf& row_of,
             std::span<double> mass, std::span<double> squared_mass) {
  const Rows<float> rows(logits.data(), lse.size(), logits.size() / lse.size());
  for (size_t begin = 0; begin < rows.num_cols; begin += kProbabilityTile) {
    const size_t size = std::min(kProbabilityTile, rows.num_cols - begin);
    AddTile(backend, head, {rows.data + begin, rows.num_rows, size, rows.stride}, lse, limits,
            begin, row_of, mass, squared_mass);
  }
}

}  // namespace

void AddProbabilities(const Backend& backend, const HeadIndex& head, const DocumentRead& read,
                      uint32_t kv_head, ObservedLogits& observed, std::span<const float> lse,
                      std::span<double> mass, std::span<double> squared_mass) {
  FindLimits(lse, observed.limits);
  AddRows(
      backend, head, observed.exact[kv_head], lse, observed.limits, [](size_t i) { return i; },
      mass, squared_mass);
  const auto row_of = [&](size_t i) {
    return read.exact ? head.num_exact() + i : read.heads[kv_head].rows[i];
  };
  AddRows(backend, head, observed.rest[kv_head], lse, observed.limits, row_of, mass, squared_mass);
}

}  // namespace lectern
