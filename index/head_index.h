// One kv head of a layer shard as the lookup and the attention see it: clusters, thresholds and
// rows, read in place from the shard.
#ifndef LECTERN_INDEX_HEAD_INDEX_H_
#define LECTERN_INDEX_HEAD_INDEX_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "index/query_metric.h"
#include "kernels/backend.h"
#include "kernels/types.h"
#include "store/shard_reader.h"
#include "store/status.h"

namespace lectern {

// A range [begin, end) of clusters of a level, of rows, or of keys.
struct IndexRange {
  uint32_t begin, end;
  uint32_t size() const { return end - begin; }
  bool operator==(const IndexRange&) const = default;
};

// Borrows the shard, and so do all spans and rows that it returns; immutable after Load and
// thread-safe. Verified bytes stay readable until the shard is told to drop them. Calls that return
// a Status have the codes of ShardReader::Verify (kChecksumMismatch; with Io::kPread also
// kTruncated and kIoError), and those that they name.
class HeadIndex {
 public:
  struct Level {
    TypedRows centroids;                   // [clusters, head_dim]; verify before reading
    TypedRows mean_values;                 // [clusters, head_dim]; verify before reading
    // [clusters] each, in the head's metric; verify before reading. Radii: max |A (k - centroid)|.
    // Variances: mean |A (k - centroid)|^2 / head_dim.
    std::span<const float> radii;
    std::span<const float> variances;
    std::span<const uint32_t> key_counts;  // [clusters], verified and checked
    // [clusters + 1], verified and checked; at the finest level: rows.
    std::span<const uint32_t> children;
    std::vector<float> log_counts;         // [clusters]
    // Offsets in the file, for verifying.
    uint64_t centroids_offset = 0, mean_values_offset = 0, radii_offset = 0, variances_offset = 0;
    // Set once one call of VerifyCentroids found every centroid's scale and every variance of the
    // level to be a finite number; later calls skip the check.
    std::shared_ptr<std::atomic<bool>> are_numbers = std::make_shared<std::atomic<bool>>(false);
    size_t num_clusters() const { return key_counts.size(); }
    // Bytes that looking up a cluster reads: centroid, variance and count.
    uint64_t cluster_bytes() const {
      return centroids.row_bytes() + sizeof(float) + sizeof(uint32_t);
    }
  };

  // Reads counts, children, thresholds, metric, block scores and positions and checks them against
  // each other and the header; touches no centroid and no row. kCorrupt, also where a section of
  // these is missing.
  static Result<HeadIndex> Load(const ShardReader& shard, uint32_t kv_head);

  uint32_t num_rows() const { return num_rows_; }
  // Sinks and window: rows [0, num_exact), in document order, stored as one block. All rows if
  // there are no clusters.
  uint32_t num_exact() const { return num_exact_; }
  // A copy of the window's rows as q8, for lookups, which pay for every byte; the rows themselves
  // are there too. Not in heads without a metric, and not where the rows are q8 anyway.
  bool has_window_copy() const { return window_copy_ != nullptr; }
  // The copy's keys, or values, [window rows, head_dim], and the sinks' as stored. Only where
  // has_window_copy(). VerifyExact first.
  TypedRows WindowCopyKeys() const { return CopiedRows(0); }
  TypedRows WindowCopyValues() const { return CopiedRows(1); }
  TypedRows SinkKeys() const { return Keys({0, num_exact_}).Slice(0, num_sinks_); }
  TypedRows SinkValues() const { return Values({0, num_exact_}).Slice(0, num_sinks_); }
  uint32_t num_sinks() const { return num_sinks_; }
  // Bytes of sinks and window, keys and values: all as stored, or the window's from the copy.
  uint64_t ExactBytes(bool window_copy) const;
  const std::vector<Level>& levels() const { return levels_; }  // coarse first; may be empty
  // As CalibrateThresholds makes them (index/calibrate.h); empty without clusters.
  std::span<const float> thresholds() const { return thresholds_; }
  // A copy of the head with other thresholds: kThresholdsPerLevel (index/calibrate.h) for each
  // level, unchecked. They are borrowed and must outlive the copy. For evaluations.
  HeadIndex WithThresholds(std::span<const float> thresholds) const {
    HeadIndex head = *this;
    head.thresholds_ = thresholds;
    return head;
  }
  // [num_rows]: the position of each stored row's token, below the document's number of tokens.
  std::span<const uint32_t> positions() const { return positions_; }
  // Bytes of K and V of all stored rows, exact ones included.
  uint64_t dense_bytes() const { return uint64_t{num_rows_} * 2 * row_bytes_; }

  // Scores of the head's blocks of rows, in ascending order of importance
  // (index/policies/kv_compress.h); verified. Empty if the document has no such statistics.
  std::span<const float> block_scores() const { return block_scores_.squared; }
  std::span<const float> plain_block_scores() const { return block_scores_.plain; }
  std::span<const float> full_block_scores() const { return block_scores_.full; }

  // The metric in which the head's codes, radii and variances are taken; nullptr: none, A = 1.
  const QueryMetric* metric() const { return metric_.get(); }
  // Its stored bytes, which every lookup reads.
  uint64_t metric_bytes() const {
    return metric_ ? QueryMetric::StoredSize(head_dim_) * sizeof(f16) : 0;
  }
  // out = M q of each query row, or q without a metric; both [R, head_dim], not overlapping.
  // scratch: of AttendScratch(R, head_dim) floats; untouched without a metric.
  void Measure(const Backend& backend, Rows<const float> queries, Rows<float> out,
               std::span<float> scratch) const;

  // Row codes and fine codes: both or neither.
  bool has_row_codes() const { return row_codes_ != nullptr; }
  uint64_t row_code_bytes() const { return row_code_bytes_; }    // of one row
  uint64_t fine_code_bytes() const { return fine_code_bytes_; }  // of one row
  // Row codes of stored rows from `row` on, row_code_bytes() each (index/row_codes.h has their
  // layout). Only where has_row_codes(), and for a row that lies in a cluster. VerifyRowCodes
  // first.
  const std::byte* RowCodes(uint32_t row) const {
    return row_codes_ + (row - num_exact_) * row_code_bytes_;
  }
  // Fine codes likewise, fine_code_bytes() each; the signs of their numbers are in the row code.
  // VerifyFineCodesFrom first.
  const std::byte* FineCodes(uint32_t row) const {
    return fine_codes_ + (row - num_exact_) * fine_code_bytes_;
  }
  // Copies the K and V rows of some rows (ascending) side by side and verifies them; where there
  // are clusters, the rows lie in these. Resizes both vectors. No rows: copies nothing. After an
  // error the vectors hold anything.
  Status GatherRows(std::span<const uint32_t> rows, std::vector<std::byte>& keys,
                    std::vector<std::byte>& values) const;
  // The same into memory of the caller's, which has room for them.
  Status GatherRows(std::span<const uint32_t> rows, std::byte* keys, std::byte* values) const;
  // Hints that these rows will be gathered soon: the parts of their clusters that are not in memory
  // yet are read in the background, all at once.
  void ReadAheadRows(std::span<const uint32_t> rows) const;
  // The bytes of gathered keys, or values, as rows; borrows them.
  TypedRows AsRows(const std::vector<std::byte>& gathered) const {
    return {gathered.data(), dtype_, gathered.size() / row_bytes_, head_dim_};
  }

  // Keys, and values, of the block of rows [begin, end), which is the exact rows or one finest
  // cluster: other ranges give wrong rows, unchecked. VerifyRows first.
  TypedRows Keys(IndexRange block) const;
  TypedRows Values(IndexRange block) const;
  uint64_t BlockBytes(IndexRange rows) const { return uint64_t{rows.size()} * 2 * row_bytes_; }
  // Stored rows of a finest cluster.
  IndexRange ClusterRows(uint32_t finest_cluster) const {
    const auto& rows = levels_.back().children;
    return {rows[finest_cluster], rows[finest_cluster + 1]};
  }

  // Calls body(block) for the blocks that rows [begin, end) consist of: either all exact rows, as
  // one block, or whole finest clusters, ascending. No rows: calls nothing. Verifies nothing.
  template <typename Body>
  void ForEachBlock(IndexRange rows, const Body& body) const {
    if (rows.begin < num_exact_) return body(rows);
    const auto& begins = levels_.back().children;
    for (auto i = std::lower_bound(begins.begin(), begins.end(), rows.begin); *i < rows.end; ++i) {
      body(IndexRange{i[0], i[1]});
    }
  }

  // Each checks the checksums of the data that is about to be read. Row codes: only where
  // has_row_codes(), and of rows that lie in clusters, which is not checked.
  Status VerifyRows(IndexRange rows) const;
  // The same for sinks and window, whose rows it takes from where ExactBytes counts them.
  Status VerifyExact(bool window_copy) const;
  Status VerifyRowCodes(IndexRange rows) const;
  // Verifies the fine code of a row, and with it those of the rows behind it whose codes end in the
  // same block of the file. Returns the first row past these, which may lie past the head's last.
  Result<uint32_t> VerifyFineCodesFrom(uint32_t row) const;
  // Verifies centroids and variances. kCorrupt where a variance is negative or not finite, or where
  // the scale of a q8 block is not finite. VerifyMeanValues looks at scales likewise.
  Status VerifyCentroids(size_t level, IndexRange clusters) const;
  Status VerifyMeanValues(size_t level, IndexRange clusters) const;
  Status VerifyRadii(size_t level, IndexRange clusters) const;

 private:
  // kCorrupt, with the level for the message, if a q8 scale of these clusters' `rows` is infinite
  // or NaN; ok for other types.
  Status CheckScales(const TypedRows& rows, size_t level, IndexRange clusters) const;
  // The first rows of the blocks that can be gathered from, and the end of the last one: the finest
  // clusters', or those of the one block of a head without clusters.
  std::span<const uint32_t> GatheredBlocks() const {
    return levels_.empty() ? std::span<const uint32_t>(whole_) : levels_.back().children;
  }
  // Row 0 of the copy is its keys, row 1 its values.
  TypedRows CopiedRows(size_t row) const;
  const ShardReader* shard_ = nullptr;
  std::array<uint32_t, 2> whole_{};  // 0 and num_rows_
  uint32_t num_rows_ = 0, num_sinks_ = 0, num_exact_ = 0;
  size_t row_bytes_ = 0, head_dim_ = 0;
  Dtype dtype_ = Dtype::kF16;
  uint64_t rows_offset_ = 0, row_code_bytes_ = 0, fine_code_bytes_ = 0;
  const std::byte *row_codes_ = nullptr, *fine_codes_ = nullptr, *window_copy_ = nullptr;
  std::vector<Level> levels_;
  std::shared_ptr<const QueryMetric> metric_;
  std::span<const float> thresholds_;
  struct {
    std::span<const float> squared, plain, full;
  } block_scores_;
  std::span<const uint32_t> positions_;
};

}  // namespace lectern

#endif  // LECTERN_INDEX_HEAD_INDEX_H_
