// The lookup of one kv head: level after level (head_lookup.cc), then row after row (head_rows.cc).
// index/lookup.cc decides what is opened and read.
#ifndef LECTERN_INDEX_HEAD_LOOKUP_H_
#define LECTERN_INDEX_HEAD_LOOKUP_H_

#include <algorithm>
#include <array>
#include <span>

#include "index/lookup.h"
#include "index/reused.h"
#include "kernels/second_order.h"
#include "kernels/sign_logits.h"

namespace lectern {

// What the lookup of one kv head fills and forgets.
struct HeadBuffers {
  Arena arena;  // all else
  // Of a tile of query rows: logits of open clusters, by centroids alone and second order included.
  Reused<float> centroid_logits, logits;
  Reused<float> row_masses;  // of a part of it: of a block of coded rows
  Reused<float> group_masses, read_masses, fine_masses;  // of all that are scored
  Reused<float> changes, sums;                           // of a part
  Reused<float> lse, weights, scratch, rotated;
  Reused<float> scored;  // query rows
  Reused<float> bounds;  // of the coded rows that are not read, for a tile of query rows
  Reused<uint8_t> tables;
  Reused<SignScale> scales;
  // Of the coded rows and, with three planes, of those refined.
  Reused<std::byte> codes, fine_codes;  // of a block, as stored; as planes
  Reused<std::byte> planes;
  std::array<Reused<std::byte>, 3> fine_planes;
  Reused<float> factors, fine_factors;
  Reused<float> refined_factors;  // of row codes
  // HeadLookup's, of the same names, and what index/lookup.cc finds.
  Reused<uint32_t> coded_rows, begins, found;
  Reused<float> row_scores, refined_scores;
  HeadSelection ranked;  // of a lookup that only ranks
};

// One thread at a time. Call order: Score(first), Descend(first), … Score(finest), then either
// FinishClusters, or ScoreRows, RefineRows and FinishRows.
class HeadLookup {
 public:
  // Begins at `first_level`, with all its clusters open; levels above it are not read. Borrows the
  // buffers, whose arena it resets, and writes `selection`, which keeps its memory.
  HeadLookup(const LookupArgs& args, size_t head, size_t first_level, HeadBuffers& buffers,
             HeadSelection& selection);

  const HeadIndex& head() const { return head_; }
  size_t num_scored() const { return scored_.rows.size(); }  // query rows
  std::span<const IndexRange> open() const {
    return open_.ranges;
  }                                                               // clusters of the current level
  std::span<const float> scores() const { return open_.scores; }  // S, in the order of open()

  // S of every open cluster of the level.
  Status Score(size_t level);
  // Share of what is known, in the same total as scores().
  double KnownMass() const;
  // Goes on with the children of `opened` (ascending); the rest stays as tail and denominator.
  Status Descend(size_t level, std::span<const uint32_t> opened);
  // Finest level: reads all rows of `chosen` (ascending).
  Status FinishClusters(std::span<const uint32_t> chosen);

  // Finest level: reads the row codes of `coded` (ascending) and scores each of their rows.
  Status ScoreRows(std::span<const uint32_t> coded);
  std::span<const float> row_scores() const { return coded_.scores; }
  // Reads the fine codes of rows `refined` (indices into row_scores(), ascending) and scores these
  // again.
  Status RefineRows(std::span<const uint32_t> refined);
  std::span<const float> refined_scores() const { return refined_.scores; }  // of `refined`
  uint32_t StoredRow(size_t index) const { return coded_.rows[index]; }      // of row_scores()
  // Reads rows chosen[i] (indices into refined_scores(), ascending).
  Status FinishRows(std::span<const uint32_t> chosen);

 private:
  static constexpr float kNoMass = 1e-30f;  // of everything: less cannot be told from none
  // Logits are sums in float, and the rotation rounds: what exact values may exceed them by.
  static constexpr float kLogitSlack = 4e-3f;

  // scale * q . C of open clusters.
  void CentroidLogits(size_t level, Rows<const float> queries, Rows<float> logits);
  // What their variances add, for queries of these norms.
  void AddSecondOrder(std::span<const float> norms, Rows<float> logits) const;
  // Calls body(logits [rows, open clusters], begin, end) for tiles of query rows; with what the
  // variances add.
  template <typename Body>
  void ForEachTile(size_t level, const Body& body);
  template <typename Body>
  void ForEachPart(const Body& body);
  struct Segments {
    size_t first;
    std::span<const uint32_t> begins;  // one more than there are
  };
  Segments SegmentsWithin(std::span<const uint32_t> begins, size_t first, size_t count) const;
  ArenaVector<uint32_t> BeginsAmong(std::span<const uint32_t> members,
                                    std::span<const uint32_t> begins) const;
  void PackBlock(size_t first, size_t count);
  void SpreadCentroidLogits(std::span<const uint32_t> begins, size_t first,
                            Rows<float> logits) const;
  std::span<float> RowWeights(size_t begin, size_t num_rows);
  // Of row `row` of the part that ForEachPart, or else of the tile that ForEachTile is at.
  const float* CentroidLogitsOf(size_t row) const {
    return buffers_.centroid_logits.data() + (part_begin_ + row) * open_.log_counts.size();
  }
  // exp(logit - reference) of a query row: per group, of what is read of it, per refined row.
  float* GroupMasses(size_t row) const {
    return buffers_.group_masses.data() + row * groups_.all.size();
  }
  float* ReadMasses(size_t row) const {
    return buffers_.read_masses.data() + row * groups_.all.size();
  }
  float* FineMasses(size_t row) const {
    return buffers_.fine_masses.data() + row * refined_.rows.size();
  }
  AddSignLogitsArgs Codes(SignPlanes planes, std::span<const float> factors, size_t first,
                          size_t begin, Rows<float> logits) const;
  SignPlanes FinePlanes() const {  // of the refined rows
    const auto& planes = buffers_.fine_planes;
    return {planes[0].data(), planes[1].data(), planes[2].data()};
  }
  void ScoreCodedRows();
  void AddToGroups(std::span<const uint32_t> begins, size_t begin, size_t first,
                   Rows<const float> masses);
  void ScoreRefinedRows();
  // Open finest clusters by which the tail stands for them: those of one parent, or where there
  // are no parents one that is coded. Their columns in open_.ranges.
  struct Group {
    uint32_t cluster, begin_column, end_column;
    bool all_coded;
  };
  void MakeGroups();
  Rows<const float> UncodedMasses(Rows<const float> centroids, std::span<const float> bias,
                                  size_t begin);
  void SumReadMasses(std::span<const uint32_t> read, std::span<const uint32_t> begins);
  void MakeLogitTail(std::span<const uint32_t> read_begin);
  void FillLogitTail(std::span<const Group> groups, std::span<const double> left);
  void AddMissed(size_t level, std::span<const uint32_t> read);
  Status AddClusterBound(size_t level, std::span<const uint32_t> not_read);
  void AddRowBound(std::span<const uint32_t> read);
  void CountBytes();
  static std::span<float> Tile(std::span<float> x, size_t begin, size_t end) {
    return x.subspan(begin, end - begin);
  }
  bool scores_all() const { return queries_.num_rows == all_queries_.num_rows; }
  size_t finest() const { return head_.levels().size() - 1; }

  template <typename T>
  ArenaVector<T> Make(size_t size = 0) const {
    return ArenaVector<T>(size, arena_);
  }

  const LookupArgs& args_;
  const HeadIndex& head_;
  HeadBuffers& buffers_;
  Arena* const arena_;
  const Rows<const float> all_queries_;
  // Those that count: [R] below is their number.
  Rows<const float> queries_;
  struct Scored {
    Arena* arena;
    ArenaVector<uint32_t> rows{arena};                    // their places among all
    ArenaVector<float> weights{arena}, known_lse{arena};  // [R]; the second may be empty
  } scored_{arena_};
  ArenaVector<float> norms_{arena_};  // [R]: scale * |q|
  // Clusters of the current level that are open, and of each:
  struct Open {
    Arena* arena;
    ArenaVector<IndexRange> ranges{arena};
    ArenaVector<float> log_counts{arena}, scores{arena}, variances{arena};
  } open_{arena_};
  // [R]: log mass of clusters rejected so far, and what is known; with that of all clusters of the
  // current level; of the first with that of open clusters that are not coded.
  struct Lse {
    Arena* arena;
    ArenaVector<float> rejected{arena}, reference{arena}, rest{arena};
  } lse_{arena_};

  // Clusters whose row codes were read, and the rows of all of them.
  struct Coded {
    Arena* arena;
    ArenaVector<uint32_t> clusters{arena};  // ascending
    ArenaVector<uint32_t> columns{arena};   // of these, in open_
    ArenaVector<uint32_t> begin{arena};     // [coded + 1]: their rows, in `rows`
    std::span<uint32_t> rows = {};          // stored rows
    std::span<float> scores = {};           // S of each of these, by its row code
    ArenaVector<double> mass{arena};        // [R], exp(logit - reference) of all of them
  } coded_{arena_};
  // Coded rows whose fine codes were read.
  struct Refined {
    Arena* arena;
    ArenaVector<uint32_t> rows{arena};         // indices into coded_.rows
    ArenaVector<uint32_t> begin{arena};        // [coded + 1]: those of each coded cluster
    ArenaVector<uint32_t> group_begin{arena};  // [groups + 1]: and of each group
    std::span<float> scores = {};              // S of them, by fine codes
  } refined_{arena_};
  struct Groups {
    Arena* arena;
    ArenaVector<Group> all{arena};       // that partition the coded rows
    ArenaVector<uint32_t> coded{arena};  // [groups + 1]: their coded clusters
    ArenaVector<uint32_t> begin{arena};  // [groups + 1]: and those' rows
  } groups_{arena_};

  bool has_logits_ =
      false;               // one tile of query rows is all of them, and what it holds still stands
  size_t part_begin_ = 0;  // in the tile
  double missed_mass_ = 0;
  HeadSelection& selection_;
};

// ---- Ascending numbers

// Into `ranges`, any vector of IndexRange.
template <typename Ranges>
void ToRanges(std::span<const uint32_t> ascending, Ranges& ranges) {
  ranges.clear();
  for (const uint32_t i : ascending) {
    if (!ranges.empty() && ranges.back().end == i) {
      ++ranges.back().end;
    } else {
      ranges.push_back({i, i + 1});
    }
  }
}
// Members of `ranges` that are not in `chosen`.
ArenaVector<uint32_t> Without(std::span<const IndexRange> ranges, std::span<const uint32_t> chosen,
                              Arena* arena);
// Positions, in the order of `ranges`, of those members that are in `chosen`.
ArenaVector<uint32_t> ColumnsOf(std::span<const IndexRange> ranges,
                                std::span<const uint32_t> chosen, Arena* arena);

// ---- Implementation

template <typename Body>
void HeadLookup::ForEachTile(size_t level, const Body& body) {
  // All query rows, where their logits fit into so many floats.
  constexpr size_t kTileFloats = 4 << 20, kFewestTileRows = 16;
  const size_t num_open = open_.log_counts.size();
  const size_t tile = std::min(
      std::max(kFewestTileRows, kTileFloats / std::max<size_t>(1, num_open)), queries_.num_rows);
  float* data = buffers_.logits.Resize(tile * num_open).data();
  float* centroid_data = buffers_.centroid_logits.Resize(tile * num_open).data();
  const bool has_logits = has_logits_ && tile == queries_.num_rows;
  for (size_t begin = 0; begin < queries_.num_rows; begin += tile) {
    const size_t end = std::min(begin + tile, queries_.num_rows);
    const Rows<float> logits(data, end - begin, num_open);
    if (!has_logits) {
      const Rows<float> centroid_logits(centroid_data, end - begin, num_open);
      CentroidLogits(level, queries_.Slice(begin, end), centroid_logits);
      std::copy_n(centroid_data, (end - begin) * num_open, data);
      AddSecondOrder(Tile(norms_, begin, end), logits);
      Softcap(args_.backend, logits, args_.softcap);
    }
    body(logits, begin, end);
  }
  has_logits_ = tile == queries_.num_rows;
}

}  // namespace lectern

#endif  // LECTERN_INDEX_HEAD_LOOKUP_H_
