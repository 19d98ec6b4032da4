// Looks up one kv head: scores its clusters level after level (head_lookup.cc), then its rows by
// their codes (head_rows.cc), which also tell how wide clusters are (head_spreads.cc). The choice
// of what to open and to read is made by index/lookup.cc, over all heads of a layer.
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

// Codes of one bit per dimension add to the squared deviation of a cluster's logits this part of
// what its variance gives (median over query rows; SmolLM2). In theory it is pi / 2 - 1 = 0.57 of
// long clusters' (arXiv:2405.12497), less where a few keys hold most of the mass. With 0.3 and 0.5
// errors differ by at most 3 % with SmolLM2, Gemma 3 and the bundled reader, the factor below at
// 0.8 to 0.9 (tools/evaluate/RESULTS.md).
inline constexpr double kCodeNoise = 0.45;
// Spreads are taken to be smaller than measured by this factor: masses grow as the exponential of
// spreads, so that one too large costs more than one too small. From 0.8 to 0.9 errors of questions
// at 0.05 and 0.1 differ by at most 3 % with SmolLM2, Gemma 3 and the bundled reader. With SmolLM2
// at 0.05 they are 0.89 to 0.90 of those without measured spreads, 0.97 with a factor of 1
// (tools/evaluate/RESULTS.md).
inline constexpr double kCaution = 0.85;

// Buffers of one head's lookup. They keep their memory from step to step and are overwritten by
// each lookup.
struct HeadBuffers {
  Arena arena;  // for every other array of the lookup
  // Logits of the open clusters for one tile of query rows: `centroid_logits` uses centroids only,
  // `logits` adds the variance term.
  Reused<float> centroid_logits, logits;
  Reused<float> row_masses;  // for one part of a tile: masses of a block of coded rows
  Reused<float> group_masses, read_masses, fine_masses;  // for all scored query rows
  Reused<float> changes, sums;                           // for one part of a tile
  Reused<float> lse, weights, scratch, rotated;
  Reused<float> scored;    // the query rows that are scored, side by side
  Reused<float> measured;  // the same rows in the head's metric
  Reused<float> bounds;    // for a tile of query rows: bounds of the coded rows that are not read
  Reused<uint8_t> tables;
  Reused<SignScale> scales;
  // Codes of the coded rows and, in three planes, of the refined rows: first a block as stored,
  // then packed planes.
  Reused<std::byte> codes, fine_codes;  // as stored
  Reused<std::byte> planes;
  std::array<Reused<std::byte>, 3> fine_planes;
  Reused<float> factors, fine_factors;
  Reused<float> refined_factors;  // row-code factors of the refined rows
  // Arrays behind HeadLookup's spans of the same names, and the indices that index/lookup.cc finds.
  Reused<uint32_t> coded_rows, coded_columns, refined_columns, begins, found;
  Reused<uint32_t> counts;  // of scores (index/best_scores.h)
  Reused<float> row_scores, refined_scores;
  HeadSelection ranked;  // result of a lookup that only ranks
};

// Looks up one kv head, driven by index/lookup.cc. One thread at a time. Order of calls:
// Score(first), Descend(first), … Score(finest), then either FinishClusters, or ScoreRows,
// RefineRows and FinishRows. Every call that returns a Status may fail with the codes of
// HeadIndex's Verify functions (kChecksumMismatch, kCorrupt); the selection then holds anything.
class HeadLookup {
 public:
  // Begins at `first_level` with all its clusters open; levels above it are not read. Borrows the
  // arguments and the buffers, whose arena it resets, and writes `selection`, which keeps its
  // memory.
  HeadLookup(const LookupArgs& args, size_t head, size_t first_level, HeadBuffers& buffers,
             HeadSelection& selection);

  const HeadIndex& head() const { return head_; }
  size_t num_scored() const { return scored_.rows.size(); }  // number of query rows that are scored
  // The open clusters of the current level, and S of each in the same order. They hold until the
  // next call that changes the level or scores it.
  std::span<const IndexRange> open() const { return open_.ranges; }
  std::span<const float> scores() const { return open_.scores; }

  // Lets the mean values of the finest clusters stand for rows that are not read, instead of those
  // of their parents. Only for a lookup that begins at the finest level; call it before ScoreRows.
  void UseFinestValues() { tail_level_ = finest(); }
  // Lets the squares of a row's shares of attention be its score by fine codes, not the shares: the
  // errors of rows that are not read add up as squares. Call it before RefineRows.
  void ScoreBySquares() { by_squares_ = true; }
  // Computes the score S of every open cluster of the level.
  Status Score(size_t level);
  // The same in two steps, between which ranks that share a lookup add up their denominators:
  // JoinOpen takes the log masses of all ranks' clusters.
  Status SumOpen(size_t level);
  std::span<const float> open_lse() const { return lse_.reference; }  // [scored query rows]
  void JoinOpen(std::span<const float> lse);
  void ScoreOpen(size_t level);
  // Share of attention that goes to what is attended besides (LookupArgs::known_lse), in the same
  // total as scores().
  double KnownMass() const;
  // Replaces the open clusters by the children of `opened` (numbers of clusters of `level`, which
  // was scored last; ascending). The other clusters stay in the tail and in the denominator, and
  // count towards the missed mass and its bound.
  Status Descend(size_t level, std::span<const uint32_t> opened);
  // At the finest level: chooses all rows of the clusters `chosen` (ascending) to be read, and
  // fills in the selection's tail, bytes and missed mass.
  Status FinishClusters(std::span<const uint32_t> chosen);

  // At the finest level: reads the row codes of the clusters `coded` (ascending) and scores each of
  // their rows.
  Status ScoreRows(std::span<const uint32_t> coded);
  // Whether the masses of clusters without codes are estimated with spreads that the codes of the
  // others tell (ListSpreads), so that ranks that share a lookup meet once more. By then
  // UseFinestValues has been called, or will not be.
  bool measures_spreads() const {
    return tail_level_ == finest() && !has_one_level() && args_.second_order && args_.softcap == 0;
  }
  // Writes two sums for each scored query row to `sums` [2, scored query rows], over this rank's
  // coded clusters: keys times the squared deviation of their logits, as far as their masses by
  // codes tell it, and keys times variance. Call it after ScoreRows.
  void ListSpreads(std::span<double> sums);
  // Takes these sums over all clusters of all ranks, and estimates clusters without codes anew.
  // ScoreRows calls it itself but for ranks that share a lookup.
  void JoinSpreads(std::span<const double> sums);
  // S of each of these rows, in the order of the stored rows. They lie in the buffers, and hold
  // until the next ScoreRows or the next lookup with these buffers.
  std::span<const float> row_scores() const { return coded_.scores; }
  // Reads the fine codes of the rows `refined` (indices into row_scores(), ascending), then scores
  // these rows again. Ranks that share a lookup add up their masses in between.
  Status RefineRows(std::span<const uint32_t> refined);
  void ScoreRefined();
  // Writes to `masses` [scored query rows] what this rank's clusters and coded rows hold together,
  // each divided by exp of the denominator that SumOpen and JoinOpen found.
  void ListMasses(std::span<double> masses) const;
  // Takes the same sums over all ranks; known masses are added to them.
  void JoinMasses(std::span<const double> masses);
  // One for each of `refined`.
  std::span<const float> refined_scores() const { return refined_.scores; }
  uint32_t StoredRow(size_t index) const { return coded_.rows[index]; }  // index: into row_scores()
  // Chooses the rows chosen[i] (indices into refined_scores(), ascending) to be read, and fills in
  // the selection's tail, bytes and missed mass.
  Status FinishRows(std::span<const uint32_t> chosen);

 private:
  static constexpr float kNoMass = 1e-30f;  // share of all mass; less cannot be told from none
  // Upper bound on the rounding error of a logit (float sums, rotated queries). Exact logits exceed
  // computed ones by at most this. Only bounds (LookupArgs::bound) add it. By hand: with it no
  // bound of 1,051,872 was violated (tools/evaluate/RESULTS.md, "Missed attention").
  static constexpr float kLogitSlack = 4e-3f;

  // logits = scale * q . C for the open clusters.
  void CentroidLogits(size_t level, Rows<const float> queries, Rows<float> logits);
  // Adds the variance term (kernels/second_order.h) for queries of these spreads: deviations of a
  // logit in a cluster of variance 1.
  void AddSecondOrder(std::span<const float> spreads, Rows<float> logits) const;
  // Makes `logits` of `centroid_logits` [rows, open clusters], for scored query rows from `begin`
  // on: with the variance term and the softcap.
  void WidenLogits(Rows<const float> centroid_logits, size_t begin, Rows<float> logits) const;
  // Fills lse_.rest: open clusters without codes, by their centroids and spreads, and all that was
  // known or rejected before.
  void SumRest();
  // Reads the open clusters of the level, and resets their scores and the denominator.
  Status ReadOpen(size_t level);
  // Add a tile's logits to the denominator, and to the scores of the open clusters.
  void SumTile(Rows<const float> logits, size_t begin, size_t end);
  void ScoreTile(Rows<const float> logits, size_t begin, size_t end);
  // Calls body(logits [rows, open clusters], begin, end) for tiles of query rows [begin, end). The
  // logits include the variance term and the softcap.
  template <typename Body>
  void ForEachTile(size_t level, const Body& body);
  size_t TileRows() const;  // query rows of a tile
  // Calls body(first query row, number of rows) for parts of each tile (see kPartRows).
  template <typename Body>
  void ForEachPart(const Body& body);
  // Part of a list of segments: `begins` has one entry more than there are segments, `first` is the
  // number of its first segment.
  struct Segments {
    size_t first;
    std::span<const uint32_t> begins;
  };
  // Finds the segments that lie at least partly in entries [first, first + count), count >= 1, and
  // cuts them to it: their begins less `first`. Segment i of all begins at begins[i]; the last one
  // ends at begins.back(). The result views buffers_.begins, until the next call.
  Segments SegmentsWithin(std::span<const uint32_t> begins, size_t first, size_t count) const;
  // Given where segments begin among all entries, `begins`, finds where they begin among the
  // ascending `members` (numbers of entries): as many numbers, the last one the end.
  ArenaVector<uint32_t> BeginsAmong(std::span<const uint32_t> members,
                                    std::span<const uint32_t> begins) const;
  // Packs the row codes of coded rows [first, first + count) into buffers_.planes and their
  // factors into buffers_.factors, which have room for all coded rows. `first`: a multiple of
  // kSignBlock; count: at most kBlockRows.
  void PackBlock(size_t first, size_t count);
  // Sets logits [query rows of the part or tile, n] to the centroid logit of each row's cluster,
  // for rows [first, first + n) of the coded or refined rows, whose row_columns are `columns`.
  void SpreadCentroidLogits(std::span<const uint32_t> columns, size_t first,
                            Rows<float> logits) const;
  // The weights of scored query rows [begin, begin + num_rows), each divided by the mass of
  // everything: the rest and the coded rows. A mass, exp(logit - reference), times this weight is
  // a share of attention. Views buffers_.weights, until the next call.
  std::span<float> RowWeights(size_t begin, size_t num_rows);
  // The mass of the rest and the coded rows for a scored query row, as a share of exp(reference).
  double MassOf(size_t row) const;
  // Centroid logits of row `row`, counted from the part of ForEachPart or, outside it, from the
  // tile of ForEachTile.
  const float* CentroidLogitsOf(size_t row) const {
    return buffers_.centroid_logits.data() + (part_begin_ + row) * open_.log_counts.size();
  }
  // Arrays of exp(logit - reference) for a query row: sums over each group's coded rows, over its
  // rows that are read, and one value per refined row. In all three `row` is a number among all
  // scored query rows, not within a tile or part.
  float* GroupMasses(size_t row) const {
    return buffers_.group_masses.data() + row * groups_.all.size();
  }
  // [groups], as SumReadMasses left it, which makes room for all rows and writes here.
  float* ReadMasses(size_t row) const {
    return buffers_.read_masses.data() + row * groups_.all.size();
  }
  // [refined rows], as ScoreRefinedRows left it.
  float* FineMasses(size_t row) const {
    return buffers_.fine_masses.data() + row * refined_.rows.size();
  }
  // The kernels' arguments for adding to `logits` [query rows, n] the part that the codes of rows
  // [first, first + n) give, for query rows from `begin` on. `planes` (signs, or numbers of three
  // bits) and `factors` are those of all rows; `first` is a multiple of kSignBlock.
  AddSignLogitsArgs Codes(SignPlanes planes, std::span<const float> factors, size_t first,
                          size_t begin, Rows<float> logits) const;
  SignPlanes FinePlanes() const {  // of the refined rows
    const auto& planes = buffers_.fine_planes;
    return {planes[0].data(), planes[1].data(), planes[2].data()};
  }
  // Finds the masses of all coded rows by their row codes: their sums by group (GroupMasses,
  // coded_.mass), and each row's S in coded_.scores. These scores use the denominator that
  // centroids gave; they only order the rows. Needs coded_ and groups_, as ScoreRows and
  // MakeGroups fill them.
  void ScoreCodedRows();
  // Adds masses [query rows, n] of rows [first, first + n) to the sums of their groups
  // (GroupMasses) and to coded_.mass, for query rows from `begin` on. The groups' rows begin at
  // `begins`. Masses may be negative: changes. Overwrites buffers_.sums.
  void AddToGroups(std::span<const uint32_t> begins, size_t begin, size_t first,
                   Rows<const float> masses);
  // Replaces the refined rows' masses by those of their fine codes, in the sums by group and in
  // coded_.mass, and fills FineMasses. coded_.scores stay as they are, because only refined rows
  // are chosen from. Called once, at the end of RefineRows.
  void FindFineMasses();
  // Open finest clusters that one tail entry stands for: the clusters of one parent, a single
  // cluster by its own mean value, or a single coded cluster where there is one level only.
  // begin_column and end_column are their columns in open_.ranges.
  struct Group {
    uint32_t cluster, begin_column, end_column;
    bool all_coded;
  };
  // Fills groups_, once the coded clusters are known: one group for each parent of open finest
  // clusters, or for each of these; or, if there is only one level, one for each coded cluster.
  void MakeGroups();
  // Sums exp(logit - reference) over each group's clusters that are not coded, for query rows from
  // `begin` on (a number among all scored rows). Returns [query rows, groups], in buffers_.sums or
  // buffers_.changes until that is used again; a group whose clusters are all coded has 0.
  // `centroids`: logits of the open clusters as ForEachTile has them, with variance term and
  // softcap; `bias`: ln N of these, -inf for coded ones. Overwrites both buffers.
  Rows<const float> UncodedMasses(Rows<const float> centroids, std::span<const float> bias,
                                  size_t begin);
  // Fills ReadMasses with the sums, per query row and group, of the masses of the rows `read`
  // (ascending indices among the refined rows); each group's begin in `read` at `begins`.
  // Overwrites buffers_.changes.
  void SumReadMasses(std::span<const uint32_t> read, std::span<const uint32_t> begins);
  // Fills selection_.logit_tail for all query rows: per group, the log of its mass that is not
  // read, always finite. Each group's rows among those that are read begin at `read_begin`. Groups
  // that are read whole are left out; if all are, the tail stays empty. Call SumReadMasses before.
  void MakeLogitTail(std::span<const uint32_t> read_begin);
  // The part of MakeLogitTail for query rows that are not scored: each group's mass by centroids,
  // times the share left [groups], in [0, 1], that the scored rows found to be unread. Overwrites
  // buffers_.rotated.
  void FillLogitTail(std::span<const Group> groups, std::span<const double> left);
  // Adds to missed_mass_ the share of attention that the level's open clusters hold except those
  // in `read` (numbers of open clusters, unchecked, ascending): S times the number of keys; a sum
  // that rounding makes negative counts as 0. Clusters that are looked into further count as read.
  // Call it after Score of the level.
  void AddMissed(size_t level, std::span<const uint32_t> read);
  // Adds to selection_.unread_bound the open clusters `not_read` of the level (ascending): a key
  // of cluster i has q . k <= q . C_i + |M q| r_i, where r_i is its radius and M the head's
  // metric. Lists them in selection_.bounded. Does nothing unless a bound is wanted. Codes of
  // VerifyRadii.
  Status AddClusterBound(size_t level, std::span<const uint32_t> not_read);
  // Adds to selection_.unread_bound the coded rows that are not read; `read`: indices among the
  // refined rows. A coded row has q . k <= q . C + (f <M q, u> + f |u| |M q|) / 2
  // (index/row_codes.h). Only if a bound is wanted, and after RefineRows.
  void AddRowBound(std::span<const uint32_t> read);
  // Sets the selection's bytes and its missed mass, missed_mass_ cut to [0, 1], when everything
  // else of the selection is known.
  void CountBytes();
  // The part of an array of one number for each query row that belongs to rows [begin, end).
  static std::span<float> Tile(std::span<float> x, size_t begin, size_t end) {
    return x.subspan(begin, end - begin);
  }
  bool scores_all() const { return queries_.num_rows == all_queries_.num_rows; }
  size_t finest() const { return head_.levels().size() - 1; }
  bool has_one_level() const { return finest() == 0; }

  // A vector of `size` zeros in the arena, which holds until the next lookup with these buffers.
  template <typename T>
  ArenaVector<T> Make(size_t size = 0) const {
    return ArenaVector<T>(size, arena_);
  }

  const LookupArgs& args_;
  const HeadIndex& head_;
  HeadBuffers& buffers_;
  Arena* const arena_;
  const Rows<const float> all_queries_;
  // The query rows that are scored; [R] below is their number. Rows of weight 0 are skipped unless
  // a bound is wanted.
  Rows<const float> queries_;
  // The query rows that are scored.
  struct Scored {
    Arena* arena;
    ArenaVector<uint32_t> rows{arena};                    // their places in all_queries_
    ArenaVector<float> weights{arena}, known_lse{arena};  // [R]; known_lse may be empty
  } scored_{arena_};
  // [R]: queries_ in the head's metric, M q, which codes, radii and variances are met with.
  Rows<const float> measured_;
  ArenaVector<float> norms_{arena_};  // [R]: scale * |M q|
  // [R]: times sqrt(variance) of a cluster, the deviation of its logits. norms_, as if clusters
  // were equally wide in every direction, until JoinSpreads measures it.
  ArenaVector<float> spreads_{arena_};
  // The open clusters of the current level: `ranges`, and one number for each cluster of them.
  struct Open {
    Arena* arena;
    ArenaVector<IndexRange> ranges{arena};
    ArenaVector<float> log_counts{arena}, scores{arena}, variances{arena};
  } open_{arena_};
  // [R] each. rejected: log mass of what is known plus all clusters rejected so far. reference:
  // that plus all clusters of the current level, the denominator of S. rest: rejected plus the open
  // clusters that are not coded.
  struct Lse {
    Arena* arena;
    ArenaVector<float> rejected{arena}, reference{arena}, rest{arena};
    // Where ranks share a lookup: the mass of everything, as a share of exp(reference); else
    // empty. `rejected` and `rest` are then of this rank's clusters alone.
    ArenaVector<double> joined{arena};
  } lse_{arena_};
  // The clusters whose row codes were read, and all their rows.
  struct Coded {
    Arena* arena;
    ArenaVector<uint32_t> clusters{arena};  // ascending
    ArenaVector<uint32_t> columns{arena};   // their columns in open_
    ArenaVector<uint32_t> begin{arena};     // [clusters + 1]: where each one's rows begin in `rows`
    std::span<uint32_t> rows = {};          // stored rows
    std::span<uint32_t> row_columns = {};   // for each of `rows` its cluster's column in open_
    std::span<float> scores = {};           // S of each of `rows`, by its row code
    ArenaVector<double> mass{arena};        // [R]: exp(logit - reference) summed over `rows`
  } coded_{arena_};
  // The coded rows whose fine codes were read.
  struct Refined {
    Arena* arena;
    ArenaVector<uint32_t> rows{arena};         // indices into coded_.rows
    ArenaVector<uint32_t> begin{arena};        // [coded clusters + 1]: where each one's rows begin
    ArenaVector<uint32_t> group_begin{arena};  // [groups + 1]: likewise for groups
    std::span<uint32_t> row_columns = {};      // of `rows`, as Coded has them
    std::span<float> scores = {};              // S of `rows`, by fine codes
  } refined_{arena_};
  // The groups that partition the coded rows.
  struct Groups {
    Arena* arena;
    ArenaVector<Group> all{arena};
    ArenaVector<uint32_t> coded{arena};  // [groups + 1]: where each group's coded clusters begin
    ArenaVector<uint32_t> begin{arena};  // [groups + 1]: where each group's coded rows begin
  } groups_{arena_};

  bool has_logits_ =
      false;  // the buffers hold the logits of all query rows, and they are still valid
  size_t part_begin_ = 0;  // first row of the current part, in its tile
  bool by_squares_ = false;  // refined_.scores are sums of squares
  size_t tail_level_;        // level whose mean values stand for rows of coded clusters
  double missed_mass_ = 0;
  HeadSelection& selection_;
};

// ---- Ascending numbers

// Writes ascending numbers as ranges into `ranges`, any vector of IndexRange.
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
// Members of `ranges` (ascending and disjoint) that are not in `chosen` (ascending).
ArenaVector<uint32_t> Without(std::span<const IndexRange> ranges, std::span<const uint32_t> chosen,
                              Arena* arena);
// The column of each of `chosen` (ascending, all members of `ranges`, unchecked): its place when
// the members of `ranges` (ascending and disjoint) are counted from 0 on.
ArenaVector<uint32_t> ColumnsOf(std::span<const IndexRange> ranges,
                                std::span<const uint32_t> chosen, Arena* arena);

// ---- Implementation

// A tile is all query rows if their logits fit into 4 Mi floats (16 MiB), otherwise as many as
// fit, but at least 16 rows. By hand; no measurement is on record. It bounds the memory, which
// engine/forward/step_memory.cc counts, and changes no result.
inline size_t HeadLookup::TileRows() const {
  constexpr size_t kTileFloats = 4 << 20, kFewestTileRows = 16;
  const size_t num_open = std::max<size_t>(1, open_.log_counts.size());
  return std::min(std::max(kFewestTileRows, kTileFloats / num_open), queries_.num_rows);
}

template <typename Body>
void HeadLookup::ForEachTile(size_t level, const Body& body) {
  const size_t num_open = open_.log_counts.size(), tile = TileRows();
  float* data = buffers_.logits.Resize(tile * num_open).data();
  float* centroid_data = buffers_.centroid_logits.Resize(tile * num_open).data();
  const bool has_logits = has_logits_ && tile == queries_.num_rows;
  for (size_t begin = 0; begin < queries_.num_rows; begin += tile) {
    const size_t end = std::min(begin + tile, queries_.num_rows);
    const Rows<float> logits(data, end - begin, num_open);
    if (!has_logits) {
      const Rows<float> centroid_logits(centroid_data, end - begin, num_open);
      CentroidLogits(level, queries_.Slice(begin, end), centroid_logits);
      WidenLogits(centroid_logits, begin, logits);
    }
    body(logits, begin, end);
  }
  has_logits_ = tile == queries_.num_rows;
}

}  // namespace lectern

#endif  // LECTERN_INDEX_HEAD_LOOKUP_H_
