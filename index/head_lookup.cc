#include "index/head_lookup.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "index/row_codes.h"

namespace lectern {
namespace {

// Query rows scored at a time: all, where their logits fit into this many floats.
constexpr size_t kTileFloats = 4 << 20, kFewestTileRows = 16;

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

HeadLookup::HeadLookup(const LookupArgs& args, size_t head, size_t first_level,
                       HeadBuffers& buffers)
    : args_(args),
      head_(args.heads[head]),
      queries_(args.queries[head]),
      known_lse_(args.known_lse.empty() ? std::span<const float>() : args.known_lse[head]),
      rejected_lse_(known_lse_.begin(), known_lse_.end()),
      buffers_(buffers) {
  rejected_lse_.resize(queries_.num_rows, -INFINITY);
  open_ = {{0, static_cast<uint32_t>(head_.levels()[first_level].num_clusters())}};
  for (size_t r = 0; r < queries_.num_rows; ++r) {
    norms_.push_back(args.scale * Norm({queries_[r], queries_.num_cols}));
  }
  selection_.second_order = args.second_order;
  selection_.looked_up.resize(head_.levels().size());
  selection_.tail.resize(head_.levels().size());
  if (args.bound) {
    selection_.bounded.resize(head_.levels().size());
    selection_.unread_bound.assign(queries_.num_rows, -INFINITY);
  }
}

// Calls body(logits [rows, open clusters], begin, end) for tiles of query rows; with what the
// variances add.
template <typename Body>
void HeadLookup::ForEachTile(size_t level, const Body& body) {
  const HeadIndex::Level& view = head_.levels()[level];
  const size_t num_open = log_counts_.size();
  const size_t num_columns = std::max<size_t>(1, num_open + coded_rows_.size());
  const size_t tile =
      std::min(std::max(kFewestTileRows, kTileFloats / num_columns), queries_.num_rows);
  float* logits = buffers_.logits.Resize(tile * num_open).data();
  const bool has_logits = has_logits_ && tile == queries_.num_rows;
  for (size_t begin = 0; begin < queries_.num_rows; begin += tile) {
    const size_t end = std::min(begin + tile, queries_.num_rows);
    size_t column = 0;
    for (const IndexRange& range : open_) {
      if (has_logits) break;
      args_.backend.key_logits(
          {.queries = queries_.Slice(begin, end),
           .keys = view.centroids.Slice(range.begin, range.end),
           .scale = args_.scale,
           .logits = {logits + column, end - begin, range.size(), num_open},
           .scratch = buffers_.scratch.Resize(AttendScratch(tile, queries_.num_cols))});
      column += range.size();
    }
    for (size_t r = begin; r < end && !has_logits; ++r) {
      float* const row = logits + (r - begin) * num_open;
      for (size_t i = 0; i < num_open; ++i) row[i] += SecondOrder(r, i);
    }
    body(Rows<float>(logits, end - begin, num_open), begin, end);
  }
  has_logits_ = tile == queries_.num_rows;
}

Status HeadLookup::Score(size_t level) {
  const HeadIndex::Level& view = head_.levels()[level];
  log_counts_.clear();
  deviations_.clear();
  for (const IndexRange& range : open_) {
    LECTERN_RETURN_IF_ERROR(head_.VerifyCentroids(level, range));
    log_counts_.insert(log_counts_.end(), view.log_counts.begin() + range.begin,
                       view.log_counts.begin() + range.end);
    for (uint32_t i = range.begin; i < range.end; ++i) {
      deviations_.push_back(std::sqrt(view.variances[i]));
    }
  }
  selection_.looked_up[level] = open_;
  scores_.assign(log_counts_.size(), 0.0f);
  reference_ = rejected_lse_;
  ForEachTile(level, [&](Rows<float> logits, size_t begin, size_t end) {
    const std::span<float> lse = Tile(reference_, begin, end);
    args_.backend.add_row_lse({.logits = logits, .bias = log_counts_, .lse = lse});
    const std::span<float> weighted = buffers_.lse.Resize(end - begin);
    for (size_t r = 0; r < weighted.size(); ++r) {
      weighted[r] = lse[r] - std::log(Weight(begin + r));
    }
    args_.backend.add_scores({.logits = logits, .lse = weighted, .scores = scores_});
  });
  return {};
}

double HeadLookup::KnownMass() const {
  double mass = 0;
  for (size_t r = 0; r < known_lse_.size(); ++r) {
    mass += Weight(r) * std::exp(double{known_lse_[r]} - reference_[r]);
  }
  return mass;
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

Status HeadLookup::Descend(size_t level, const std::vector<uint32_t>& opened) {
  AddMissed(level, opened);
  const std::vector<uint32_t> rejected = Without(open_, opened);
  LECTERN_RETURN_IF_ERROR(AddClusterBound(level, rejected));
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
  has_logits_ = false;
  return {};
}

Status HeadLookup::FinishClusters(const std::vector<uint32_t>& chosen) {
  AddMissed(finest(), chosen);
  const std::vector<uint32_t> rejected = Without(open_, chosen);
  LECTERN_RETURN_IF_ERROR(AddClusterBound(finest(), rejected));
  if (args_.tail) selection_.tail[finest()] = ToRanges(rejected);
  for (const uint32_t cluster : chosen) {
    const IndexRange rows = head_.ClusterRows(cluster);
    for (uint32_t row = rows.begin; row < rows.end; ++row) selection_.rows.push_back(row);
  }
  CountBytes();
  return {};
}

// --- what is proved of the rows that are not read ------------------------------------------------

// Logits are sums in float, and the rotation rounds: what their exact values may exceed them by.
constexpr float kLogitSlack = 4e-3f;

// A key of cluster i has q . k <= q . C_i + |q| r_i.
Status HeadLookup::AddClusterBound(size_t level, const std::vector<uint32_t>& not_read) {
  if (!args_.bound || not_read.empty()) return {};
  selection_.bounded[level] = ToRanges(not_read);
  for (const IndexRange& range : selection_.bounded[level]) {
    LECTERN_RETURN_IF_ERROR(head_.VerifyRadii(level, range));
  }
  const HeadIndex::Level& view = head_.levels()[level];
  const std::vector<uint32_t> columns = ColumnsOf(open_, not_read);
  std::vector<float> logits(not_read.size());
  const std::vector<float> no_bias(not_read.size());
  ForEachTile(level, [&](Rows<float> centroids, size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      for (size_t i = 0; i < not_read.size(); ++i) {
        const uint32_t column = columns[i];
        logits[i] = centroids[r - begin][column] - SecondOrder(r, column) + log_counts_[column] +
                    norms_[r] * view.radii[not_read[i]] + kLogitSlack;
      }
      args_.backend.add_row_lse({.logits = {logits.data(), 1, logits.size()},
                                 .bias = no_bias,
                                 .lse = Tile(selection_.unread_bound, r, r + 1)});
    }
  });
  return {};
}

// A coded row has q . k <= q . C + (f <q, s> + f |s| |q|) / 2: index/row_codes.h.
void HeadLookup::AddRowBound(const std::vector<uint32_t>& chosen) {
  const size_t num_rows = coded_rows_.size(), dim = queries_.num_cols;
  if (!args_.bound || num_rows == 0) return;
  std::vector<float> times_norm(num_rows), times_u(num_rows), bias(num_rows, kLogitSlack);
  for (size_t t = 0; t < num_rows; ++t) {
    const ResidualBound bound = RowBound(head_.RowCodes(coded_rows_[t]), dim);
    times_norm[t] = bound.times_norm;
    times_u[t] = bound.times_u;
  }
  std::vector<float> fine_times_norm, fine_times_u;
  for (const uint32_t index : refined_) {
    const ResidualBound bound = FineBound(head_.FineCodes(coded_rows_[index]), dim);
    fine_times_norm.push_back(bound.times_norm);
    fine_times_u.push_back(bound.times_u);
  }
  for (const uint32_t index : chosen) bias[index] = -INFINITY;
  ForEachTile(finest(), [&](Rows<float> centroids, size_t begin, size_t end) {
    const auto bounds_of = [&](Reused<float>& buffer, std::span<const std::byte* const> planes,
                               std::span<const float> of_norm, std::span<const float> of_u,
                               const auto& column) {
      const Rows<float> logits(buffer.Resize((end - begin) * of_u.size()).data(), end - begin,
                               of_u.size());
      for (size_t r = begin; r < end; ++r) {
        // Tables may be off by half a step for each group of each plane.
        const float weights = planes.size() == 1 ? 1 : 7;
        const float slack =
            weights * static_cast<float>(PlaneBytes(dim)) * buffers_.scales.data()[r].step;
        for (size_t t = 0; t < of_u.size(); ++t) {
          const uint32_t i = column(t);
          logits[r - begin][t] = centroids[r - begin][i] - SecondOrder(r, i) +
                                 of_norm[t] * norms_[r] + of_u[t] * slack;
        }
      }
      AddSignLogits(planes, of_u, begin, logits);
      return logits;
    };
    size_t cluster = 0;
    const auto column_of_row = [&](size_t t) {
      if (t == 0) cluster = 0;
      while (coded_begin_[cluster + 1] <= t) ++cluster;
      return coded_columns_[cluster];
    };
    const std::byte* planes[] = {buffers_.planes.data()};
    const Rows<float> logits =
        bounds_of(buffers_.bounds, planes, times_norm, times_u, column_of_row);
    if (!refined_.empty()) {
      const std::byte* fine_planes[] = {buffers_.fine_planes[0].data(),
                                        buffers_.fine_planes[1].data(),
                                        buffers_.fine_planes[2].data()};
      const Rows<float> fine =
          bounds_of(buffers_.fine_masses, fine_planes, fine_times_norm, fine_times_u,
                    [&](size_t i) { return refined_columns_[i]; });
      for (size_t r = 0; r < end - begin; ++r) {
        for (size_t i = 0; i < refined_.size(); ++i) {
          float& logit = logits[r][refined_[i]];
          logit = std::min(logit, fine[r][i]);
        }
      }
    }
    args_.backend.add_row_lse(
        {.logits = logits, .bias = bias, .lse = Tile(selection_.unread_bound, begin, end)});
  });
}

// --- row codes --------------------------------------------------------------------------------

// += what signs (one plane), or numbers of three bits (three), add to the centroids' logits.
void HeadLookup::AddSignLogits(std::span<const std::byte* const> planes,
                               std::span<const float> factors, size_t begin, Rows<float> logits) {
  const size_t table_bytes = SignTableBytes(queries_.num_cols);
  args_.backend.add_sign_logits(
      {.tables = std::span<const uint8_t>(buffers_.tables.span())
                     .subspan(begin * table_bytes, logits.num_rows * table_bytes),
       .scales = std::span<const SignScale>(buffers_.scales.span()).subspan(begin, logits.num_rows),
       .plane_bytes = PlaneBytes(queries_.num_cols),
       .planes = planes,
       .factors = factors,
       .logits = logits});
}

// exp(logit - reference) of the coded rows for query rows [begin, end).
Rows<float> HeadLookup::EstimateRows(Rows<const float> centroid_logits, size_t begin, size_t end) {
  const size_t num_rows = coded_rows_.size();
  const Rows<float> masses(buffers_.row_masses.Resize((end - begin) * num_rows).data(), end - begin,
                           num_rows);
  if (num_rows == 0 || has_row_masses_) return masses;
  for (size_t r = 0; r < end - begin; ++r) {
    for (size_t i = 0; i < coded_columns_.size(); ++i) {
      std::fill(masses[r] + coded_begin_[i], masses[r] + coded_begin_[i + 1],
                centroid_logits[r][coded_columns_[i]] - SecondOrder(begin + r, coded_columns_[i]));
    }
  }
  const std::byte* planes[] = {buffers_.planes.data()};
  AddSignLogits(planes, buffers_.factors.span(), begin, masses);
  args_.backend.exp_rows({.logits = masses, .reference = Tile(reference_, begin, end)});
  EstimateRefined(centroid_logits, begin, masses);
  has_row_masses_ = end - begin == queries_.num_rows;
  return masses;
}

// Puts the masses of the refined rows in their places.
void HeadLookup::EstimateRefined(Rows<const float> centroid_logits, size_t begin,
                                 Rows<float> row_masses) {
  const size_t num_rows = row_masses.num_rows, num_refined = refined_.size();
  if (num_refined == 0) return;
  const Rows<float> masses(buffers_.fine_masses.Resize(num_rows * num_refined).data(), num_rows,
                           num_refined);
  for (size_t r = 0; r < num_rows; ++r) {
    for (size_t i = 0; i < num_refined; ++i) {
      const uint32_t column = refined_columns_[i];
      masses[r][i] = centroid_logits[r][column] - SecondOrder(begin + r, column);
    }
  }
  const std::byte* planes[] = {buffers_.fine_planes[0].data(), buffers_.fine_planes[1].data(),
                               buffers_.fine_planes[2].data()};
  AddSignLogits(planes, buffers_.fine_factors.span(), begin, masses);
  args_.backend.exp_rows(
      {.logits = masses, .reference = Tile(reference_, begin, begin + num_rows)});
  for (size_t r = 0; r < num_rows; ++r) {
    for (size_t i = 0; i < num_refined; ++i) row_masses[r][refined_[i]] = masses[r][i];
  }
}

// Calls body(row masses, centroid logits, begin, end) for tiles of query rows.
template <typename Body>
void HeadLookup::ForEachCodedTile(const Body& body) {
  ForEachTile(finest(), [&](Rows<float> centroid_logits, size_t begin, size_t end) {
    body(EstimateRows(centroid_logits, begin, end), centroid_logits, begin, end);
  });
}

Status HeadLookup::ScoreRows(const std::vector<uint32_t>& coded) {
  const size_t dim = queries_.num_cols, num_queries = queries_.num_rows;
  coded_ = coded;
  selection_.coded = ToRanges(coded);
  coded_columns_ = ColumnsOf(open_, coded);
  coded_begin_ = {0};
  for (const uint32_t cluster : coded) {
    const IndexRange rows = head_.ClusterRows(cluster);
    LECTERN_RETURN_IF_ERROR(head_.VerifyRowCodes(rows));
    for (uint32_t row = rows.begin; row < rows.end; ++row) coded_rows_.push_back(row);
    coded_begin_.push_back(static_cast<uint32_t>(coded_rows_.size()));
  }
  const size_t num_rows = coded_rows_.size(), code_bytes = head_.row_code_bytes();
  std::byte* codes = buffers_.codes.Resize(num_rows * code_bytes).data();
  for (const IndexRange& clusters : selection_.coded) {
    const uint32_t begin = head_.ClusterRows(clusters.begin).begin;
    const size_t bytes = (head_.ClusterRows(clusters.end - 1).end - begin) * code_bytes;
    std::memcpy(codes, head_.RowCodes(begin), bytes);
    codes += bytes;
  }
  codes = buffers_.codes.data();
  const std::span<float> factors = buffers_.factors.Resize(num_rows);
  for (size_t t = 0; t < num_rows; ++t) factors[t] = RowFactor(codes + t * code_bytes, dim);
  PackSigns({.planes = codes,
             .stride = code_bytes,
             .num_rows = num_rows,
             .plane_bytes = PlaneBytes(dim),
             .packed = buffers_.planes.Resize(PackedSignBytes(num_rows, PlaneBytes(dim))).data()});
  const Rows<float> rotated(buffers_.rotated.Resize(num_queries * dim).data(), num_queries, dim);
  for (size_t r = 0; r < num_queries; ++r) {
    for (size_t c = 0; c < dim; ++c) rotated[r][c] = args_.scale * queries_[r][c];
    Rotate({rotated[r], dim});
  }
  MakeSignTables(rotated, buffers_.tables.Resize(num_queries * SignTableBytes(dim)),
                 buffers_.scales.Resize(num_queries));
  AddMissed(finest(), coded);
  // What is not coded: opened clusters by their centroids, and what was known or rejected before.
  std::vector<float> bias = log_counts_;
  for (const uint32_t column : coded_columns_) bias[column] = -INFINITY;
  rest_lse_ = rejected_lse_;
  ForEachTile(finest(), [&](Rows<float> logits, size_t begin, size_t end) {
    args_.backend.add_row_lse({.logits = logits, .bias = bias, .lse = Tile(rest_lse_, begin, end)});
  });
  ScoreCodedRows();
  return {};
}

Status HeadLookup::RefineRows(const std::vector<uint32_t>& refined) {
  const size_t dim = queries_.num_cols, plane_bytes = PlaneBytes(dim);
  refined_ = refined;
  if (refined.empty()) return {};
  std::byte* codes = buffers_.codes.Resize(refined.size() * 3 * plane_bytes).data();
  const std::span<float> factors = buffers_.fine_factors.Resize(refined.size());
  size_t cluster = 0;  // of coded_
  for (size_t i = 0; i < refined.size(); ++i) {
    const uint32_t row = coded_rows_[refined[i]];
    LECTERN_RETURN_IF_ERROR(head_.VerifyFineCodes({row, row + 1}));
    MakeFinePlanes(head_.RowCodes(row), head_.FineCodes(row), dim, codes + i * 3 * plane_bytes);
    factors[i] = FineFactor(head_.FineCodes(row), dim);
    while (coded_begin_[cluster + 1] <= refined[i]) ++cluster;
    refined_columns_.push_back(coded_columns_[cluster]);
    selection_.refined.push_back(row);
  }
  for (size_t p = 0; p < 3; ++p) {
    const size_t bytes = PackedSignBytes(refined.size(), plane_bytes);
    PackSigns({.planes = codes + p * plane_bytes,
               .stride = 3 * plane_bytes,
               .num_rows = refined.size(),
               .plane_bytes = plane_bytes,
               .packed = buffers_.fine_planes[p].Resize(bytes).data()});
  }
  if (has_row_masses_) {
    const size_t num_rows = queries_.num_rows;
    EstimateRefined({buffers_.logits.data(), num_rows, log_counts_.size()}, 0,
                    {buffers_.row_masses.data(), num_rows, coded_rows_.size()});
  }
  ScoreCodedRows();
  return {};
}

void HeadLookup::ScoreCodedRows() {
  row_scores_.assign(coded_rows_.size(), 0.0f);
  if (coded_rows_.empty()) return;
  const std::array<uint32_t, 2> all = {0, static_cast<uint32_t>(coded_rows_.size())};
  ForEachCodedTile([&](Rows<float> masses, Rows<float>, size_t begin, size_t end) {
    const Rows<float> weights(buffers_.sums.Resize(end - begin).data(), end - begin, 1);
    args_.backend.sum_segments({.masses = masses, .begin = all, .sums = weights});
    for (size_t r = 0; r < end - begin; ++r) {
      const double rest = std::exp(double{rest_lse_[begin + r]} - reference_[begin + r]);
      weights[r][0] = static_cast<float>(Weight(begin + r) / (rest + weights[r][0]));
    }
    args_.backend.add_weighted_rows(
        {.masses = masses, .weights = buffers_.sums.span(), .scores = row_scores_});
  });
}

Status HeadLookup::FinishRows(const std::vector<uint32_t>& chosen) {
  LECTERN_RETURN_IF_ERROR(AddClusterBound(finest(), Without(open_, coded_)));
  AddRowBound(chosen);
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
  return {};
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
  std::vector<float> bias = log_counts_;
  for (const uint32_t column : coded_columns_) bias[column] = -INFINITY;
  LogitTail& tail = selection_.logit_tail;
  // Rows of clusters that are read to the end are in no segment of the tail: the sums of segments
  // 2 i are those of clusters[i].
  std::vector<uint32_t> numbers, segments;
  for (const TailCluster& cluster : clusters) {
    numbers.push_back(cluster.cluster);
    segments.push_back(cluster.begin_row);
    segments.push_back(cluster.end_row);
  }
  tail.level = finest() == 0 ? 0 : finest() - 1;
  tail.clusters = ToRanges(numbers);
  tail.logits.resize(queries_.num_rows * clusters.size());
  ForEachCodedTile([&](Rows<float> masses, Rows<float> centroids, size_t begin, size_t end) {
    const size_t num_rows = end - begin;
    for (size_t r = 0; r < num_rows; ++r) {
      for (const uint32_t index : chosen) masses[r][index] = 0;
    }
    const Rows<float> sums(buffers_.sums.Resize(num_rows * (segments.size() - 1)).data(), num_rows,
                           segments.size() - 1);
    args_.backend.sum_segments({.masses = masses, .begin = segments, .sums = sums});
    const std::span<float> lse = buffers_.lse.Resize(num_rows);
    for (size_t i = 0; i < clusters.size(); ++i) {
      const TailCluster& cluster = clusters[i];
      for (size_t r = 0; r < num_rows; ++r) {
        lse[r] = reference_[begin + r] + std::log(sums[r][2 * i]);
      }
      if (const uint32_t columns = cluster.end_column - cluster.begin_column; columns > 0) {
        args_.backend.add_row_lse(
            {.logits = {centroids.data + cluster.begin_column, num_rows, columns, centroids.stride},
             .bias = std::span<const float>(bias).subspan(cluster.begin_column, columns),
             .lse = lse});
      }
      for (size_t r = 0; r < num_rows; ++r) {
        tail.logits[(begin + r) * clusters.size() + i] = lse[r];
      }
    }
  });
  has_row_masses_ = false;
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
      bytes += range.size() * level.cluster_bytes();
    }
    for (const IndexRange& range : selection_.tail[l]) {
      bytes += range.size() * level.mean_values.row_bytes();
    }
    if (!args_.bound) continue;
    for (const IndexRange& range : selection_.bounded[l]) bytes += range.size() * sizeof(float);
  }
  bytes += selection_.logit_tail.num_clusters() * finest_level.mean_values.row_bytes();
  selection_.bytes = bytes;
  selection_.missed_mass = std::clamp(missed_mass_, 0.0, 1.0);
}

}  // namespace lectern
