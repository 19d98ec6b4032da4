// Attention of a step's queries over the document: exact or by selected clusters and their tail.
#ifndef LECTERN_ENGINE_ATTENTION_DOCUMENT_ATTENTION_H_
#define LECTERN_ENGINE_ATTENTION_DOCUMENT_ATTENTION_H_

#include <functional>
#include <vector>

#include "engine/attention/stored_rows.h"
#include "engine/document/document.h"
#include "index/lookup.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"

namespace lectern {

// What a step of one layer read of the document, one entry per kv head. `exact`: every row, and the
// selections are empty (of a windowed layer every row that is in a window).
struct DocumentRead {
  bool exact = false;
  std::vector<HeadSelection> heads;
  uint64_t bytes = 0;        // of K, V, centroids, mean values, counts; 0 of a windowed layer
  uint64_t window_bytes = 0;  // of K and V of a windowed layer
  // K and V of the layer, all rows, also those that are not stored; 0 of a windowed layer.
  uint64_t dense_bytes = 0;
  // Share of the attention that lies on rows not read, mean over kv heads and rows (by their
  // weights); 0 when exact. An estimate, and where `bounded` what it cannot exceed.
  double missed_mass = 0, missed_bound = 0;
  // The estimate before it is calibrated: what the tail stands for beside what was read; without a
  // tail the lookup's own sum.
  double uncalibrated_missed = 0;
  bool bounded = false;
  // Per kv head [R]: log mass of what was read and of what is attended besides.
  std::vector<std::vector<float>> read_lse;
  uint32_t attempts = 1;  // lookups, each of twice the budget of the one before; bytes are of all
};

// Logits of a step's last query rows with all document rows that it read, for evidence. Buffers
// that are kept from step to step.
struct ObservedLogits {
  size_t num_queries = 0;  // the last rows of each kv head
  // Per kv head [num_queries][n]: of sinks and window, and of what was read besides: where the step
  // was exact all other stored rows, else the selection's.
  std::vector<std::vector<float>> exact, rest;
  std::vector<float> limits;  // a buffer of AddProbabilities
};

// Buffers of AttendDocument and AttendClusters, kept from step to step. One call at a time.
struct AttentionWorkspace {
  struct Slot {  // of a thread
    std::vector<float> scratch;
    std::vector<std::byte> keys, values;  // gathered rows
    std::vector<KvBlock> blocks;          // of a run
    std::vector<float> logits;            // of a run of the tail
  };
  // One for each thread. What one needed once all have room for, as any may get the same work.
  void PrepareSlots(size_t num_threads, size_t scratch);
  Arena arena;  // all else
  std::vector<Slot> slots;
  Reused<float> partial;  // states of items of work that are merged
  std::vector<std::vector<float>> observed;  // by a device, per kv head
  LookupWorkspace lookup;
  std::vector<HeadSelection> selections;               // of AttendClusters
  std::vector<std::vector<float>> known_lse, all_lse;  // per kv head [R]
};

// Chooses what a step of a layer reads, in the place of Lookup: for evaluations of other methods.
using Selector =
    std::function<Result<std::vector<HeadSelection>>(uint32_t layer, const LookupArgs&)>;

// The queries of one layer's attention, and what each part of it works with.
struct LayerQuery {
  const Backend& backend;
  ThreadPool& threads;
  RowQuery rows;  // its states are those of AttendDocument or AttendClusters
  std::span<const float> row_weights = {};  // as LookupArgs'
  std::function<bool()> is_cancelled;       // polled between items of work; may be empty
  AttentionWorkspace& workspace;
};

struct DocumentAttentionArgs {
  LayerQuery query;  // states, in: reset; out: the document's
  const Document& document;
  uint32_t layer;
  uint64_t first_position = 0;  // for windowed layers: of the first token
  double kv_budget;             // (0, 1], of the layer's stored rows; 1: exact
  bool tail;
  std::span<const double> head_budgets = {};  // as LookupArgs'
  // Calibrates estimates at `nominal_budget`; nullptr: they are not calibrated.
  const MissedCalibration* calibration = nullptr;
  double nominal_budget = 0;  // (0, 1], of the ask, whatever the plan makes of it here
  // Read on, with twice the budget, until less than this is missed: by missed_bound, or else by
  // the calibrated estimate's limit. Below 0: no such limit.
  double max_missed = -1;
  // Find missed_bound (which a limit needs): it reads radii and looks at every code again.
  bool bound = false;
  // Per kv head, [R]: log-sum-exp of what the queries attend to besides; empty: not known.
  std::span<const std::span<float>> other_lse = {};
  const Selector* selector = nullptr;  // where the pass is not exact; nullptr: Lookup
  SelectionRule rule = {};             // of Lookup
  ObservedLogits* observed = nullptr;  // out; nullptr: not wanted
  // Where stored rows are attended to, and looked up for a few query rows: of this document;
  // nullptr: here. Other lookups, tails and observed logits are the host's all the same.
  StoredRows* device = nullptr;
};

// A windowed layer is read whole whatever the budget, and not observed.
// Work is cut by the data alone (bytes of rows, or blocks of query rows) and merged in a fixed
// order: the same bits for any number of threads. `read` keeps its memory; after an error it holds
// anything. kChecksumMismatch, kCancelled, errors of StoredRows.
Status AttendDocument(const DocumentAttentionArgs& args, DocumentRead& read);

struct ClusterAttentionArgs {
  LayerQuery query;                  // states: in/out
  std::span<const HeadIndex> heads;  // of one layer, all with clusters
  double kv_budget;                  // (0, 1]; 1: every row
};
// Adds to states, which may hold what is attended besides: sinks and window of the heads, the rows
// that one lookup chooses by the default rule, and the tail. Bits as of AttendDocument.
// kChecksumMismatch, kCancelled.
Status AttendClusters(const ClusterAttentionArgs& args);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_DOCUMENT_ATTENTION_H_
