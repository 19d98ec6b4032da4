#include "index/head_lookup.h"

#include <algorithm>
#include <cmath>

#include "index/row_codes.h"

namespace lectern {

ArenaVector<uint32_t> Without(std::span<const IndexRange> ranges, std::span<const uint32_t> chosen,
                              Arena* arena) {
  ArenaVector<uint32_t> rest(arena);
  auto next = chosen.begin();
  for (const IndexRange& range : ranges) {
    for (uint32_t i = range.begin; i < range.end; ++i) {
      while (next != chosen.end() && *next < i) ++next;
      if (next == chosen.end() || *next != i) rest.push_back(i);
    }
  }
  return rest;
}

ArenaVector<uint32_t> ColumnsOf(std::span<const IndexRange> ranges,
                                std::span<const uint32_t> chosen, Arena* arena) {
  ArenaVector<uint32_t> columns(arena);
  columns.reserve(chosen.size());
  uint32_t column = 0;
  auto next = chosen.begin();
  for (const IndexRange& range : ranges) {
    for (; next != chosen.end() && *next < range.end; ++next) {
      columns.push_back(column + (*next - range.begin));
    }
    column += range.size();
  }
  return columns;
}

namespace {

// Resets the arena before the members that use it are made.
Arena* Fresh(HeadBuffers& buffers) {
  buffers.arena.Reset();
  return &buffers.arena;
}

}  // namespace

HeadLookup::HeadLookup(const LookupArgs& args, size_t head, size_t first_level,
                       HeadBuffers& buffers, HeadSelection& selection)
    : args_(args),
      head_(args.heads[head]),
      buffers_(buffers),
      arena_(Fresh(buffers)),
      all_queries_(args.queries[head]),
      tail_level_(has_one_level() ? 0 : finest() - 1),
      selection_(selection) {
  const size_t dim = all_queries_.num_cols;
  // Only rows that count are scored; a bound needs all of them.
  for (uint32_t r = 0; r < all_queries_.num_rows; ++r) {
    const float weight = args.row_weights.empty() ? 1 / static_cast<float>(all_queries_.num_rows)
                                                  : args.row_weights[r];
    if (weight == 0 && !args.bound) continue;
    scored_.rows.push_back(r);
    scored_.weights.push_back(std::max(weight, kNoMass));  // its logarithm is taken
    if (!args.known_lse.empty()) scored_.known_lse.push_back(args.known_lse[head][r]);
  }
  queries_ = all_queries_;
  if (scored_.rows.size() < all_queries_.num_rows) {
    // The scored rows are copied side by side, so that kernels see one matrix.
    float* const rows = buffers.scored.Resize(scored_.rows.size() * dim).data();
    for (size_t i = 0; i < scored_.rows.size(); ++i) {
      std::copy_n(all_queries_[scored_.rows[i]], dim, rows + i * dim);
    }
    queries_ = {rows, scored_.rows.size(), dim};
  }
  // The known mass (sinks, window, question) is in every denominator from the start. Ranks that
  // share a lookup add it when their masses are summed, or it would count once for each of them.
  if (args.share == nullptr) lse_.rejected = scored_.known_lse;
  lse_.rejected.resize(queries_.num_rows, -INFINITY);
  const IndexRange open =
      args.share != nullptr
          ? args.share->Clusters(head_, first_level)
          : IndexRange{0, static_cast<uint32_t>(head_.levels()[first_level].num_clusters())};
  if (open.size() > 0) open_.ranges.push_back(open);
  measured_ = queries_;
  if (head_.metric() != nullptr) {
    const size_t num_rows = queries_.num_rows;
    const Rows<float> rows(buffers.measured.Resize(num_rows * dim).data(), num_rows, dim);
    head_.Measure(args.backend, queries_, rows,
                  buffers.scratch.Resize(AttendScratch(num_rows, dim)));
    measured_ = rows;
  }
  for (size_t r = 0; r < queries_.num_rows; ++r) {
    norms_.push_back(args.scale * Norm({measured_[r], dim}));
  }
  spreads_.assign(norms_.begin(), norms_.end());
  selection_.Clear(head_.levels().size());
  selection_.second_order = args.second_order;
  selection_.window_copy = ReadsWindowCopy(args, head);
  if (args.bound) selection_.unread_bound.assign(queries_.num_rows, -INFINITY);
}

void HeadLookup::CentroidLogits(size_t level, Rows<const float> queries, Rows<float> logits) {
  const HeadIndex::Level& view = head_.levels()[level];
  size_t column = 0;
  for (const IndexRange& range : open_.ranges) {
    args_.backend.key_logits(
        {.queries = queries,
         .keys = view.centroids.Slice(range.begin, range.end),
         .scale = args_.scale,
         .logits = {logits.data + column, logits.num_rows, range.size(), logits.stride},
         .scratch = buffers_.scratch.Resize(AttendScratch(queries.num_rows, queries.num_cols))});
    column += range.size();
  }
}

void HeadLookup::AddSecondOrder(std::span<const float> spreads, Rows<float> logits) const {
  if (!args_.second_order) return;
  args_.backend.add_second_order({.logits = logits,
                                  .norms = spreads,
                                  .variances = open_.variances,
                                  .log_counts = open_.log_counts});
}

void HeadLookup::WidenLogits(Rows<const float> centroid_logits, size_t begin,
                             Rows<float> logits) const {
  std::copy_n(centroid_logits.data, logits.num_rows * logits.num_cols, logits.data);
  AddSecondOrder(std::span<const float>(spreads_).subspan(begin, logits.num_rows), logits);
  Softcap(args_.backend, logits, args_.softcap);
}

Status HeadLookup::ReadOpen(size_t level) {
  const HeadIndex::Level& view = head_.levels()[level];
  open_.log_counts.clear();
  open_.variances.clear();
  for (const IndexRange& range : open_.ranges) {
    LECTERN_RETURN_IF_ERROR(head_.VerifyCentroids(level, range));
    open_.log_counts.insert(open_.log_counts.end(), view.log_counts.begin() + range.begin,
                            view.log_counts.begin() + range.end);
    open_.variances.insert(open_.variances.end(), view.variances.begin() + range.begin,
                           view.variances.begin() + range.end);
  }
  selection_.looked_up[level].assign(open_.ranges.begin(), open_.ranges.end());
  open_.scores.assign(open_.log_counts.size(), 0.0f);
  lse_.reference = lse_.rejected;
  return {};
}

void HeadLookup::SumTile(Rows<const float> logits, size_t begin, size_t end) {
  args_.backend.add_row_lse(
      {.logits = logits, .bias = open_.log_counts, .lse = Tile(lse_.reference, begin, end)});
}

void HeadLookup::ScoreTile(Rows<const float> logits, size_t begin, size_t end) {
  // S weighs each row by its weight, which goes into the log-sum-exp: w exp(s - lse) = exp(s -
  // (lse - log w)).
  const std::span<float> weighted = buffers_.lse.Resize(end - begin);
  for (size_t r = 0; r < weighted.size(); ++r) {
    weighted[r] = lse_.reference[begin + r] - std::log(scored_.weights[begin + r]);
  }
  args_.backend.add_scores({.logits = logits, .lse = weighted, .scores = open_.scores});
}

Status HeadLookup::Score(size_t level) {
  LECTERN_RETURN_IF_ERROR(ReadOpen(level));
  ForEachTile(level, [&](Rows<float> logits, size_t begin, size_t end) {
    SumTile(logits, begin, end);
    ScoreTile(logits, begin, end);
  });
  return {};
}

Status HeadLookup::SumOpen(size_t level) {
  LECTERN_RETURN_IF_ERROR(ReadOpen(level));
  if (open_.ranges.empty()) return {};  // a rank may own no cluster, or have opened none
  ForEachTile(level,
              [&](Rows<float> logits, size_t begin, size_t end) { SumTile(logits, begin, end); });
  return {};
}

void HeadLookup::JoinOpen(std::span<const float> lse) {
  lse_.reference.assign(lse.begin(), lse.end());
  for (size_t r = 0; r < scored_.known_lse.size(); ++r) {
    lse_.reference[r] = LogAddExp(lse_.reference[r], scored_.known_lse[r]);
  }
}

void HeadLookup::ScoreOpen(size_t level) {
  if (open_.ranges.empty()) return;
  ForEachTile(level,
              [&](Rows<float> logits, size_t begin, size_t end) { ScoreTile(logits, begin, end); });
}

double HeadLookup::KnownMass() const {
  double mass = 0;
  for (size_t r = 0; r < scored_.known_lse.size(); ++r) {
    // Share of attention on what is known: its mass over the mass of everything.
    mass += scored_.weights[r] * std::exp(double{scored_.known_lse[r]} - lse_.reference[r]);
  }
  return mass;
}

void HeadLookup::AddMissed(size_t level, std::span<const uint32_t> read) {
  const auto& counts = head_.levels()[level].key_counts;
  double mass = 0;
  const float* score = open_.scores.data();
  for (const IndexRange& range : open_.ranges) {
    for (uint32_t i = range.begin; i < range.end; ++i) mass += double{*score++} * counts[i];
  }
  // All open clusters' mass, less the mass of those that are read.
  const ArenaVector<uint32_t> columns = ColumnsOf(open_.ranges, read, arena_);
  for (size_t i = 0; i < read.size(); ++i)
    mass -= double{open_.scores[columns[i]]} * counts[read[i]];
  missed_mass_ += std::max(0.0, mass);
}

Status HeadLookup::Descend(size_t level, std::span<const uint32_t> opened) {
  AddMissed(level, opened);
  const ArenaVector<uint32_t> rejected = Without(open_.ranges, opened, arena_);
  LECTERN_RETURN_IF_ERROR(AddClusterBound(level, rejected));
  // Rejected clusters go into the log-sum-exp; opened ones are masked by -inf, because their
  // children replace them.
  ArenaVector<float> bias(open_.log_counts, arena_);
  for (const uint32_t column : ColumnsOf(open_.ranges, opened, arena_)) bias[column] = -INFINITY;
  if (!rejected.empty()) {
    ForEachTile(level, [&](Rows<float> logits, size_t begin, size_t end) {
      args_.backend.add_row_lse(
          {.logits = logits,
           .bias = bias,
           .lse = std::span<float>(lse_.rejected).subspan(begin, end - begin)});
    });
  }
  if (args_.tail) ToRanges(rejected, selection_.tail[level]);
  ToRanges(opened, open_.ranges);
  const auto& children = head_.levels()[level].children;
  for (IndexRange& range : open_.ranges) range = {children[range.begin], children[range.end]};
  // The kept logits belong to the clusters of the old level.
  has_logits_ = false;
  return {};
}

Status HeadLookup::FinishClusters(std::span<const uint32_t> chosen) {
  AddMissed(finest(), chosen);
  const ArenaVector<uint32_t> rejected = Without(open_.ranges, chosen, arena_);
  LECTERN_RETURN_IF_ERROR(AddClusterBound(finest(), rejected));
  if (args_.tail) ToRanges(rejected, selection_.tail[finest()]);
  for (const uint32_t cluster : chosen) {
    const IndexRange rows = head_.ClusterRows(cluster);
    for (uint32_t row = rows.begin; row < rows.end; ++row) selection_.rows.push_back(row);
  }
  CountBytes();
  return {};
}

Status HeadLookup::AddClusterBound(size_t level, std::span<const uint32_t> not_read) {
  if (!args_.bound || not_read.empty()) return {};
  ToRanges(not_read, selection_.bounded[level]);
  for (const IndexRange& range : selection_.bounded[level]) {
    LECTERN_RETURN_IF_ERROR(head_.VerifyRadii(level, range));
  }
  const HeadIndex::Level& view = head_.levels()[level];
  const ArenaVector<uint32_t> columns = ColumnsOf(open_.ranges, not_read, arena_);
  auto logits = Make<float>(not_read.size());
  auto counts = Make<float>(not_read.size());
  ForEachTile(level, [&](Rows<float>, size_t begin, size_t end) {
    for (size_t r = begin; r < end; ++r) {
      for (size_t i = 0; i < not_read.size(); ++i) {
        const uint32_t column = columns[i];
        logits[i] =
            CentroidLogitsOf(r - begin)[column] + norms_[r] * view.radii[not_read[i]] + kLogitSlack;
        counts[i] = open_.log_counts[column];
      }
      const Rows<float> bounds(logits.data(), 1, logits.size());
      Softcap(args_.backend, bounds, args_.softcap);
      args_.backend.add_row_lse(
          {.logits = bounds, .bias = counts, .lse = Tile(selection_.unread_bound, r, r + 1)});
    }
  });
  return {};
}

void HeadLookup::AddRowBound(std::span<const uint32_t> read) {
  const size_t num_rows = coded_.rows.size(), dim = queries_.num_cols;
  if (num_rows == 0) return;
  auto times_norm = Make<float>(num_rows), times_u = Make<float>(num_rows);
  ArenaVector<float> bias(num_rows, kLogitSlack, arena_);
  for (size_t t = 0; t < num_rows; ++t) {
    const ResidualBound bound = RowBound(head_.RowCodes(coded_.rows[t]), dim);
    times_norm[t] = bound.times_norm;
    times_u[t] = bound.times_u;
  }
  auto fine_times_norm = Make<float>(), fine_times_u = Make<float>();
  for (const uint32_t index : refined_.rows) {
    const ResidualBound bound = FineBound(head_.FineCodes(coded_.rows[index]), dim);
    fine_times_norm.push_back(bound.times_norm);
    fine_times_u.push_back(bound.times_u);
  }
  for (const uint32_t i : read) bias[refined_.rows[i]] = -INFINITY;
  ForEachTile(finest(), [&](Rows<float>, size_t begin, size_t end) {
    const auto bounds_of = [&](Reused<float>& buffer, const SignPlanes& planes,
                               std::span<const uint32_t> columns, std::span<const float> of_norm,
                               std::span<const float> of_u) {
      const Rows<float> logits(buffer.Resize((end - begin) * of_u.size()).data(), end - begin,
                               of_u.size());
      SpreadCentroidLogits(columns, 0, logits);
      for (size_t r = begin; r < end; ++r) {
        // A table entry may be off by half a step for each group of each plane, two groups per
        // byte.
        const float weights = IsOneBit(planes) ? 1 : 7;
        const float slack =
            weights * static_cast<float>(PlaneBytes(dim)) * buffers_.scales.data()[r].step;
        for (size_t t = 0; t < of_u.size(); ++t) {
          logits[r - begin][t] += of_norm[t] * norms_[r] + of_u[t] * slack;
        }
      }
      args_.backend.add_sign_logits(Codes(planes, of_u, 0, begin, logits));
      return logits;
    };
    const Rows<float> logits = bounds_of(buffers_.bounds, {buffers_.planes.data()},
                                         coded_.row_columns, times_norm, times_u);
    // Rows with fine codes have two bounds; the smaller one holds.
    if (!refined_.rows.empty()) {
      const Rows<float> fine = bounds_of(buffers_.row_masses, FinePlanes(), refined_.row_columns,
                                         fine_times_norm, fine_times_u);
      for (size_t r = 0; r < end - begin; ++r) {
        for (size_t i = 0; i < refined_.rows.size(); ++i) {
          float& logit = logits[r][refined_.rows[i]];
          logit = std::min(logit, fine[r][i]);
        }
      }
    }
    Softcap(args_.backend, logits, args_.softcap);
    args_.backend.add_row_lse(
        {.logits = logits, .bias = bias, .lse = Tile(selection_.unread_bound, begin, end)});
  });
}

void HeadLookup::CountBytes() {
  const HeadIndex::Level& finest_level = head_.levels().back();
  // Where ranks share a lookup, the first one counts what the head has but once.
  uint64_t bytes = 0;
  if (args_.share == nullptr || args_.share->owns_exact()) {
    bytes += head_.ExactBytes(selection_.window_copy) + head_.metric_bytes();
  }
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
    for (const IndexRange& range : selection_.bounded[l]) bytes += range.size() * sizeof(float);
  }
  bytes += selection_.logit_tail.num_clusters() * finest_level.mean_values.row_bytes();
  selection_.bytes = bytes;
  selection_.missed_mass = std::clamp(missed_mass_, 0.0, 1.0);
}

}  // namespace lectern
