// An experiment for lectern-evaluate (METHOD+tail@KEEP): a document that keeps a share of its rows,
// and lets clusters of the whole document stand for the rows that are gone. Lectern does not ship
// it.
#ifndef LECTERN_TOOLS_EVALUATE_EVICTED_TAIL_H_
#define LECTERN_TOOLS_EVALUATE_EVICTED_TAIL_H_

#include "engine/attention/document_attention.h"

namespace lectern::evaluate {

// Returns the share of rows to keep so that those rows, together with every finest cluster of
// `whole` (centroid, mean value, variance and count), cost as many bytes as the share `keep` of the
// rows alone, to within one row of the document. kInvalidArgument: the clusters alone cost as much.
Result<double> KeepBesideClusters(const Document& whole, double keep);

// Makes a selector for sessions on the whole document. It reads all rows that `kept`, the same
// document with fewer rows, keeps, whatever the budget. Each finest cluster stands for its keys
// that are gone, with their number, its centroid and mean value, and, if LookupArgs::second_order
// says so, its variance. A head that keeps every row needs no clusters. `kept` outlives the
// selector. Its errors are those of Document::Heads, and kChecksumMismatch.
Selector SelectKeptRows(const Document& kept);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_EVICTED_TAIL_H_
