// The lookup of one kv head, level after level; index/lookup.cc decides what is opened and read.
#ifndef LECTERN_INDEX_HEAD_LOOKUP_H_
#define LECTERN_INDEX_HEAD_LOOKUP_H_

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "index/lookup.h"
#include "index/second_order.h"
#include "kernels/sign_logits.h"

namespace lectern {

// An array that keeps its memory from step to step.
template <typename T>
class Reused {
 public:
  // The first `size` elements are there; those that were not before hold anything.
  std::span<T> Resize(size_t size) {
    if (size > capacity_) {
      const size_t capacity = std::max(size, capacity_ + capacity_ / 2);
      auto larger = std::make_unique_for_overwrite<T[]>(capacity);
      std::copy_n(data_.get(), size_, larger.get());
      data_ = std::move(larger);
      capacity_ = capacity;
    }
    size_ = size;
    return span();
  }
  std::span<T> span() { return {data_.get(), size_}; }
  T* data() { return data_.get(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::unique_ptr<T[]> data_;
  size_t size_ = 0, capacity_ = 0;
};

// What the lookup of one kv head fills and forgets.
struct HeadBuffers {
  // Of a tile of query rows: logits of open clusters, second order included, masses of coded rows,
  // of refined rows.
  Reused<float> logits, row_masses, fine_masses;
  Reused<float> lse, sums, scratch, rotated;
  Reused<float> bounds;  // of the coded rows that are not read, for a tile of query rows
  Reused<uint8_t> tables;
  Reused<SignScale> scales;
  // Of the coded rows and, with three planes, of those refined.
  Reused<std::byte> codes;  // as stored, or their planes
  Reused<std::byte> planes;
  std::array<Reused<std::byte>, 3> fine_planes;
  Reused<float> factors, fine_factors;
};

// One thread at a time. Call order: Score(first), Descend(first), … Score(finest), then either
// FinishClusters, or ScoreRows, RefineRows and FinishRows.
class HeadLookup {
 public:
  // Begins at `first_level`, with all its clusters open; levels above it are not read.
  HeadLookup(const LookupArgs& args, size_t head, size_t first_level, HeadBuffers& buffers);

  const HeadIndex& head() const { return head_; }
  const std::vector<IndexRange>& open() const { return open_; }  // clusters of the current level
  const std::vector<float>& scores() const { return scores_; }   // S, in the order of open()

  // S of every open cluster of the level.
  Status Score(size_t level);
  // Share of what is known, in the same total as scores().
  double KnownMass() const;
  // Goes on with the children of `opened` (ascending); the rest stays as tail and denominator.
  Status Descend(size_t level, const std::vector<uint32_t>& opened);
  // Finest level: reads all rows of `chosen` (ascending).
  Status FinishClusters(const std::vector<uint32_t>& chosen);

  // Finest level: reads the row codes of `coded` (ascending) and scores each of their rows.
  Status ScoreRows(const std::vector<uint32_t>& coded);
  const std::vector<float>& row_scores() const { return row_scores_; }
  // Reads the fine codes of rows `refined` (indices into row_scores(), ascending) and scores every
  // row again.
  Status RefineRows(const std::vector<uint32_t>& refined);
  const std::vector<uint32_t>& refined() const { return refined_; }
  uint32_t StoredRow(size_t index) const { return coded_rows_[index]; }  // of row_scores()
  // Reads rows chosen[i] (indices into row_scores(), ascending).
  Status FinishRows(const std::vector<uint32_t>& chosen);

  HeadSelection& selection() { return selection_; }

 private:
  // What the variance of an open cluster adds to its centroid's logit.
  float SecondOrder(size_t row, size_t column) const {
    if (!args_.second_order) return 0;
    return LogMeanExp(norms_[row] * deviations_[column], log_counts_[column]);
  }
  template <typename Body>
  void ForEachTile(size_t level, const Body& body);
  template <typename Body>
  void ForEachCodedTile(const Body& body);
  Rows<float> EstimateRows(Rows<const float> centroid_logits, size_t begin, size_t end);
  void EstimateRefined(Rows<const float> centroid_logits, size_t begin, Rows<float> row_masses);
  void AddSignLogits(std::span<const std::byte* const> planes, std::span<const float> factors,
                     size_t begin, Rows<float> logits);
  void ScoreCodedRows();
  // A cluster of the logit tail: columns of open finest clusters below it, and rows with codes.
  struct TailCluster {
    uint32_t cluster, begin_column, end_column, begin_row, end_row;
  };
  std::vector<TailCluster> TailClusters(const std::vector<uint32_t>& chosen) const;
  void MakeLogitTail(const std::vector<uint32_t>& chosen);
  void AddMissed(size_t level, const std::vector<uint32_t>& read);
  Status AddClusterBound(size_t level, const std::vector<uint32_t>& not_read);
  void AddRowBound(const std::vector<uint32_t>& chosen);
  void CountBytes();
  static std::span<float> Tile(std::vector<float>& x, size_t begin, size_t end) {
    return std::span<float>(x).subspan(begin, end - begin);
  }
  float Weight(size_t row) const {
    return args_.row_weights.empty() ? 1 / static_cast<float>(queries_.num_rows)
                                     : args_.row_weights[row];
  }
  size_t finest() const { return head_.levels().size() - 1; }

  const LookupArgs& args_;
  const HeadIndex& head_;
  const Rows<const float> queries_;
  const std::span<const float> known_lse_;  // [R], or empty
  std::vector<IndexRange> open_;
  std::vector<float> norms_;                // [R]: scale * |q|
  std::vector<float> log_counts_, scores_;  // of open_
  std::vector<float> deviations_;           // of open_: of a key's logit, per norms_
  // [R]: log mass of clusters rejected so far, and what is known; with that of all clusters of the
  // current level; of the first with that of open clusters that are not coded.
  std::vector<float> rejected_lse_, reference_, rest_lse_;

  std::vector<uint32_t> coded_;            // clusters, ascending
  std::vector<uint32_t> coded_columns_;    // of coded clusters, in open_
  std::vector<uint32_t> coded_begin_;      // [coded + 1]: their rows, in coded_rows_
  std::vector<uint32_t> coded_rows_;       // stored rows
  std::vector<float> row_scores_;          // S of each coded row
  std::vector<uint32_t> refined_;          // coded rows whose fine codes were read
  std::vector<uint32_t> refined_columns_;  // the columns of their clusters, in open_

  HeadBuffers& buffers_;
  // One tile of query rows is all of them, and what it holds still stands.
  bool has_logits_ = false, has_row_masses_ = false;
  double missed_mass_ = 0;
  HeadSelection selection_;
};

// Ascending numbers as ranges.
std::vector<IndexRange> ToRanges(const std::vector<uint32_t>& ascending);

}  // namespace lectern

#endif  // LECTERN_INDEX_HEAD_LOOKUP_H_
