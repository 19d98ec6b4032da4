// Retention: which rows of a document are stored at all, where only a share of them shall be.
//
// A method scores rows, says how kv heads share what is kept, and may put representatives of what
// goes (KVCrush) in the place of the least of what stays. Sinks and window always stay.
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

// Rows that a kv head keeps besides sinks and window, at least: they are its clusters.
inline constexpr uint32_t kLeastKeptRows = 16;

// Every kv head of the document has the same rows.
struct RetentionShape {
  uint32_t num_layers, num_kv_heads;
  uint32_t num_rows;  // L; also the position of the row after the last one
  uint32_t num_sinks, num_window;
  uint32_t least_kept() const { return num_sinks + num_window + kLeastKeptRows; }
};

// What is known of one kv head's rows: index/window_attention.h.
struct RowStatistics {
  std::vector<float> squared;  // [L]: log of squared attention
  // [query heads of the group][L]: attention, pooled
  std::vector<std::vector<double>> attention;
  Signatures signatures;  // [L] of all query heads of the layer; empty where nothing needs them
};

struct RetentionMethod {
  std::string_view name;
  // [L]: what is kept first is what is largest. Adds up over a page.
  std::vector<float> (*score)(const RetentionShape& shape, const RowStatistics& rows);
  // How many of `total` rows each kv head keeps, [layers * kv heads]: at least
  // shape.least_kept() each. `block_scores` of each head: index/policies/kv_compress.h, of `score`.
  std::vector<uint64_t> (*allot)(const RetentionShape& shape,
                                 std::span<const std::vector<float>> block_scores, uint64_t total);
  KvCrush crush = {};  // of a share of 0: no representatives
};

// Every method there is: a new one is an entry, its functions and their declaration.
std::span<const RetentionMethod> RetentionMethods();

// What an index run was asked to keep.
struct Retention {
  double keep = 1;  // (0, 1]: share of the rows of all kv heads
  std::string method = "kv-compress";
  double representatives = 0;  // (0, 1]: of what each head keeps; 0: the method's own share
  bool keeps_all() const { return keep >= 1; }
};

// kInvalidArgument (param keep, retention or representatives); the message of an unknown method
// lists those that there are.
Status CheckRetention(const Retention& retention);
// kInvalidArgument (param keep) where so little is kept that heads are left without clusters; the
// message tells the least share.
Status CheckKeep(const Retention& retention, const RetentionShape& shape);
// Of a retention that CheckRetention accepts: the method, with the share of representatives that
// was asked for.
RetentionMethod MethodOf(const Retention& retention);

// ceil(keep * rows of all kv heads).
uint64_t RowsToKeep(const Retention& retention, const RetentionShape& shape);

// The order in which a head's rows would go: BlockScores of the method's scores, sinks and window
// at the end.
std::vector<float> EvictionOrder(const RetentionMethod& method, const RetentionShape& shape,
                                 const RowStatistics& rows);

// The rows of one kv head that stay, ascending: sinks, window and `count` - those others.
// Representatives by `seed`. Precondition: shape.least_kept() <= count <= L.
std::vector<uint32_t> ChooseRows(const RetentionMethod& method, const RetentionShape& shape,
                                 const RowStatistics& rows, uint64_t count, uint64_t seed);

}  // namespace lectern

#endif  // LECTERN_INDEX_RETENTION_RETENTION_H_
