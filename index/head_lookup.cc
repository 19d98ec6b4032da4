#include "index/head_lookup.h"

#include <algorithm>
#include <cmath>

#include "index/row_codes.h"

namespace lectern {
namespace {

constexpr size_t kTileRows = 64;  // query rows scored at a time

// Members of `ranges` that are not in `chosen` (both ascending).
std::vector<uint32_t> Without(const std::vector<IndexRange>& ranges,
                              const std::vector<uint32_t>& chosen) {
  std::vector<uint32_t> rest;
  auto next = chosen.begin();
  for (const IndexRange& range : ranges) {
    for (uint32_t i = range.begin; i < range.end; ++i) {
      while (next != chosen.end() && *next < i) ++next;
      if (next == chosen.end() || *next != i) rest.push_back(i);
    }
  }
  return rest;
}

// Positions, in the order of `ranges`, of those members that are in `chosen` (both ascending).
std::vector<uint32_t> ColumnsOf(const std::vector<IndexRange>& ranges,
                                const std::vector<uint32_t>& chosen) {
  std::vector<uint32_t> columns;
  uint32_t column = 0;
  auto next = chosen.begin();
  for (const IndexRange& range : ranges) {
    for (uint32_t i = range.begin; i < range.end && next != chosen.end(); ++i) {
      if (*next != i) continue;
      columns.push_back(column + (i - range.begin));
      ++next;
    }
    column += range.size();
  }
  return columns;
}

}  // namespace

std::vector<IndexRange> ToRanges(const std::vector<uint32_t>& ascending) {
  std::vector<IndexRange> ranges;
  for (const uint32_t i : ascending) {
    if (!ranges.empty() && ranges.back().end == i) {
      ++ranges.back().end;
    } else {
      ranges.push_back({i, i + 1});
    }
  }
  return ranges;
}

HeadLookup::HeadLookup(const LookupArgs& args, size_t head, size_t first_level)
    : args_(args),
      head_(args.heads[head]),
      queries_(args.queries[head]),
      rejected_lse_(args.known_lse.empty()
                        ? std::vector<float>(args.queries[head].num_rows, -INFINITY)
                        : args.known_lse[head]) {
  open_ = {{0, static_cast<uint32_t>(head_.levels()[first_level].num_clusters())}};
  selection_.looked_up.resize(head_.levels().size());
  selection_.tail.resize(head_.levels().size());
}

// Calls body(logits [rows, open clusters], begin, end) for tiles of query rows.
template <typename Body>
void HeadLookup::ForEachTile(size_t level, const Body& body) {
  const HeadIndex::Level& view = head_.levels()[level];
  const size_t num_open = log_counts_.size();
  const size_t tile = std::min(kTileRows, queries_.num_rows);
  logits_.resize(tile * num_open);
  lse_.resize(tile);
  scratch_.resize(AttendScratch(tile, queries_.num_cols));
  for (size_t begin = 0; begin < queries_.num_rows; begin += tile) {
    const size_t end = std::min(begin + tile, queries_.num_rows);
    size_t column = 0;
    for (const IndexRange& range : open_) {
      args_.backend.key_logits(
          {.queries = queries_.Slice(begin, end),
           .keys = view.centroids.Slice(range.begin, range.end),
           .scale = args_.scale,
           .logits = {logits_.data() + column, end - begin, range.size(), num_open},
           .scratch = scratch_});
      column += range.size();
    }
    body(Rows<float>(logits_.data(), end - begin, num_open), begin, end);
  }
}

Status HeadLookup::Score(size_t level) {
  const HeadIndex::Level& view = head_.levels()[level];
  log_counts_.clear();
  for (const IndexRange& range : open_) {
    LECTERN_RETURN_IF_ERROR(head_.VerifyCentroids(level, range));
    log_counts_.insert(log_counts_.end(), view.log_counts.begin() + range.begin,
                       view.log_counts.begin() + range.end);
  }
  selection_.looked_up[level] = open_;
  scores_.assign(log_counts_.size(), 0.0f);
  ForEachTile(level, [&](Rows<float> logits, size_t begin, size_t end) {
    const std::span<float> lse(lse_.data(), end - begin);
    std::copy_n(rejected_lse_.begin() + static_cast<ptrdiff_t>(begin), end - begin, lse.begin());
    args_.backend.add_row_lse({.logits = logits, .bias = log_counts_, .lse = lse});
    args_.backend.add_scores({.logits = logits, .lse = lse, .scores = scores_});
  });
  for (float& score : scores_) score /= static_cast<float>(queries_.num_rows);
  return {};
}

// Estimated mass of open clusters that are neither in `read` nor looked into further.
void HeadLookup::AddMissed(size_t level, const std::vector<uint32_t>& read) {
  const auto& counts = head_.levels()[level].key_counts;
  size_t column = 0;
  auto next = read.begin();
  for (const IndexRange& range : open_) {
    for (uint32_t i = range.begin; i < range.end; ++i, ++column) {
      if (next != read.end() && *next == i) {
        ++next;
      } else {
        missed_mass_ += double{scores_[column]} * counts[i];
      }
    }
  }
}

void HeadLookup::Descend(size_t level, const std::vector<uint32_t>& opened) {
  AddMissed(level, opened);
  const std::vector<uint32_t> rejected = Without(open_, opened);
  std::vector<float> bias = log_counts_;
  for (const uint32_t column : ColumnsOf(open_, opened)) bias[column] = -INFINITY;
  if (!rejected.empty()) {
    ForEachTile(level, [&](Rows<float> logits, size_t begin, size_t end) {
      args_.backend.add_row_lse(
          {.logits = logits,
           .bias = bias,
           .lse = std::span<float>(rejected_lse_).subspan(begin, end - begin)});
    });
  }
  if (args_.tail) selection_.tail[level] = ToRanges(rejected);
  std::vector<IndexRange> below;
  const auto& children = head_.levels()[level].children;
  for (const IndexRange& range : ToRanges(opened)) {
    below.push_back({children[range.begin], children[range.end]});
  }
  open_ = std::move(below);
}

void HeadLookup::FinishClusters(const std::vector<uint32_t>& chosen) {
  AddMissed(finest(), chosen);
  if (args_.tail) selection_.tail[finest()] = ToRanges(Without(open_, chosen));
  for (const uint32_t cluster : chosen) {
    const IndexRange rows = head_.ClusterRows(cluster);
    for (uint32_t row = rows.begin; row < rows.end; ++row) selection_.rows.push_back(row);
  }
  CountBytes();
}

// --- row codes --------------------------------------------------------------------------------

// Logits of the coded rows for query rows [begin, end): their centroid's, plus what the code adds.
Rows<float> HeadLookup::EstimateRows(Rows<const float> centroid_logits, size_t begin, size_t end) {
  const size_t num_rows = coded_rows_.size(), dim = queries_.num_cols;
  row_logits_.resize((end - begin) * num_rows);
  const Rows<float> logits(row_logits_.data(), end - begin, num_rows);
  if (num_rows == 0) return logits;
  args_.backend.key_logits(
      {.queries = Rows<const float>(rotated_.data(), queries_.num_rows, dim).Slice(begin, end),
       .keys = {reinterpret_cast<const std::byte*>(decoded_.data()), Dtype::kF32, num_rows, dim},
       .scale = args_.scale,
       .logits = logits,
       .scratch = scratch_});
  for (size_t r = 0; r < end - begin; ++r) {
    for (size_t i = 0; i < coded_columns_.size(); ++i) {
      const float base = centroid_logits[r][coded_columns_[i]];
      for (uint32_t t = coded_begin_[i]; t < coded_begin_[i + 1]; ++t) logits[r][t] += base;
    }
  }
  return logits;
}

// Calls body(row logits, centroid logits, begin, end) for tiles of query rows.
template <typename Body>
void HeadLookup::ForEachCodedTile(const Body& body) {
  ForEachTile(finest(), [&](Rows<float> centroid_logits, size_t begin, size_t end) {
    body(EstimateRows(centroid_logits, begin, end), centroid_logits, begin, end);
  });
}

Status HeadLookup::ScoreRows(const std::vector<uint32_t>& coded) {
  const size_t dim = queries_.num_cols;
  coded_ = coded;
  selection_.coded = ToRanges(coded);
  coded_columns_ = ColumnsOf(open_, coded);
  coded_begin_ = {0};
  for (const uint32_t cluster : coded) {
    const IndexRange rows = head_.ClusterRows(cluster);
    LECTERN_RETURN_IF_ERROR(head_.VerifyRowCodes(rows));
    const size_t first = coded_rows_.size();
    for (uint32_t row = rows.begin; row < rows.end; ++row) coded_rows_.push_back(row);
    decoded_.resize(coded_rows_.size() * dim);
    DecodeRows(head_.RowCodes(rows.begin), {decoded_.data() + first * dim, rows.size(), dim});
    coded_begin_.push_back(static_cast<uint32_t>(coded_rows_.size()));
  }
  rotated_.resize(queries_.num_rows * dim);
  for (size_t r = 0; r < queries_.num_rows; ++r) {
    std::copy_n(queries_[r], dim, rotated_.data() + r * dim);
    Rotate({rotated_.data() + r * dim, dim});
  }
  AddMissed(finest(), coded);
  ScoreCodedRows();
  return {};
}

Status HeadLookup::RefineRows(const std::vector<uint32_t>& refined) {
  const size_t dim = queries_.num_cols;
  refined_ = refined;
  for (const uint32_t index : refined) {
    const uint32_t row = coded_rows_[index];
    LECTERN_RETURN_IF_ERROR(head_.VerifyFineCodes({row, row + 1}));
    DecodeFine(head_.RowCodes(row), head_.FineCodes(row), {decoded_.data() + index * dim, dim});
    selection_.refined.push_back(row);
  }
  if (!refined.empty()) ScoreCodedRows();
  return {};
}

void HeadLookup::ScoreCodedRows() {
  row_scores_.assign(coded_rows_.size(), 0.0f);
  if (coded_rows_.empty()) return;
  std::vector<float> bias = log_counts_;  // of opened clusters without codes
  for (const uint32_t column : coded_columns_) bias[column] = -INFINITY;
  const std::vector<float> zeros(coded_rows_.size(), 0.0f);
  ForEachCodedTile([&](Rows<float> logits, Rows<float> centroids, size_t begin, size_t end) {
    const std::span<float> lse(lse_.data(), end - begin);
    std::copy_n(rejected_lse_.begin() + static_cast<ptrdiff_t>(begin), end - begin, lse.begin());
    args_.backend.add_row_lse({.logits = centroids, .bias = bias, .lse = lse});
    args_.backend.add_row_lse({.logits = logits, .bias = zeros, .lse = lse});
    args_.backend.add_scores({.logits = logits, .lse = lse, .scores = row_scores_});
  });
  for (float& score : row_scores_) score /= static_cast<float>(queries_.num_rows);
}

void HeadLookup::FinishRows(const std::vector<uint32_t>& chosen) {
  for (const float score : row_scores_) missed_mass_ += score;
  for (const uint32_t index : chosen) {
    selection_.rows.push_back(coded_rows_[index]);
    missed_mass_ -= row_scores_[index];
  }
  if (args_.tail) {
    if (finest() == 0) selection_.tail[0] = ToRanges(Without(open_, coded_));
    MakeLogitTail(chosen);
  }
  CountBytes();
}

// In order; those of which everything is read are left out.
std::vector<HeadLookup::TailCluster> HeadLookup::TailClusters(
    const std::vector<uint32_t>& chosen) const {
  std::vector<TailCluster> clusters;
  const auto add = [&](uint32_t cluster, uint32_t begin_column, uint32_t end_column) {
    const auto first = std::lower_bound(coded_columns_.begin(), coded_columns_.end(), begin_column);
    const auto last = std::lower_bound(first, coded_columns_.end(), end_column);
    const uint32_t begin_row = coded_begin_[static_cast<size_t>(first - coded_columns_.begin())];
    const uint32_t end_row = coded_begin_[static_cast<size_t>(last - coded_columns_.begin())];
    const auto num_read = std::lower_bound(chosen.begin(), chosen.end(), end_row) -
                          std::lower_bound(chosen.begin(), chosen.end(), begin_row);
    const bool all_coded = last - first == end_column - begin_column;
    if (all_coded && num_read == end_row - begin_row) return;
    clusters.push_back({cluster, begin_column, end_column, begin_row, end_row});
  };
  if (finest() == 0) {
    for (size_t i = 0; i < coded_.size(); ++i) {
      add(coded_[i], coded_columns_[i], coded_columns_[i] + 1);
    }
    return clusters;
  }
  const auto& children = head_.levels()[finest() - 1].children;
  uint32_t column = 0;
  for (const IndexRange& range : open_) {
    auto parent = static_cast<uint32_t>(
        std::upper_bound(children.begin(), children.end(), range.begin) - children.begin() - 1);
    for (; children[parent] < range.end; ++parent) {
      const uint32_t size = children[parent + 1] - children[parent];
      add(parent, column, column + size);
      column += size;
    }
  }
  return clusters;
}

// Per query row and cluster of the tail: log mass of what is not read of it.
void HeadLookup::MakeLogitTail(const std::vector<uint32_t>& chosen) {
  const std::vector<TailCluster> clusters = TailClusters(chosen);
  if (clusters.empty()) return;
  std::vector<float> cluster_bias = log_counts_, row_bias(coded_rows_.size(), 0.0f);
  for (const uint32_t column : coded_columns_) cluster_bias[column] = -INFINITY;
  for (const uint32_t index : chosen) row_bias[index] = -INFINITY;
  LogitTail& tail = selection_.logit_tail;
  std::vector<uint32_t> numbers;
  for (const TailCluster& cluster : clusters) numbers.push_back(cluster.cluster);
  tail.level = finest() == 0 ? 0 : finest() - 1;
  tail.clusters = ToRanges(numbers);
  tail.logits.resize(queries_.num_rows * clusters.size());
  ForEachCodedTile([&](Rows<float> rows, Rows<float> centroids, size_t begin, size_t end) {
    const std::span<float> lse(lse_.data(), end - begin);
    // Adds columns [first, last) of `logits`.
    const auto add = [&](Rows<float> logits, const std::vector<float>& bias, uint32_t first,
                         uint32_t last) {
      if (first == last) return;
      args_.backend.add_row_lse(
          {.logits = {logits.data + first, end - begin, last - first, logits.stride},
           .bias = std::span<const float>(bias).subspan(first, last - first),
           .lse = lse});
    };
    for (size_t i = 0; i < clusters.size(); ++i) {
      std::fill(lse.begin(), lse.end(), -INFINITY);
      add(centroids, cluster_bias, clusters[i].begin_column, clusters[i].end_column);
      add(rows, row_bias, clusters[i].begin_row, clusters[i].end_row);
      for (size_t r = begin; r < end; ++r) {
        tail.logits[r * clusters.size() + i] = lse[r - begin];
      }
    }
  });
}

void HeadLookup::CountBytes() {
  const HeadIndex::Level& finest_level = head_.levels().back();
  uint64_t bytes = head_.BlockBytes({0, head_.num_exact()});
  bytes += selection_.rows.size() * head_.BlockBytes({0, 1});
  bytes += selection_.refined.size() * head_.fine_code_bytes();
  for (const IndexRange& range : selection_.coded) {
    const uint64_t rows = finest_level.children[range.end] - finest_level.children[range.begin];
    bytes += rows * head_.row_code_bytes();
  }
  for (size_t l = 0; l < head_.levels().size(); ++l) {
    const HeadIndex::Level& level = head_.levels()[l];
    for (const IndexRange& range : selection_.looked_up[l]) {
      bytes += range.size() * (level.centroids.row_bytes() + sizeof(uint32_t));
    }
    for (const IndexRange& range : selection_.tail[l]) {
      bytes += range.size() * level.mean_values.row_bytes();
    }
  }
  bytes += selection_.logit_tail.num_clusters() * finest_level.mean_values.row_bytes();
  selection_.bytes = bytes;
  selection_.missed_mass = std::clamp(missed_mass_, 0.0, 1.0);
}

}  // namespace lectern
