// Evaluates retention with a tail: rows that a document does not keep are represented by clusters
// of the whole document.
#ifndef LECTERN_TOOLS_EVALUATE_EVICTED_TAIL_H_
#define LECTERN_TOOLS_EVALUATE_EVICTED_TAIL_H_

#include "engine/attention/document_attention.h"

namespace lectern::evaluate {

// The share of all rows that costs, together with every finest cluster of `whole` (centroid, mean
// value, variance and count), as much as the share `keep` of them, to within one row of the
// document. kInvalidArgument where clusters alone cost as much.
Result<double> KeepBesideClusters(const Document& whole, double keep);

// Makes a selector that reads, of the whole document, all rows that `kept`, the same document,
// keeps, whatever the budget. Each finest cluster stands in for those of its keys that are gone,
// with their number, its mean value, centroid and, as LookupArgs::second_order says, variance; a
// head that keeps every row needs none. `kept` outlives the selector.
Selector SelectKeptRows(const Document& kept);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_EVICTED_TAIL_H_
