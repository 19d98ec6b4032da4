// How many rows a lookup by row codes draws on.
//
// For few query rows, as of a token's step, less of all kinds: choosing and gathering take most of
// its time, and most of its errors come from codes that are not read. Errors of answers' steps stay
// at or below those of the questions before them (tools/evaluate/RESULTS.md).
#ifndef LECTERN_INDEX_ROW_LIMITS_H_
#define LECTERN_INDEX_ROW_LIMITS_H_

#include <cstddef>

namespace lectern {

// Of the bytes of a budget that centroids and sinks leave at most this share goes to row codes, and
// of what is left then at most this one to fine codes.
inline constexpr double kCodesShare = 0.5, kFineShare = 0.35;
// Rows that compete, for each that can be read, at least.
inline constexpr double kSpareRows = 1.2;

// At most so many rows of a layer, all kv heads together: whose row codes are read, whose fine
// codes, and that are read, beside sinks and window. More takes longer and finds no better ones.
struct RowLimits {
  double coded, refined, read;
};
// `num_rows`: clustered ones of all heads; `num_query_rows`: of a kv head.
RowLimits LimitsOf(double kv_budget, double num_rows, size_t num_heads, size_t num_query_rows);

// How many of each kind such a lookup of a budget's rest takes, where nothing else decides.
struct RowCosts {
  double row_code, fine_code, row;  // bytes
};
RowLimits RowsOfBytes(double bytes, const RowCosts& costs, const RowLimits& limits);

}  // namespace lectern

#endif  // LECTERN_INDEX_ROW_LIMITS_H_
