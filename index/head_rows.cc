// Below the finest clusters: rows that are scored by their codes, chosen one by one, and what
// stands for the others.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "index/head_lookup.h"
#include "index/row_codes.h"

namespace lectern {
namespace {

// Of a tile of query rows so many meet all coded rows at a time, whose logits become masses in
// blocks of so many: what is met again is still in a cache.
constexpr size_t kPartRows = 8, kBlockRows = 1024;
static_assert(kBlockRows % kSignBlock == 0);

// A few bytes, whose number is almost always that of head_dim 64 or 128.
inline void CopyPlane(const std::byte* from, size_t bytes, std::byte* to) {
  switch (bytes) {
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 16:
      std::memcpy(to, from, 16);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

}  // namespace

// A coded row has q . k <= q . C + (f <q, s> + f |s| |q|) / 2: index/row_codes.h.
void HeadLookup::AddRowBound(std::span<const uint32_t> read) {
  const size_t num_rows = coded_rows_.size(), dim = queries_.num_cols;
  if (!args_.bound || num_rows == 0) return;
  auto times_norm = Make<float>(num_rows), times_u = Make<float>(num_rows);
  ArenaVector<float> bias(num_rows, kLogitSlack, arena_);
  for (size_t t = 0; t < num_rows; ++t) {
    const ResidualBound bound = RowBound(head_.RowCodes(coded_rows_[t]), dim);
    times_norm[t] = bound.times_norm;
    times_u[t] = bound.times_u;
  }
  auto fine_times_norm = Make<float>(), fine_times_u = Make<float>();
  for (const uint32_t index : refined_) {
    const ResidualBound bound = FineBound(head_.FineCodes(coded_rows_[index]), dim);
    fine_times_norm.push_back(bound.times_norm);
    fine_times_u.push_back(bound.times_u);
  }
  for (const uint32_t i : read) bias[refined_[i]] = -INFINITY;
  ForEachTile(finest(), [&](Rows<float>, size_t begin, size_t end) {
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
          logits[r - begin][t] =
              CentroidLogitsOf(r - begin)[i] + of_norm[t] * norms_[r] + of_u[t] * slack;
        }
      }
      AddSignLogits(planes, of_u, 0, begin, logits);
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
          bounds_of(buffers_.row_masses, fine_planes, fine_times_norm, fine_times_u,
                    [&](size_t i) { return refined_columns_[i]; });
      for (size_t r = 0; r < end - begin; ++r) {
        for (size_t i = 0; i < refined_.size(); ++i) {
          float& logit = logits[r][refined_[i]];
          logit = std::min(logit, fine[r][i]);
        }
      }
    }
    Softcap(args_.backend, logits, args_.softcap);
    args_.backend.add_row_lse(
        {.logits = logits, .bias = bias, .lse = Tile(selection_.unread_bound, begin, end)});
  });
}

// --- row codes --------------------------------------------------------------------------------

// += what signs (one plane), or numbers of three bits (three), of rows [first, first + n) add to
// their centroids' logits, for the query rows from `begin` on. first is a multiple of kSignBlock.
void HeadLookup::AddSignLogits(std::span<const std::byte* const> planes,
                               std::span<const float> factors, size_t first, size_t begin,
                               Rows<float> logits) {
  const size_t table_bytes = SignTableBytes(queries_.num_cols);
  const size_t plane_bytes = PlaneBytes(queries_.num_cols);
  std::array<const std::byte*, 3> blocks;
  for (size_t p = 0; p < planes.size(); ++p) blocks[p] = planes[p] + first * plane_bytes;
  args_.backend.add_sign_logits(
      {.tables = std::span<const uint8_t>(buffers_.tables.span())
                     .subspan(begin * table_bytes, logits.num_rows * table_bytes),
       .scales = std::span<const SignScale>(buffers_.scales.span()).subspan(begin, logits.num_rows),
       .plane_bytes = plane_bytes,
       .planes = std::span(blocks).first(planes.size()),
       .factors = factors.subspan(first, logits.num_cols),
       .logits = logits});
}

// Packs the row codes of coded rows [first, first + count); `cluster`: the first of theirs.
void HeadLookup::PackBlock(size_t first, size_t count, size_t cluster) {
  const size_t code_bytes = head_.row_code_bytes(), plane_bytes = PlaneBytes(queries_.num_cols);
  std::byte* const codes = buffers_.codes.Resize(kBlockRows * code_bytes).data();
  for (size_t done = 0; done < count; ++cluster) {
    const size_t skipped = first + done - coded_begin_[cluster];
    const size_t size = std::min(coded_begin_[cluster + 1] - (first + done), count - done);
    const uint32_t row = head_.ClusterRows(coded_[cluster]).begin + static_cast<uint32_t>(skipped);
    std::memcpy(codes + done * code_bytes, head_.RowCodes(row), size * code_bytes);
    done += size;
  }
  RowFactors(codes, queries_.num_cols, buffers_.factors.span().subspan(first, count));
  PackSigns({.planes = codes,
             .stride = code_bytes,
             .num_rows = count,
             .plane_bytes = plane_bytes,
             .packed = buffers_.planes.data() + first * plane_bytes});
}

// exp(logit - reference) of coded rows [first, first + masses.num_cols) for query rows from `begin`
// on; `cluster`: the first of theirs.
void HeadLookup::EstimateBlock(size_t begin, size_t first, size_t cluster, Rows<float> masses) {
  const size_t last = first + masses.num_cols;
  for (size_t r = 0; r < masses.num_rows; ++r) {
    const float* const logits = CentroidLogitsOf(r);
    for (size_t i = cluster; i < coded_.size() && coded_begin_[i] < last; ++i) {
      const size_t from = std::max<size_t>(coded_begin_[i], first);
      const size_t to = std::min<size_t>(coded_begin_[i + 1], last);
      std::fill(masses[r] + (from - first), masses[r] + (to - first), logits[coded_columns_[i]]);
    }
  }
  const std::byte* planes[] = {buffers_.planes.data()};
  AddSignLogits(planes, buffers_.factors.span(), first, begin, masses);
  Softcap(args_.backend, masses, args_.softcap);
  args_.backend.exp_rows(
      {.logits = masses, .reference = Tile(reference_, begin, begin + masses.num_rows)});
}

// The same of refined rows by their fine codes, and, where wanted, once more by their row codes.
void HeadLookup::EstimateRefined(size_t begin, Rows<float> fine, Rows<float> by_row_codes) {
  const std::byte* const planes[] = {buffers_.fine_planes[0].data(), buffers_.fine_planes[1].data(),
                                     buffers_.fine_planes[2].data()};
  const std::span<const float> reference = Tile(reference_, begin, begin + fine.num_rows);
  const auto finish = [&](std::span<const std::byte* const> codes, std::span<const float> factors,
                          size_t first, Rows<float> block) {
    AddSignLogits(codes, factors, first, begin, block);
    Softcap(args_.backend, block, args_.softcap);
    args_.backend.exp_rows({.logits = block, .reference = reference});
  };
  for (size_t first = 0; first < fine.num_cols; first += kBlockRows) {
    const size_t size = std::min(kBlockRows, fine.num_cols - first);
    const auto block_of = [&](const Rows<float>& masses) {
      return Rows<float>(masses.data + first, masses.num_rows, size, masses.stride);
    };
    const Rows<float> block = block_of(fine);
    const uint32_t* const columns = refined_columns_.data() + first;
    for (size_t r = 0; r < fine.num_rows; ++r) {
      const float* const logits = CentroidLogitsOf(r);
      for (size_t i = 0; i < size; ++i) block[r][i] = logits[columns[i]];
      if (by_row_codes.data != nullptr) std::copy_n(block[r], size, by_row_codes[r] + first);
    }
    finish(planes, buffers_.fine_factors.span(), first, block);
    if (by_row_codes.data == nullptr) continue;
    finish(std::span(planes).first(1), buffers_.refined_factors.span(), first,
           block_of(by_row_codes));
  }
}

// What query rows from `begin` on count, by the mass of everything: the rest and coded rows.
std::span<float> HeadLookup::RowWeights(size_t begin, size_t num_rows) {
  const std::span<float> weights = buffers_.weights.Resize(num_rows);
  for (size_t r = 0; r < num_rows; ++r) {
    const double rest = std::exp(double{rest_lse_[begin + r]} - reference_[begin + r]);
    weights[r] = static_cast<float>(weights_[begin + r] / (rest + coded_mass_[begin + r]));
  }
  return weights;
}

// Calls body(first query row, how many) for the parts of all that meet the coded rows at a time.
template <typename Body>
void HeadLookup::ForEachPart(const Body& body) {
  ForEachTile(finest(), [&](Rows<float>, size_t begin, size_t end) {
    for (size_t row = begin; row < end; row += kPartRows) {
      part_begin_ = row - begin;
      body(row, std::min(kPartRows, end - row));
    }
    part_begin_ = 0;
  });
}

// Masses of all coded rows: their sums, and what each row draws. (Of what the centroids make of
// everything: this only orders the rows.)
void HeadLookup::ScoreCodedRows() {
  const size_t num_rows = coded_rows_.size(), num_groups = groups_.size();
  row_scores_ = buffers_.row_scores.Resize(num_rows);
  std::fill(row_scores_.begin(), row_scores_.end(), 0.0f);
  coded_mass_.assign(queries_.num_rows, 0.0);
  const std::span<float> all_groups = buffers_.group_masses.Resize(queries_.num_rows * num_groups);
  std::fill(all_groups.begin(), all_groups.end(), 0.0f);
  if (num_rows == 0) return;
  buffers_.factors.Resize(num_rows);
  buffers_.planes.Resize(PackedSignBytes(num_rows, PlaneBytes(queries_.num_cols)));
  const bool is_one_part = queries_.num_rows <= kPartRows;  // ScoreRefinedRows needs its masses
  const size_t stride = is_one_part ? num_rows : kBlockRows;
  ForEachPart([&](size_t row, size_t count) {
    float* const data = buffers_.row_masses.Resize(count * stride).data();
    size_t cluster = 0, group = 0;
    for (size_t first = 0; first < num_rows; first += kBlockRows) {
      while (coded_begin_[cluster + 1] <= first) ++cluster;
      while (groups_[group].end_row <= first) ++group;
      const size_t size = std::min(kBlockRows, num_rows - first);
      if (row == 0) PackBlock(first, size, cluster);
      const Rows<float> masses(data + (is_one_part ? first : 0), count, size, stride);
      EstimateBlock(row, first, cluster, masses);
      AddToGroups(row, first, group, masses);
      args_.backend.add_weighted_rows({.masses = masses,
                                       .weights = Tile(weights_, row, row + count),
                                       .scores = Tile(row_scores_, first, first + size)});
    }
  });
}

// Masses of coded rows [first, first + masses.num_cols), the first of them in `group`, for query
// rows from `begin` on.
void HeadLookup::AddToGroups(size_t begin, size_t first, size_t group, Rows<const float> masses) {
  const std::span<uint32_t> all_begins = buffers_.begins.Resize(groups_.size() + 1);
  size_t end = group;
  for (; end < groups_.size() && groups_[end].begin_row < first + masses.num_cols; ++end) {
    all_begins[end - group] =
        static_cast<uint32_t>(std::max<size_t>(groups_[end].begin_row, first) - first);
  }
  all_begins[end - group] = static_cast<uint32_t>(masses.num_cols);
  const std::span<const uint32_t> begins = all_begins.first(end - group + 1);
  const size_t rows = masses.num_rows;
  const Rows<float> sums(buffers_.sums.Resize(rows * (end - group)).data(), rows, end - group);
  args_.backend.sum_segments({.masses = masses, .begin = begins, .sums = sums});
  for (size_t r = 0; r < rows; ++r) {
    float* const groups = GroupMasses(begin + r) + group;
    for (size_t g = 0; g < end - group; ++g) groups[g] += sums[r][g];
    coded_mass_[begin + r] += std::accumulate(sums[r], sums[r] + (end - group), 0.0);
  }
}

// Of the refined rows the masses by fine codes take the place of those by row codes, in the sums
// and as what they draw. (What the others draw stays as it was: only refined rows are chosen from.)
void HeadLookup::ScoreRefinedRows() {
  const size_t num_refined = refined_.size();
  refined_scores_ = buffers_.refined_scores.Resize(num_refined);
  std::fill(refined_scores_.begin(), refined_scores_.end(), 0.0f);
  const std::span<float> factors = buffers_.refined_factors.Resize(num_refined);
  for (size_t i = 0; i < num_refined; ++i) factors[i] = buffers_.factors.data()[refined_[i]];
  auto begins = Make<uint32_t>();  // of groups, among the refined rows
  for (uint32_t i = 0; begins.size() <= groups_.size();) {
    begins.push_back(i);
    while (i < num_refined && refined_groups_[i] < begins.size()) ++i;
  }
  buffers_.fine_masses.Resize(queries_.num_rows * num_refined);
  ForEachPart([&](size_t row, size_t count) {
    const Rows<float> fine(FineMasses(row), count, num_refined);
    const Rows<float> change(buffers_.changes.Resize(count * num_refined).data(), count,
                             num_refined);
    const bool is_one_part = queries_.num_rows <= kPartRows;  // which ScoreCodedRows left
    EstimateRefined(row, fine, is_one_part ? Rows<float>() : change);
    for (size_t r = 0; r < count; ++r) {
      if (is_one_part) {
        const float* const masses = buffers_.row_masses.data() + r * coded_rows_.size();
        for (size_t i = 0; i < num_refined; ++i) change[r][i] = masses[refined_[i]];
      }
      for (size_t i = 0; i < num_refined; ++i) change[r][i] = fine[r][i] - change[r][i];
    }
    const Rows<float> sums(buffers_.sums.Resize(count * groups_.size()).data(), count,
                           groups_.size());
    args_.backend.sum_segments({.masses = change, .begin = begins, .sums = sums});
    for (size_t r = 0; r < count; ++r) {
      float* const groups = GroupMasses(row + r);
      for (size_t g = 0; g < groups_.size(); ++g) groups[g] += sums[r][g];
      const double all = std::accumulate(sums[r], sums[r] + groups_.size(), 0.0);
      coded_mass_[row + r] = std::max(0.0, coded_mass_[row + r] + all);
    }
    args_.backend.add_weighted_rows(
        {.masses = fine, .weights = RowWeights(row, count), .scores = refined_scores_});
  });
}

// Once the coded clusters are known.
void HeadLookup::MakeGroups() {
  size_t last = 0;  // of coded_columns_
  const auto add = [&](uint32_t cluster, uint32_t begin_column, uint32_t end_column) {
    const size_t first = last;
    while (last < coded_columns_.size() && coded_columns_[last] < end_column) ++last;
    groups_.push_back({cluster, begin_column, end_column, coded_begin_[first], coded_begin_[last],
                       last - first == end_column - begin_column});
  };
  if (finest() == 0) {
    for (size_t i = 0; i < coded_.size(); ++i) {
      add(coded_[i], coded_columns_[i], coded_columns_[i] + 1);
    }
    return;
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
}

Status HeadLookup::ScoreRows(std::span<const uint32_t> coded) {
  const size_t dim = queries_.num_cols, num_queries = queries_.num_rows;
  coded_.assign(coded.begin(), coded.end());
  ToRanges(coded, selection_.coded);
  coded_columns_ = ColumnsOf(open_, coded, arena_);
  coded_begin_.push_back(0);
  for (const uint32_t cluster : coded) {
    const IndexRange rows = head_.ClusterRows(cluster);
    LECTERN_RETURN_IF_ERROR(head_.VerifyRowCodes(rows));
    const std::byte* const codes = head_.RowCodes(rows.begin);  // those of clusters lie apart
    for (size_t i = 0; i < rows.size() * head_.row_code_bytes(); i += 64) {
      __builtin_prefetch(codes + i);
    }
    coded_begin_.push_back(coded_begin_.back() + rows.size());
  }
  coded_rows_ = buffers_.coded_rows.Resize(coded_begin_.back());
  for (size_t i = 0; i < coded.size(); ++i) {
    std::iota(coded_rows_.begin() + coded_begin_[i], coded_rows_.begin() + coded_begin_[i + 1],
              head_.ClusterRows(coded[i]).begin);
  }
  const Rows<float> rotated(buffers_.rotated.Resize(num_queries * dim).data(), num_queries, dim);
  for (size_t r = 0; r < num_queries; ++r) {
    for (size_t c = 0; c < dim; ++c) rotated[r][c] = args_.scale * queries_[r][c];
    Rotate({rotated[r], dim});
  }
  MakeSignTables(rotated, buffers_.tables.Resize(num_queries * SignTableBytes(dim)),
                 buffers_.scales.Resize(num_queries));
  AddMissed(finest(), coded);
  // What is not coded: opened clusters by their centroids, and what was known or rejected before.
  ArenaVector<float> bias(log_counts_, arena_);
  for (const uint32_t column : coded_columns_) bias[column] = -INFINITY;
  rest_lse_ = rejected_lse_;
  ForEachTile(finest(), [&](Rows<float> logits, size_t begin, size_t end) {
    args_.backend.add_row_lse({.logits = logits, .bias = bias, .lse = Tile(rest_lse_, begin, end)});
  });
  MakeGroups();
  ScoreCodedRows();
  return {};
}

Status HeadLookup::RefineRows(std::span<const uint32_t> refined) {
  const size_t dim = queries_.num_cols, plane_bytes = PlaneBytes(dim);
  refined_.assign(refined.begin(), refined.end());
  const size_t num_refined = refined_.size();
  if (num_refined == 0) return {};
  const size_t all_bytes = num_refined * plane_bytes;
  const std::span<std::byte> codes = buffers_.fine_codes.Resize(3 * all_bytes);
  const std::array<std::span<std::byte>, 3> planes = {
      codes.first(all_bytes), codes.subspan(all_bytes, all_bytes), codes.last(all_bytes)};
  const std::span<float> factors = buffers_.fine_factors.Resize(num_refined);
  refined_columns_ = buffers_.refined_columns.Resize(num_refined);
  refined_groups_ = buffers_.refined_groups.Resize(num_refined);
  selection_.refined.resize(num_refined);
  const uint32_t first_row = head_.num_exact();
  const std::byte* const row_codes = head_.RowCodes(first_row);
  const std::byte* const fine_codes = head_.FineCodes(first_row);
  const size_t row_bytes = head_.row_code_bytes(), fine_bytes = head_.fine_code_bytes();
  uint32_t cluster = 0, group = 0;  // of coded_, of groups_
  uint32_t verified_end = 0;        // stored row
  for (size_t i = 0; i < num_refined; ++i) {
    constexpr size_t kAhead = 16;  // they lie apart
    if (i + kAhead < num_refined) {
      const size_t next = coded_rows_[refined_[i + kAhead]] - first_row;
      __builtin_prefetch(row_codes + next * row_bytes);
      __builtin_prefetch(fine_codes + next * fine_bytes);
    }
    const uint32_t index = refined_[i], row = coded_rows_[index];
    if (row >= verified_end) {
      LECTERN_ASSIGN(verified_end, head_.VerifyFineCodesFrom(row));
    }
    const std::byte* const fine_code = fine_codes + (row - first_row) * fine_bytes;
    const size_t place = i * plane_bytes;
    CopyPlane(row_codes + (row - first_row) * row_bytes, plane_bytes, planes[0].data() + place);
    CopyPlane(fine_code, plane_bytes, planes[1].data() + place);
    CopyPlane(fine_code + plane_bytes, plane_bytes, planes[2].data() + place);
    factors[i] = FineFactor(fine_code, dim);
    while (coded_begin_[cluster + 1] <= index) ++cluster;
    while (groups_[group].end_row <= index) ++group;
    refined_columns_[i] = coded_columns_[cluster];
    refined_groups_[i] = group;
    selection_.refined[i] = row;
  }
  MakeFinePlanes(planes[0], planes[1], planes[2]);
  for (size_t p = 0; p < 3; ++p) {
    const size_t bytes = PackedSignBytes(num_refined, plane_bytes);
    PackSigns({.planes = planes[p].data(),
               .stride = plane_bytes,
               .num_rows = num_refined,
               .plane_bytes = plane_bytes,
               .packed = buffers_.fine_planes[p].Resize(bytes).data()});
  }
  ScoreRefinedRows();
  return {};
}

Status HeadLookup::FinishRows(std::span<const uint32_t> chosen) {
  LECTERN_RETURN_IF_ERROR(AddClusterBound(finest(), Without(open_, coded_, arena_)));
  AddRowBound(chosen);
  selection_.rows.reserve(chosen.size());
  for (const uint32_t i : chosen) selection_.rows.push_back(selection_.refined[i]);
  const std::span<const float> weights = RowWeights(0, queries_.num_rows);
  for (size_t r = 0; r < queries_.num_rows; ++r) {
    const float* const fine = FineMasses(r);
    double unread = coded_mass_[r];
    for (const uint32_t i : chosen) unread -= fine[i];
    missed_mass_ += weights[r] * std::max(0.0, unread);
  }
  if (args_.tail) {
    if (finest() == 0) ToRanges(Without(open_, coded_, arena_), selection_.tail[0]);
    MakeLogitTail(chosen);
  }
  CountBytes();
  return {};
}

// Per query row and group: log mass of what is not read of it; `read`: of the refined rows. Groups
// of which everything is read are left out.
void HeadLookup::MakeLogitTail(std::span<const uint32_t> read) {
  auto num_read = Make<uint32_t>(groups_.size());
  for (const uint32_t i : read) ++num_read[refined_groups_[i]];
  auto kept = Make<Group>();
  auto kept_groups = Make<uint32_t>(), clusters = Make<uint32_t>();
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    if (group.all_coded && num_read[g] == group.end_row - group.begin_row) continue;
    kept.push_back(group);
    kept_groups.push_back(g);
    clusters.push_back(group.cluster);
  }
  if (kept.empty()) return;
  ArenaVector<float> bias(log_counts_, arena_);
  for (const uint32_t column : coded_columns_) bias[column] = -INFINITY;
  LogitTail& tail = selection_.logit_tail;
  tail.level = finest() == 0 ? 0 : finest() - 1;
  ToRanges(clusters, tail.clusters);
  tail.logits.resize(all_queries_.num_rows * kept.size());
  // Of each group's mass, by the rows that are scored: all, and what is not read.
  auto all = Make<double>(kept.size()), left = Make<double>(kept.size());
  auto unread = Make<float>(groups_.size());
  ForEachTile(finest(), [&](Rows<float> centroids, size_t begin, size_t end) {
    Rows<const float> uncoded;  // of the part of r
    for (size_t r = begin; r < end; ++r) {
      const size_t in_part = (r - begin) % kPartRows;
      if (in_part == 0) {
        const size_t part_end = std::min(r + kPartRows, end);
        uncoded = UncodedMasses(centroids.Slice(r - begin, part_end - begin), bias, r);
      }
      const float* const coded = GroupMasses(r);
      const float* const fine = FineMasses(r);
      std::copy_n(coded, groups_.size(), unread.data());
      for (const uint32_t i : read) unread[refined_groups_[i]] -= fine[i];
      float* const logits = tail.logits.data() + scored_[r] * kept.size();
      for (size_t i = 0; i < kept.size(); ++i) {
        const uint32_t g = kept_groups[i];
        // Sums of all less those that are read: never less than their rounding, never nothing.
        const float coded_left = std::max({unread[g], 0x1p-24f * coded[g], kNoMass});
        logits[i] = coded_left + uncoded[in_part][g];
        if (scores_all()) continue;
        left[i] += double{weights_[r]} * logits[i];
        all[i] += double{weights_[r]} * (logits[i] + std::max(0.0f, coded[g] - coded_left));
      }
      args_.backend.log_rows(
          {.masses = {logits, 1, kept.size()}, .reference = Tile(reference_, r, r + 1)});
    }
  });
  if (scores_all()) return;
  for (size_t i = 0; i < kept.size(); ++i) {
    left[i] = all[i] > 0 ? std::min(1.0, left[i] / all[i]) : 1;
  }
  FillLogitTail(kept, left);
}

// exp(logit - reference) of the clusters of each group that are not coded, by centroid and
// variance, for query rows from `begin` on; of these clusters `bias` is ln N, of the others -inf.
Rows<const float> HeadLookup::UncodedMasses(Rows<const float> centroids,
                                            std::span<const float> bias, size_t begin) {
  const size_t rows = centroids.num_rows, num_open = centroids.num_cols;
  const Rows<float> sums(buffers_.sums.Resize(rows * groups_.size()).data(), rows, groups_.size());
  if (finest() == 0) {  // every group is a coded cluster
    std::fill_n(sums.data, rows * groups_.size(), 0.0f);
    return sums;
  }
  const Rows<float> masses(buffers_.changes.Resize(rows * num_open).data(), rows, num_open);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < num_open; ++i) masses[r][i] = centroids[r][i] + bias[i];
  }
  auto begins = Make<uint32_t>();  // of groups, which follow one another
  for (const Group& group : groups_) begins.push_back(group.begin_column);
  begins.push_back(static_cast<uint32_t>(num_open));
  args_.backend.exp_rows({.logits = masses, .reference = Tile(reference_, begin, begin + rows)});
  args_.backend.sum_segments({.masses = masses, .begin = begins, .sums = sums});
  return sums;
}

// For the rows that are not scored: the mass that centroids tell, of which the share `left` is not
// read.
void HeadLookup::FillLogitTail(std::span<const Group> groups, std::span<const double> left) {
  constexpr size_t kTileRows = 64;
  const size_t num_open = log_counts_.size();
  auto segments = Make<uint32_t>();
  for (const Group& group : groups) {
    segments.push_back(group.begin_column);
    segments.push_back(group.end_column);
  }
  auto lse = Make<float>(kTileRows), norms = Make<float>(kTileRows);
  auto sums = Make<float>(kTileRows * (segments.size() - 1));
  auto data = Make<float>(kTileRows * num_open);
  auto next = scored_.begin();
  for (size_t begin = 0; begin < all_queries_.num_rows; begin += kTileRows) {
    const size_t end = std::min(begin + kTileRows, all_queries_.num_rows), rows = end - begin;
    const Rows<const float> queries = all_queries_.Slice(begin, end);
    for (size_t r = 0; r < rows; ++r) {
      norms[r] = args_.scale * Norm({queries[r], queries.num_cols});
    }
    const Rows<float> logits(data.data(), rows, num_open);
    CentroidLogits(finest(), queries, logits);
    AddSecondOrder(std::span(norms).first(rows), logits);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < num_open; ++i) logits[r][i] += log_counts_[i];
      lse[r] = *std::max_element(logits[r], logits[r] + num_open);
    }
    const Rows<float> masses(sums.data(), rows, segments.size() - 1);
    args_.backend.exp_rows({.logits = logits, .reference = std::span(lse).first(rows)});
    args_.backend.sum_segments({.masses = logits, .begin = segments, .sums = masses});
    for (size_t r = 0; r < rows; ++r) {
      while (next != scored_.end() && *next < begin + r) ++next;
      if (next != scored_.end() && *next == begin + r) continue;
      float* const out = selection_.logit_tail.logits.data() + (begin + r) * groups.size();
      for (size_t i = 0; i < groups.size(); ++i) {
        out[i] = lse[r] + std::log(masses[r][2 * i] * static_cast<float>(left[i]));
      }
    }
  }
}

}  // namespace lectern
