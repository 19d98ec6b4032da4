// Retention: chooses which rows of a document are stored at all when only a share of them shall be.
//
// A method scores rows, says how the kv heads share the kept rows, and may replace the least
// important kept rows by representatives of evicted ones (KVCrush). Sinks and window always stay.
#ifndef LECTERN_INDEX_RETENTION_RETENTION_H_
#define LECTERN_INDEX_RETENTION_RETENTION_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "index/retention/kvcrush.h"
#include "store/status.h"

namespace lectern {

// The fewest rows that a kv head keeps besides sinks and window; they become its clusters. By
// hand, a block of KV-Compress; no measurement is on record. It binds for tiny shares alone.
inline constexpr uint32_t kLeastKeptRows = 16;

// The sizes of a document before eviction, when every kv head has the same rows.
struct RetentionShape {
  uint32_t num_layers, num_kv_heads;
  uint32_t num_rows;  // L; the position that follows the last row
  uint32_t num_sinks, num_window;
  uint32_t least_kept() const { return num_sinks + num_window + kLeastKeptRows; }
};

// Statistics of one kv head's rows (index/window_attention.h).
struct RowStatistics {
  std::vector<float> squared;  // [L]: SquaredWindowAttention
  // [query heads of the group][L]: WindowSums of power 1
  std::vector<std::vector<double>> attention;
  Signatures signatures;  // [L], over all query heads of the layer; empty if no method needs them
};

struct RetentionMethod {
  std::string_view name;
  // [L]: rows with the largest scores are kept first. A page's score is the sum over its rows.
  std::vector<float> (*score)(const RetentionShape& shape, const RowStatistics& rows);
  // How many of `total` rows each kv head keeps, [layers * kv heads], at least shape.least_kept()
  // each. They sum to `total`, or to within a block per head where blocks compete. `block_scores`
  // of each head: index/policies/kv_compress.h, made from `score`.
  std::vector<uint64_t> (*allot)(const RetentionShape& shape,
                                 std::span<const std::vector<float>> block_scores, uint64_t total);
  KvCrush crush = {};  // with a share of 0 there are no representatives
};

// All methods; the span lives forever. To add one, add an entry with its functions.
std::span<const RetentionMethod> RetentionMethods();

// The retention that an index run was asked for.
struct Retention {
  double keep = 1;  // (0, 1]: share of the rows of all kv heads
  std::string method = "kv-compress";
  // (0, 1]: representatives' share of what each head keeps; 0: the method's own.
  double representatives = 0;
  bool keeps_all() const { return keep >= 1; }
};

// Checks the ranges that Retention states and the method's name. kInvalidArgument (param keep,
// retention or representatives). The message for an unknown method lists the known ones.
Status CheckRetention(const Retention& retention);
// kInvalidArgument (param keep) if heads would be left without clusters; the message tells the
// smallest possible share.
Status CheckKeep(const Retention& retention, const RetentionShape& shape);
// The method of a retention that CheckRetention accepts, with the requested share of
// representatives.
RetentionMethod MethodOf(const Retention& retention);

// Rows to keep over all kv heads: ceil(keep * rows).
uint64_t RowsToKeep(const Retention& retention, const RetentionShape& shape);

// Block scores of a head in the order of eviction: BlockScores of the method's scores, with sinks
// and window last.
std::vector<float> EvictionOrder(const RetentionMethod& method, const RetentionShape& shape,
                                 const RowStatistics& rows);

// The rows of one kv head that stay, ascending: sinks, window and others, `count` in all. `seed`
// draws the representatives. Precondition: shape.least_kept() <= count <= L.
std::vector<uint32_t> ChooseRows(const RetentionMethod& method, const RetentionShape& shape,
                                 const RowStatistics& rows, uint64_t count, uint64_t seed);

}  // namespace lectern

#endif  // LECTERN_INDEX_RETENTION_RETENTION_H_
