#include "engine/indexing/measure_missed.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

// The budgets at which calibration measures; between them it interpolates.
constexpr double kBudgets[] = {0.2, 0.1, 0.05, 0.02};

}  // namespace

double TrulyMissed(const DocumentRead& read, std::span<const std::span<float>> lse,
                   std::span<const float> weights) {
  double missed = 0;
  for (size_t h = 0; h < lse.size(); ++h) {
    for (size_t r = 0; r < lse[h].size(); ++r) {
      // exp(read_lse - lse) is the share of the rows that were read. Both are rounded sums, so it
      // may come out a little above 1.
      const double share = 1 - std::exp(std::min(0.0, double{read.read_lse[h][r]} - lse[h][r]));
      const double weight =
          weights.empty() ? 1 / static_cast<double>(lse[h].size()) : double{weights[r]};
      missed += weight * share / static_cast<double>(lse.size());
    }
  }
  return missed;
}

Result<ExactAnswer> LookUpBeside(DocumentSession& session, std::string_view question,
                                 uint32_t max_tokens, bool bound, const LookedUp& body) {
  LECTERN_ASSIGN(const double smallest, session.SmallestServed(true));
  Status failed;
  std::vector<float> output;
  session.probe().on_layer = [&](const LayerStep& step) {
    for (const double budget : kBudgets) {
      if (!failed.ok() || budget < smallest) continue;
      const auto read = session.AttendAgain(budget, true, output, bound, /*as_stored=*/true);
      if (!read.ok()) {
        failed = read.status();
      } else if (!read->exact) {  // which misses nothing of what is stored
        body(budget, step, *read);
      }
    }
  };
  // The answer must be the exact one: with another answer the steps would ask something else.
  AskOptions options;
  options.max_tokens = max_tokens;
  options.max_evidence = 0;
  auto exact = AskExactly(session, question, options);
  session.probe().on_layer = {};
  session.Forget();
  LECTERN_RETURN_IF_ERROR(failed);
  return exact;
}

}  // namespace lectern
