#include "index/row_limits.h"

#include <algorithm>

#include "index/lookup.h"

namespace lectern {
namespace {

// Limits in rows, for each row of the budget. With 6 and 1.8 errors at a budget of 0.1 stayed as
// they were without limits (0.068 -> 0.067 at 8K tokens, 0.037 -> 0.038 at 32K). The limits for few
// query rows kept the same answers and took a token at 131,072 tokens from 44 to 26 ms of CPU time.
constexpr double kMostCoded = 6, kMostRefined = 1.8;
// A token has the query rows of one group, up to 8 in Llama-family models (kernels/attention.h).
constexpr size_t kFewQueryRows = 8;
constexpr double kMostCodedByFew = 3, kMostRefinedByFew = 0.5;
// Times all rows and the square of the budget: 1 % of the rows at 0.1. Errors with 0.75 % and 2 %
// are in tools/evaluate/RESULTS.md, "How many rows and codes a lookup takes".
constexpr double kMostReadByFew = 1;
// Below kLongDocument all three are up to twice as large.

}  // namespace

RowLimits LimitsOf(double kv_budget, double num_rows, size_t num_heads, size_t num_query_rows) {
  const double budget = std::max(0.1, kv_budget);  // small budgets score as many rows as one of 0.1
  const double of_budget = budget * num_rows;
  if (num_query_rows > kFewQueryRows) {
    return {kMostCoded * of_budget, kMostRefined * of_budget, num_rows};
  }
  const double rows_of_head = num_rows / static_cast<double>(num_heads);
  const double more = std::clamp(double{kLongDocument} / std::max(1.0, rows_of_head), 1.0, 2.0);
  const double read = more * kMostReadByFew * budget * of_budget;
  return {more * kMostCodedByFew * of_budget,
          std::max(more * kMostRefinedByFew * of_budget, kSpareRows * read), read};
}

RowLimits RowsOfBytes(double bytes, const RowCosts& costs, const RowLimits& limits) {
  RowLimits rows = {};
  rows.coded = std::clamp(kCodesShare * bytes / costs.row_code, 0.0, limits.coded);
  bytes -= rows.coded * costs.row_code;
  rows.refined = std::clamp(std::min(kFineShare * bytes, bytes - costs.row) / costs.fine_code, 0.0,
                            std::min(limits.refined, rows.coded));
  bytes -= rows.refined * costs.fine_code;
  rows.read = std::clamp(bytes / costs.row, 0.0, std::min(limits.read, rows.refined));
  return rows;
}

}  // namespace lectern
