// How many rows a lookup by row codes scores and reads, beside its byte budget. Used by the lookups
// of the CPU and of the GPU.
//
// A few query rows, such as a token's, score and read fewer rows of all kinds, because choosing and
// gathering take most of such a step's time, and most of its errors come from codes that are not
// read. Errors of an answer's tokens stay at or below those of the question before them
// (tools/evaluate/RESULTS.md).
#ifndef LECTERN_INDEX_ROW_LIMITS_H_
#define LECTERN_INDEX_ROW_LIMITS_H_

#include <cstddef>

namespace lectern {

// At most kCodesShare of the budget's bytes that centroids and sinks leave goes to row codes; at
// most kFineShare of the bytes left then goes to fine codes. They bind at small budgets, where
// fewer codes leave more rows to be read. Against 0.5 and 0.35, at 0.05, errors of questions
// changed from 0.148 to 0.135 (Gemma 3 270M), 0.096 to 0.094 (SmolLM2-135M) and 0.165 to 0.165
// (bundled reader); 0.6 and 0.35 gave 0.159 and 0.099, 0.35 and 0.2 gave 0.137 and 0.094
// (tools/evaluate/RESULTS.md).
inline constexpr double kCodesShare = 0.4, kFineShare = 0.25;
// At least so many rows compete for each row that can be read. By hand; no measurement is on
// record. More would open more clusters and read more codes before the first row is read.
inline constexpr double kSpareRows = 1.2;

// The most rows of a layer, all kv heads together, whose row codes are read, whose fine codes are
// read, and that are read themselves, beside sinks and window. More rows take longer and were not
// found to be better.
struct RowLimits {
  double coded, refined, read;
};
// The limits at a budget; budgets below 0.1 have those of 0.1. `num_rows`: clustered rows of all
// heads; `num_query_rows`: query rows of one kv head.
RowLimits LimitsOf(double kv_budget, double num_rows, size_t num_heads, size_t num_query_rows);

// The bytes that a lookup pays for one row code, one fine code, and the key and value of one row.
struct RowCosts {
  double row_code, fine_code, row;  // bytes
};
// How many rows of each kind such a lookup takes from the rest of a budget, where nothing but bytes
// and limits decides, as in the GPU's lookup. Not rounded to whole rows; 0 where `bytes` do not
// suffice; no more rows are read than refined, and no more refined than coded.
RowLimits RowsOfBytes(double bytes, const RowCosts& costs, const RowLimits& limits);

}  // namespace lectern

#endif  // LECTERN_INDEX_ROW_LIMITS_H_
