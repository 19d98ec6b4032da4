// The second half of HeadLookup, below the finest clusters: scores rows by their codes and makes
// the tail that stands for the rows that are not read.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "index/head_lookup.h"
#include "index/row_codes.h"

namespace lectern {
namespace {

// Query rows that meet all coded rows together, and coded rows of a block. Masses of such a part
// and block (32 KiB) are used again while they are still in a cache. By hand; no measurement of
// other sizes is on record.
constexpr size_t kPartRows = 8, kBlockRows = 1024;
static_assert(kBlockRows % kSignBlock == 0);
// Floats from one query row's masses of a block to the next one's. At a distance of 4 KiB all of
// them would compete for the same few places of a cache.
constexpr size_t kBlockStride = kBlockRows + 16;
// When most of a float sum has been taken away, a rest below this share of it is rounding error. By
// hand: it allows for some hundred and fifty roundings of 2^-24.
constexpr double kRounding = 1e-5;

// Copies a few bytes. Head sizes 64 and 128 give 8 and 16, which become single moves.
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

// Adds up each row from left to right, in double: totals[r] += sum of rows[r]. Four rows at a time,
// whose additions do not wait for one another.
void AddSums(Rows<const float> rows, std::span<double> totals) {
  size_t r = 0;
  for (; r + 4 <= rows.num_rows; r += 4) {
    double sums[4] = {};
    for (size_t i = 0; i < rows.num_cols; ++i) {
      for (size_t k = 0; k < 4; ++k) sums[k] += rows[r + k][i];
    }
    for (size_t k = 0; k < 4; ++k) totals[r + k] += sums[k];
  }
  for (; r < rows.num_rows; ++r)
    totals[r] += std::accumulate(rows[r], rows[r] + rows.num_cols, 0.0);
}

}  // namespace

// --- row codes --------------------------------------------------------------------------------

AddSignLogitsArgs HeadLookup::Codes(SignPlanes planes, std::span<const float> factors, size_t first,
                                    size_t begin, Rows<float> logits) const {
  const size_t table_bytes = SignTableBytes(queries_.num_cols);
  const size_t plane_bytes = PlaneBytes(queries_.num_cols);
  for (const std::byte*& plane : planes) {
    if (plane != nullptr) plane += first * plane_bytes;
  }
  return {
      .tables = std::span<const uint8_t>(buffers_.tables.span())
                    .subspan(begin * table_bytes, logits.num_rows * table_bytes),
      .scales = std::span<const SignScale>(buffers_.scales.span()).subspan(begin, logits.num_rows),
      .plane_bytes = plane_bytes,
      .planes = planes,
      .factors = factors.subspan(first, logits.num_cols),
      .logits = logits};
}

void HeadLookup::PackBlock(size_t first, size_t count) {
  const size_t code_bytes = head_.row_code_bytes(), plane_bytes = PlaneBytes(queries_.num_cols);
  std::byte* const codes = buffers_.codes.Resize(kBlockRows * code_bytes).data();
  // The coded clusters lie apart in the file: each cluster's codes are copied in one piece.
  const Segments clusters = SegmentsWithin(coded_.begin, first, count);
  for (size_t i = 0; i + 1 < clusters.begins.size(); ++i) {
    const size_t begin = clusters.begins[i], size = clusters.begins[i + 1] - begin;
    if (size == 0) continue;
    std::memcpy(codes + begin * code_bytes, head_.RowCodes(coded_.rows[first + begin]),
                size * code_bytes);
  }
  RowFactors(codes, queries_.num_cols, buffers_.factors.span().subspan(first, count));
  PackSigns({.planes = codes,
             .stride = code_bytes,
             .num_rows = count,
             .plane_bytes = plane_bytes,
             .packed = buffers_.planes.data() + first * plane_bytes});
}

HeadLookup::Segments HeadLookup::SegmentsWithin(std::span<const uint32_t> begins, size_t first,
                                                size_t count) const {
  const auto from = static_cast<uint32_t>(first), to = static_cast<uint32_t>(first + count);
  const size_t begin = std::upper_bound(begins.begin(), begins.end(), from) - begins.begin() - 1;
  const size_t end = std::lower_bound(begins.begin(), begins.end(), to) - begins.begin();
  const std::span<uint32_t> within = buffers_.begins.Resize(end - begin + 1);
  for (size_t i = 0; i < within.size(); ++i) {
    within[i] = std::clamp(begins[begin + i], from, to) - from;
  }
  return {begin, within};
}

void HeadLookup::SpreadCentroidLogits(std::span<const uint32_t> columns, size_t first,
                                      Rows<float> logits) const {
  args_.backend.spread_values(
      {.values = {CentroidLogitsOf(0), logits.num_rows, open_.log_counts.size()},
       .columns = columns.subspan(first, logits.num_cols),
       .out = logits});
}

std::span<float> HeadLookup::RowWeights(size_t begin, size_t num_rows) {
  const std::span<float> weights = buffers_.weights.Resize(num_rows);
  for (size_t r = 0; r < num_rows; ++r) {
    const double mass = lse_.joined.empty() ? MassOf(begin + r) : lse_.joined[begin + r];
    const double all = std::max(mass, double{kNoMass});
    weights[r] = static_cast<float>(scored_.weights[begin + r] / all);
  }
  return weights;
}

double HeadLookup::MassOf(size_t row) const {
  return std::exp(double{lse_.rest[row]} - lse_.reference[row]) + coded_.mass[row];
}

void HeadLookup::ListMasses(std::span<double> masses) const {
  for (size_t r = 0; r < masses.size(); ++r) masses[r] = MassOf(r);
}

void HeadLookup::JoinMasses(std::span<const double> masses) {
  lse_.joined.assign(masses.begin(), masses.end());
  for (size_t r = 0; r < scored_.known_lse.size(); ++r) {
    lse_.joined[r] += std::exp(double{scored_.known_lse[r]} - lse_.reference[r]);
  }
}

// Calls body(first query row, count) for parts of kPartRows query rows, each of which meets all
// coded rows before the next one does.
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

void HeadLookup::ScoreCodedRows() {
  const size_t num_rows = coded_.rows.size(), num_groups = groups_.all.size();
  coded_.scores = buffers_.row_scores.Resize(num_rows);
  std::fill(coded_.scores.begin(), coded_.scores.end(), 0.0f);
  coded_.mass.assign(queries_.num_rows, 0.0);
  const std::span<float> all_groups = buffers_.group_masses.Resize(queries_.num_rows * num_groups);
  std::fill(all_groups.begin(), all_groups.end(), 0.0f);
  if (num_rows == 0) return;
  buffers_.factors.Resize(num_rows);
  buffers_.planes.Resize(PackedSignBytes(num_rows, PlaneBytes(queries_.num_cols)));
  ForEachPart([&](size_t row, size_t count) {
    float* const data = buffers_.row_masses.Resize(count * kBlockStride).data();
    for (size_t first = 0; first < num_rows; first += kBlockRows) {
      const size_t size = std::min(kBlockRows, num_rows - first);
      const Rows<float> masses(data, count, size, kBlockStride);
      // The packed codes are made for the first part and used by all.
      if (row == 0) PackBlock(first, size);
      SpreadCentroidLogits(coded_.row_columns, first, masses);
      args_.backend.sign_masses(
          {.codes = Codes({buffers_.planes.data()}, buffers_.factors.span(), first, row, masses),
           .reference = Tile(lse_.reference, row, row + count),
           .softcap = args_.softcap,
           .weights = Tile(scored_.weights, row, row + count),
           .scores = Tile(coded_.scores, first, first + size)});
      AddToGroups(groups_.begin, row, first, masses);
    }
  });
}

void HeadLookup::AddToGroups(std::span<const uint32_t> begins, size_t begin, size_t first,
                             Rows<const float> masses) {
  const Segments groups = SegmentsWithin(begins, first, masses.num_cols);
  const size_t rows = masses.num_rows, num_groups = groups.begins.size() - 1;
  const Rows<float> sums(buffers_.sums.Resize(rows * num_groups).data(), rows, num_groups);
  args_.backend.sum_segments({.masses = masses, .begin = groups.begins, .sums = sums});
  for (size_t r = 0; r < rows; ++r) {
    float* const all = GroupMasses(begin + r) + groups.first;
    for (size_t g = 0; g < num_groups; ++g) all[g] += sums[r][g];
  }
  AddSums(sums, std::span(coded_.mass).subspan(begin, rows));
}

void HeadLookup::FindFineMasses() {
  const size_t num_refined = refined_.rows.size();
  const std::span<float> factors = buffers_.refined_factors.Resize(num_refined);
  for (size_t i = 0; i < num_refined; ++i) factors[i] = buffers_.factors.data()[refined_.rows[i]];
  buffers_.fine_masses.Resize(queries_.num_rows * num_refined);
  const ArenaVector<double> mass_before(coded_.mass, arena_);
  ForEachPart([&](size_t row, size_t count) {
    for (size_t first = 0; first < num_refined; first += kBlockRows) {
      const size_t size = std::min(kBlockRows, num_refined - first);
      const Rows<float> fine(FineMasses(row) + first, count, size, num_refined);
      const Rows<float> changes(buffers_.changes.Resize(count * kBlockStride).data(), count, size,
                                kBlockStride);
      SpreadCentroidLogits(refined_.row_columns, first, fine);
      args_.backend.sign_masses(
          {.codes = Codes(FinePlanes(), buffers_.fine_factors.span(), first, row, fine),
           .reference = Tile(lse_.reference, row, row + count),
           .softcap = args_.softcap,
           .sign_factors = factors.subspan(first, size),
           .changes = changes});
      AddToGroups(refined_.group_begin, row, first, changes);
    }
    for (size_t r = row; r < row + count; ++r) {
      // If row codes had given one row nearly all mass, subtracting that leaves only rounding
      // error; then the refined rows' masses are the sum.
      if (coded_.mass[r] > kRounding * mass_before[r]) continue;
      coded_.mass[r] = std::accumulate(FineMasses(r), FineMasses(r) + num_refined, 0.0);
    }
  });
}

void HeadLookup::ScoreRefined() {
  const size_t num_refined = refined_.rows.size();
  refined_.scores = buffers_.refined_scores.Resize(num_refined);
  std::fill(refined_.scores.begin(), refined_.scores.end(), 0.0f);
  if (num_refined == 0) return;
  const size_t tile = TileRows();
  for (size_t row = 0, count = 0; row < queries_.num_rows; row += count) {
    // Parts do not reach beyond a tile, as in ForEachPart.
    count = std::min({kPartRows, tile - row % tile, queries_.num_rows - row});
    const std::span<float> weights = RowWeights(row, count);
    const Rows<const float> masses(FineMasses(row), count, num_refined);
    if (by_squares_) {  // w (m / all)^2, where the weights are w / all
      float of_squares[kPartRows];
      for (size_t r = 0; r < count; ++r) of_squares[r] = 1 / scored_.weights[row + r];
      args_.backend.add_weighted_rows({.masses = masses,
                                       .weights = {of_squares, count},
                                       .scores = refined_.scores,
                                       .scales = weights});
      continue;
    }
    args_.backend.add_weighted_rows(
        {.masses = masses, .weights = weights, .scores = refined_.scores});
  }
}

ArenaVector<uint32_t> HeadLookup::BeginsAmong(std::span<const uint32_t> members,
                                              std::span<const uint32_t> begins) const {
  auto among = Make<uint32_t>();
  among.reserve(begins.size());
  uint32_t i = 0;
  for (const uint32_t begin : begins) {
    while (i < members.size() && members[i] < begin) ++i;
    among.push_back(i);
  }
  return among;
}

void HeadLookup::MakeGroups() {
  size_t last = 0;  // of coded_.columns
  const auto add = [&](uint32_t cluster, uint32_t begin_column, uint32_t end_column) {
    const size_t first = last;
    while (last < coded_.columns.size() && coded_.columns[last] < end_column) ++last;
    groups_.all.push_back(
        {cluster, begin_column, end_column, last - first == end_column - begin_column});
    groups_.coded.push_back(static_cast<uint32_t>(first));
    groups_.begin.push_back(coded_.begin[first]);
  };
  if (has_one_level()) {
    for (size_t i = 0; i < coded_.clusters.size(); ++i) {
      add(coded_.clusters[i], coded_.columns[i], coded_.columns[i] + 1);
    }
  } else if (tail_level_ == finest()) {
    uint32_t column = 0;
    for (const IndexRange& range : open_.ranges) {
      for (uint32_t cluster = range.begin; cluster < range.end; ++cluster, ++column) {
        add(cluster, column, column + 1);
      }
    }
  } else {
    const auto& children = head_.levels()[finest() - 1].children;
    uint32_t column = 0;
    // Open ranges are whole families, so the parents of a range follow one another.
    for (const IndexRange& range : open_.ranges) {
      auto parent = static_cast<uint32_t>(
          std::upper_bound(children.begin(), children.end(), range.begin) - children.begin() - 1);
      for (; children[parent] < range.end; ++parent) {
        const uint32_t size = children[parent + 1] - children[parent];
        add(parent, column, column + size);
        column += size;
      }
    }
  }
  groups_.coded.push_back(static_cast<uint32_t>(coded_.clusters.size()));
  groups_.begin.push_back(coded_.begin.back());
}

Status HeadLookup::ScoreRows(std::span<const uint32_t> coded) {
  const size_t dim = queries_.num_cols, num_queries = queries_.num_rows;
  coded_.clusters.assign(coded.begin(), coded.end());
  ToRanges(coded, selection_.coded);
  coded_.columns = ColumnsOf(open_.ranges, coded, arena_);
  coded_.begin.push_back(0);
  // 1. Codes are verified and prefetched, because those of different clusters lie apart.
  for (const uint32_t cluster : coded) {
    const IndexRange rows = head_.ClusterRows(cluster);
    LECTERN_RETURN_IF_ERROR(head_.VerifyRowCodes(rows));
    const std::byte* const codes = head_.RowCodes(rows.begin);
    for (size_t i = 0; i < rows.size() * head_.row_code_bytes(); i += 64) {
      __builtin_prefetch(codes + i);
    }
    coded_.begin.push_back(coded_.begin.back() + rows.size());
  }
  coded_.rows = buffers_.coded_rows.Resize(coded_.begin.back());
  coded_.row_columns = buffers_.coded_columns.Resize(coded_.begin.back());
  for (size_t i = 0; i < coded.size(); ++i) {
    const uint32_t begin = coded_.begin[i], end = coded_.begin[i + 1];
    std::iota(coded_.rows.begin() + begin, coded_.rows.begin() + end,
              head_.ClusterRows(coded[i]).begin);
    std::fill(coded_.row_columns.begin() + begin, coded_.row_columns.begin() + end,
              coded_.columns[i]);
  }
  // 2. Queries are scaled and rotated as the codes were, and become tables (kernels/sign_logits.h).
  const Rows<float> rotated(buffers_.rotated.Resize(num_queries * dim).data(), num_queries, dim);
  for (size_t r = 0; r < num_queries; ++r) {
    for (size_t c = 0; c < dim; ++c) rotated[r][c] = args_.scale * measured_[r][c];
    Rotate({rotated[r], dim});
  }
  MakeSignTables(rotated, buffers_.tables.Resize(num_queries * SignTableBytes(dim)),
                 buffers_.scales.Resize(num_queries));
  AddMissed(finest(), coded);
  MakeGroups();
  ScoreCodedRows();
  // 3. The log mass of the rest, perhaps with spreads that the codes tell.
  if (!measures_spreads()) {
    SumRest();
  } else if (args_.share == nullptr) {
    auto sums = Make<double>(2 * num_queries);
    ListSpreads(sums);
    JoinSpreads(sums);
  }
  return {};
}

Status HeadLookup::RefineRows(std::span<const uint32_t> refined) {
  const size_t dim = queries_.num_cols, plane_bytes = PlaneBytes(dim);
  refined_.rows.assign(refined.begin(), refined.end());
  refined_.begin = BeginsAmong(refined_.rows, coded_.begin);
  refined_.group_begin.clear();
  for (const uint32_t i : groups_.coded) refined_.group_begin.push_back(refined_.begin[i]);
  const size_t num_refined = refined_.rows.size();
  // Collects three planes for every refined row, side by side: its signs, and the two planes of its
  // fine code.
  if (num_refined == 0) return {};
  const size_t all_bytes = num_refined * plane_bytes;
  const std::span<std::byte> codes = buffers_.fine_codes.Resize(3 * all_bytes);
  const std::array<std::span<std::byte>, 3> planes = {
      codes.first(all_bytes), codes.subspan(all_bytes, all_bytes), codes.last(all_bytes)};
  const std::span<float> factors = buffers_.fine_factors.Resize(num_refined);
  refined_.row_columns = buffers_.refined_columns.Resize(num_refined);
  selection_.refined.resize(num_refined);
  const uint32_t first_row = head_.num_exact();
  const std::byte* const row_codes = head_.RowCodes(first_row);
  const std::byte* const fine_codes = head_.FineCodes(first_row);
  const size_t row_bytes = head_.row_code_bytes(), fine_bytes = head_.fine_code_bytes();
  uint32_t verified_end = 0;  // stored row
  for (size_t i = 0; i < num_refined; ++i) {
    // Rows lie apart, hence the prefetches. The distance is by hand, and no measurement of others
    // is on record; it changes the speed alone.
    constexpr size_t kAhead = 48;
    if (i + kAhead < num_refined) {
      const size_t next = coded_.rows[refined_.rows[i + kAhead]] - first_row;
      __builtin_prefetch(row_codes + next * row_bytes);
      __builtin_prefetch(fine_codes + next * fine_bytes);
      __builtin_prefetch(fine_codes + (next + 1) * fine_bytes - 1);
    }
    const uint32_t index = refined_.rows[i], row = coded_.rows[index];
    // One checksum covers several codes: the next check is due past verified_end.
    if (row >= verified_end) {
      LECTERN_ASSIGN(verified_end, head_.VerifyFineCodesFrom(row));
    }
    const std::byte* const fine_code = fine_codes + (row - first_row) * fine_bytes;
    const size_t place = i * plane_bytes;
    CopyPlane(row_codes + (row - first_row) * row_bytes, plane_bytes, planes[0].data() + place);
    CopyPlane(fine_code, plane_bytes, planes[1].data() + place);
    CopyPlane(fine_code + plane_bytes, plane_bytes, planes[2].data() + place);
    factors[i] = FineFactor(fine_code, dim);
    refined_.row_columns[i] = coded_.row_columns[index];
    selection_.refined[i] = row;
  }
  // The kernels read planes in packed blocks.
  MakeFinePlanes(planes[0], planes[1], planes[2]);
  for (size_t p = 0; p < 3; ++p) {
    const size_t bytes = PackedSignBytes(num_refined, plane_bytes);
    PackSigns({.planes = planes[p].data(),
               .stride = plane_bytes,
               .num_rows = num_refined,
               .plane_bytes = plane_bytes,
               .packed = buffers_.fine_planes[p].Resize(bytes).data()});
  }
  FindFineMasses();
  return {};
}

Status HeadLookup::FinishRows(std::span<const uint32_t> chosen) {
  if (args_.bound) {
    LECTERN_RETURN_IF_ERROR(
        AddClusterBound(finest(), Without(open_.ranges, coded_.clusters, arena_)));
    AddRowBound(chosen);
  }
  selection_.rows.reserve(chosen.size());
  for (const uint32_t i : chosen) selection_.rows.push_back(selection_.refined[i]);
  // Unread mass is what the coded rows hold together less the rows that are read.
  const ArenaVector<uint32_t> begins = BeginsAmong(chosen, refined_.group_begin);
  SumReadMasses(chosen, begins);
  const std::span<const float> weights = RowWeights(0, queries_.num_rows);
  auto read = Make<double>(queries_.num_rows);
  AddSums({ReadMasses(0), queries_.num_rows, groups_.all.size()}, read);
  for (size_t r = 0; r < queries_.num_rows; ++r) {
    missed_mass_ += weights[r] * std::max(0.0, coded_.mass[r] - read[r]);
  }
  if (args_.tail) {
    if (has_one_level()) {
      ToRanges(Without(open_.ranges, coded_.clusters, arena_), selection_.tail[0]);
    }
    MakeLogitTail(begins);
  }
  CountBytes();
  return {};
}

void HeadLookup::SumReadMasses(std::span<const uint32_t> read, std::span<const uint32_t> begins) {
  const size_t num_groups = groups_.all.size();
  buffers_.read_masses.Resize(queries_.num_rows * num_groups);
  if (num_groups == 0) return;
  for (size_t row = 0; row < queries_.num_rows; row += kPartRows) {
    const size_t count = std::min(kPartRows, queries_.num_rows - row);
    const Rows<float> masses(buffers_.changes.Resize(count * read.size()).data(), count,
                             read.size());
    for (size_t r = 0; r < count; ++r) {
      const float* const fine = FineMasses(row + r);
      float* const out = masses[r];
      for (size_t i = 0; i < read.size(); ++i) out[i] = fine[read[i]];
    }
    args_.backend.sum_segments(
        {.masses = masses, .begin = begins, .sums = {ReadMasses(row), count, num_groups}});
  }
}

void HeadLookup::MakeLogitTail(std::span<const uint32_t> read_begin) {
  auto kept = Make<Group>();
  auto kept_groups = Make<uint32_t>(), clusters = Make<uint32_t>();
  for (uint32_t g = 0; g < groups_.all.size(); ++g) {
    const Group& group = groups_.all[g];
    const uint32_t num_read = read_begin[g + 1] - read_begin[g];
    if (group.all_coded && num_read == groups_.begin[g + 1] - groups_.begin[g]) continue;
    kept.push_back(group);
    kept_groups.push_back(g);
    clusters.push_back(group.cluster);
  }
  if (kept.empty()) return;
  ArenaVector<float> bias(open_.log_counts, arena_);
  for (const uint32_t column : coded_.columns) bias[column] = -INFINITY;
  LogitTail& tail = selection_.logit_tail;
  tail.level = tail_level_;
  ToRanges(clusters, tail.clusters);
  tail.logits.resize(all_queries_.num_rows * kept.size());
  // Each group's mass over the scored rows: all of it, and the part that is not read.
  auto all = Make<double>(kept.size()), left = Make<double>(kept.size());
  const size_t num_groups = groups_.all.size();
  auto coded_left = Make<float>(num_groups);
  ForEachTile(finest(), [&](Rows<float> centroids, size_t begin, size_t end) {
    Rows<const float> uncoded;  // for the part that r lies in
    for (size_t r = begin; r < end; ++r) {
      const size_t in_part = (r - begin) % kPartRows;
      if (in_part == 0) {
        const size_t part_end = std::min(r + kPartRows, end);
        uncoded = UncodedMasses(centroids.Slice(r - begin, part_end - begin), bias, r);
      }
      const float *const coded = GroupMasses(r), *const read = ReadMasses(r);
      const float* const rest = uncoded[in_part];
      // A difference of float sums: at least as large as its rounding error, and never zero, so
      // that its logarithm is finite.
      for (size_t g = 0; g < num_groups; ++g) {
        coded_left[g] = std::max(std::max(coded[g] - read[g], 0x1p-24f * coded[g]), kNoMass);
      }
      float* const logits = tail.logits.data() + scored_.rows[r] * kept.size();
      for (size_t i = 0; i < kept.size(); ++i) {
        logits[i] = coded_left[kept_groups[i]] + rest[kept_groups[i]];
      }
      for (size_t i = 0; !scores_all() && i < kept.size(); ++i) {
        const float in_codes = coded[kept_groups[i]] - coded_left[kept_groups[i]];
        left[i] += double{scored_.weights[r]} * logits[i];
        all[i] += double{scored_.weights[r]} * (logits[i] + std::max(0.0f, in_codes));
      }
      args_.backend.log_rows(
          {.masses = {logits, 1, kept.size()}, .reference = Tile(lse_.reference, r, r + 1)});
    }
  });
  if (scores_all()) return;
  // Query rows that are not scored get the scored rows' share of unread mass, group by group.
  for (size_t i = 0; i < kept.size(); ++i) {
    left[i] = all[i] > 0 ? std::min(1.0, left[i] / all[i]) : 1;
  }
  FillLogitTail(kept, left);
}

Rows<const float> HeadLookup::UncodedMasses(Rows<const float> centroids,
                                            std::span<const float> bias, size_t begin) {
  const size_t rows = centroids.num_rows, num_open = centroids.num_cols;
  const Rows<float> sums(buffers_.sums.Resize(rows * groups_.all.size()).data(), rows,
                         groups_.all.size());
  if (has_one_level()) {  // every group is a coded cluster
    std::fill_n(sums.data, rows * groups_.all.size(), 0.0f);
    return sums;
  }
  const Rows<float> masses(buffers_.changes.Resize(rows * num_open).data(), rows, num_open);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < num_open; ++i) masses[r][i] = centroids[r][i] + bias[i];
  }
  args_.backend.exp_rows(
      {.logits = masses, .reference = Tile(lse_.reference, begin, begin + rows)});
  if (tail_level_ == finest()) return masses;  // every group is an open cluster
  auto begins = Make<uint32_t>();  // of groups, which are adjacent
  for (const Group& group : groups_.all) begins.push_back(group.begin_column);
  begins.push_back(static_cast<uint32_t>(num_open));
  args_.backend.sum_segments({.masses = masses, .begin = begins, .sums = sums});
  return sums;
}

void HeadLookup::FillLogitTail(std::span<const Group> groups, std::span<const double> left) {
  // Query rows at a time, which bounds the memory. By hand; no measurement is on record.
  constexpr size_t kTileRows = 64;
  const size_t num_open = open_.log_counts.size(), dim = all_queries_.num_cols;
  // The kernels sum between any two borders, so every second sum is a gap between groups and is
  // ignored.
  auto segments = Make<uint32_t>();
  for (const Group& group : groups) {
    segments.push_back(group.begin_column);
    segments.push_back(group.end_column);
  }
  auto unscored = Make<uint32_t>();
  for (uint32_t r = 0; r < all_queries_.num_rows; ++r) {
    if (!std::binary_search(scored_.rows.begin(), scored_.rows.end(), r)) unscored.push_back(r);
  }
  // Their clusters are taken to be as wide along them as along the scored rows in the mean.
  const float stretch = std::accumulate(spreads_.begin(), spreads_.end(), 0.0f) /
                        std::max(kNoMass, std::accumulate(norms_.begin(), norms_.end(), 0.0f));
  auto lse = Make<float>(kTileRows), spreads = Make<float>(kTileRows);
  auto sums = Make<float>(kTileRows * (segments.size() - 1));
  auto data = Make<float>(kTileRows * num_open), rows = Make<float>(kTileRows * dim);
  for (size_t begin = 0; begin < unscored.size(); begin += kTileRows) {
    const size_t count = std::min(kTileRows, unscored.size() - begin);
    const Rows<float> queries(rows.data(), count, dim), logits(data.data(), count, num_open);
    for (size_t r = 0; r < count; ++r) {
      std::copy_n(all_queries_[unscored[begin + r]], dim, queries[r]);
    }
    const Rows<float> measured(buffers_.rotated.Resize(count * dim).data(), count, dim);
    head_.Measure(args_.backend, queries, measured,
                  buffers_.scratch.Resize(AttendScratch(count, dim)));
    for (size_t r = 0; r < count; ++r) {
      spreads[r] = stretch * args_.scale * Norm({measured[r], dim});
    }
    CentroidLogits(finest(), queries, logits);
    AddSecondOrder(std::span(spreads).first(count), logits);
    Softcap(args_.backend, logits, args_.softcap);
    // Each row's largest term is its reference, so that no exponential overflows.
    for (size_t r = 0; r < count; ++r) {
      for (size_t i = 0; i < num_open; ++i) logits[r][i] += open_.log_counts[i];
      lse[r] = *std::max_element(logits[r], logits[r] + num_open);
    }
    const Rows<float> masses(sums.data(), count, segments.size() - 1);
    args_.backend.exp_rows({.logits = logits, .reference = std::span(lse).first(count)});
    args_.backend.sum_segments({.masses = logits, .begin = segments, .sums = masses});
    for (size_t r = 0; r < count; ++r) {
      float* const out = selection_.logit_tail.logits.data() + unscored[begin + r] * groups.size();
      for (size_t i = 0; i < groups.size(); ++i) {
        out[i] = std::max(masses[r][2 * i] * static_cast<float>(left[i]), kNoMass);
      }
      args_.backend.log_rows({.masses = {out, 1, groups.size()},
                              .reference = std::span<const float>(lse).subspan(r, 1)});
    }
  }
}

}  // namespace lectern
