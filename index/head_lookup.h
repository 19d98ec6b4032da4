// The lookup of one kv head, level after level; index/lookup.cc decides what is opened and read.
#ifndef LECTERN_INDEX_HEAD_LOOKUP_H_
#define LECTERN_INDEX_HEAD_LOOKUP_H_

#include <vector>

#include "index/lookup.h"

namespace lectern {

// One thread at a time. Call order: Score(first), Descend(first), … Score(finest), then either
// FinishClusters, or ScoreRows, RefineRows and FinishRows.
class HeadLookup {
 public:
  // Begins at `first_level`, with all its clusters open; levels above it are not read.
  HeadLookup(const LookupArgs& args, size_t head, size_t first_level);

  const HeadIndex& head() const { return head_; }
  const std::vector<IndexRange>& open() const { return open_; }  // clusters of the current level
  const std::vector<float>& scores() const { return scores_; }   // S, in the order of open()

  // S of every open cluster of the level.
  Status Score(size_t level);
  // Goes on with the children of `opened` (ascending); the rest stays as tail and denominator.
  void Descend(size_t level, const std::vector<uint32_t>& opened);
  // Finest level: reads all rows of `chosen` (ascending).
  void FinishClusters(const std::vector<uint32_t>& chosen);

  // Finest level: reads the row codes of `coded` (ascending) and scores each of their rows.
  Status ScoreRows(const std::vector<uint32_t>& coded);
  const std::vector<float>& row_scores() const { return row_scores_; }
  // Reads the fine codes of rows `refined` (indices into row_scores(), ascending) and scores every
  // row again.
  Status RefineRows(const std::vector<uint32_t>& refined);
  const std::vector<uint32_t>& refined() const { return refined_; }
  uint32_t StoredRow(size_t index) const { return coded_rows_[index]; }  // of row_scores()
  // Reads rows chosen[i] (indices into row_scores(), ascending).
  void FinishRows(const std::vector<uint32_t>& chosen);

  HeadSelection& selection() { return selection_; }

 private:
  template <typename Body>
  void ForEachTile(size_t level, const Body& body);
  template <typename Body>
  void ForEachCodedTile(const Body& body);
  Rows<float> EstimateRows(Rows<const float> centroid_logits, size_t begin, size_t end);
  void ScoreCodedRows();
  // A cluster of the logit tail: columns of open finest clusters below it, and rows with codes.
  struct TailCluster {
    uint32_t cluster, begin_column, end_column, begin_row, end_row;
  };
  std::vector<TailCluster> TailClusters(const std::vector<uint32_t>& chosen) const;
  void MakeLogitTail(const std::vector<uint32_t>& chosen);
  void AddMissed(size_t level, const std::vector<uint32_t>& read);
  void CountBytes();
  size_t finest() const { return head_.levels().size() - 1; }

  const LookupArgs& args_;
  const HeadIndex& head_;
  const Rows<const float> queries_;
  std::vector<IndexRange> open_;
  std::vector<float> log_counts_, scores_;  // of open_
  std::vector<float> rejected_lse_;  // [R]: log mass of clusters rejected so far, and what is known

  std::vector<uint32_t> coded_;          // clusters, ascending
  std::vector<uint32_t> coded_columns_;  // of coded clusters, in open_
  std::vector<uint32_t> coded_begin_;    // [coded + 1]: their rows, in coded_rows_
  std::vector<uint32_t> coded_rows_;     // stored rows
  std::vector<float> row_scores_;        // S of each coded row
  std::vector<float> decoded_;           // [coded rows, head_dim]
  std::vector<uint32_t> refined_;        // coded rows whose fine codes were read
  std::vector<float> rotated_;           // [R, head_dim]: H q

  std::vector<float> logits_, row_logits_, lse_, scratch_;  // of a tile of query rows
  double missed_mass_ = 0;
  HeadSelection selection_;
};

// Ascending numbers as ranges.
std::vector<IndexRange> ToRanges(const std::vector<uint32_t>& ascending);

}  // namespace lectern

#endif  // LECTERN_INDEX_HEAD_LOOKUP_H_
