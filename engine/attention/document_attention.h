// Attention of a step's queries to the document: exact, or to selected rows plus a tail that stands
// for the rest. The entry points of one layer, for the host.
#ifndef LECTERN_ENGINE_ATTENTION_DOCUMENT_ATTENTION_H_
#define LECTERN_ENGINE_ATTENTION_DOCUMENT_ATTENTION_H_

#include <functional>
#include <vector>

#include "engine/attention/shared_rows.h"
#include "engine/attention/stored_rows.h"
#include "engine/document/document.h"
#include "index/lookup.h"
#include "kernels/backend.h"
#include "kernels/thread_pool.h"

namespace lectern {

// The amounts that a step read of one layer of the document, with one entry per kv head. If
// `exact`, every row was read and the selections are empty (in a windowed layer: every row that
// lies in a window).
struct DocumentRead {
  bool exact = false;
  // Whether sinks and window were read beside the selected rows; false where a document without
  // clusters, which has none, is read by a selector.
  bool reads_ends = true;
  std::vector<HeadSelection> heads;
  uint64_t bytes = 0;         // of K, V, centroids, mean values, counts; 0 in a windowed layer
  uint64_t window_bytes = 0;  // K and V of a windowed layer
  // K and V of the layer over all rows, stored or not; 0 in a windowed layer.
  uint64_t dense_bytes = 0;
  // Share of the attention that lies on rows not read: mean over kv heads and query rows (by their
  // weights); 0 when exact. missed_mass is an estimate, missed_bound (if `bounded`) an upper bound.
  double missed_mass = 0, missed_bound = 0;
  // The estimate before calibration: the tail's share of all mass, at least 1e-6; without a tail,
  // the mean over kv heads of the lookup's own estimates (HeadSelection::missed_mass).
  double uncalibrated_missed = 0;
  bool bounded = false;
  // Per kv head [R]: log mass of the rows that were read plus everything attended besides; empty if
  // `exact`.
  std::vector<std::vector<float>> read_lse;
  // Number of attempts: lookups, each with twice the budget of the one before, and perhaps a
  // reading of everything as the last. Bytes are summed over all of them.
  uint32_t attempts = 1;
};

// Logits of a step's last query rows with all document rows that it read, for evidence. The buffers
// are kept from step to step.
struct ObservedLogits {
  size_t num_queries = 0;  // the last rows of each kv head; the caller sets it
  // Per kv head [num_queries][n]. exact: sinks and window. rest: the other rows that were read,
  // which are all other stored rows if the step was exact, else the selected ones.
  std::vector<std::vector<float>> exact, rest;
  std::vector<float> limits;  // buffer of AddProbabilities
};

// Buffers of AttendDocument and AttendClusters, kept from step to step. Serves one call at a time.
struct AttentionWorkspace {
  struct Slot {  // one for each thread
    std::vector<float> scratch;
    std::vector<std::byte> keys, values;  // gathered rows, side by side
    std::vector<KvBlock> blocks;          // blocks of a run
    std::vector<float> logits;            // logits of a run of the tail
    std::vector<float> measured;          // query rows of that run in the metric of the head
  };
  // Makes one slot per thread, with `scratch` floats each. All slots get as much room as the
  // largest has needed, because any thread may get any piece of work next; so a steady state
  // allocates nothing.
  void PrepareSlots(size_t num_threads, size_t scratch);
  Arena arena;  // for everything that lives for one call
  std::vector<Slot> slots;
  Reused<float> partial;  // attention states of work items, before they are merged
  std::vector<std::vector<float>> observed;  // logits from a device, per kv head
  LookupWorkspace lookup;
  std::vector<HeadSelection> selections;               // AttendClusters' own
  OwnRows own;                                         // with other ranks
  std::vector<std::vector<float>> known_lse, all_lse;  // per kv head [R]
};

// The queries of one layer's attention, and the resources that every part of it works with. All are
// borrowed for the call.
struct LayerQuery {
  const Backend& backend;
  ThreadPool& threads;
  RowQuery rows;  // its states are the ones that the called function adds to
  std::span<const float> row_weights = {};  // as in LookupArgs
  // Polled between items of work, by any thread of the pool; may be empty.
  std::function<bool()> is_cancelled;
  AttentionWorkspace& workspace;
};

struct DocumentAttentionArgs {
  LayerQuery query;  // its states: in, reset; out, the document's
  const Document& document;
  uint32_t layer;
  uint64_t first_position = 0;                // position of the first token, for windowed layers
  double kv_budget;                           // (0, 1]: share of the layer's stored rows; 1: exact
  bool tail;                                  // whether mean values stand for what is not read
  std::span<const double> head_budgets = {};  // as in LookupArgs
  // Calibrates the estimates, for a budget of `nominal_budget`; nullptr: they stay uncalibrated.
  const MissedCalibration* calibration = nullptr;
  // (0, 1]: the budget that was asked for, before the plan shared it out.
  double nominal_budget = 0;
  // If >= 0: read again with twice the budget until at most this share is missed, judged by
  // missed_bound or by the calibrated estimate's limit, whichever is smaller. Below 0: no such
  // limit.
  double max_missed = -1;
  // Also find missed_bound (a limit needs it anyway). This reads radii and looks at every code
  // again.
  bool bound = false;
  // Reads windows as stored, as a bound does, though heads have copies of them: `read_lse` is then
  // of exact logits.
  bool as_stored = false;
  // Per kv head, [R]: log-sum-exp of what the queries attend to besides the document; empty: not
  // known.
  std::span<const std::span<float>> other_lse = {};
  // Replaces Lookup where the pass is not exact; nullptr: Lookup.
  const Selector* selector = nullptr;
  SelectionRule rule = {};             // Lookup's rule
  ObservedLogits* observed = nullptr;  // out: logits for evidence; nullptr: not wanted
  // Attends to this document's stored rows, and looks them up for a few query rows, on a device;
  // nullptr: the host does. Other lookups, tails and observed logits are the host's in either case.
  StoredRows* device = nullptr;
  // The ranks that attend to the document together; nullptr: this process attends to all rows. It
  // does so in any case in windowed layers, in documents without clusters, and where a selector, a
  // device, or a rule of the papers chooses the rows.
  SharedRows* ranks = nullptr;
};

// Attends to one layer of the document. A windowed layer is read whole whatever the budget, and not
// observed; a document without clusters is read whole. Resets the workspace's arena.
// Work is cut into items by the data alone (bytes of rows, or blocks of query rows) and the items'
// states are merged in a fixed order, so the bits are the same for any number of threads. `read`
// keeps its memory; after an error it and the states hold anything. kChecksumMismatch, kCorrupt,
// kCancelled, errors of the Selector and of StoredRows.
Status AttendDocument(const DocumentAttentionArgs& args, DocumentRead& read);

// One rank's attention to the rows that it owns, without sinks and window where it looks up.
struct OwnAttentionArgs {
  LayerQuery query;                  // its states: in/out
  std::span<const HeadIndex> heads;  // of one layer
  const LookupArgs& lookup;  // with the rank's share; of an exact pass the share alone counts
  bool reads_all;            // exact: all rows that it owns, sinks and window too
  ObservedLogits* observed = nullptr;  // out: `rest`, and in an exact pass `exact`; may be nullptr
};
// Attends to the rank's rows, then to its tails, and fills `own`. Meets the other ranks on the way,
// unless it reads all rows. Errors of Lookup and AttendDocument, after which the states hold
// anything; where it fails after the last meeting, the others do not know.
Status AttendOwnRows(const OwnAttentionArgs& args, OwnRows& own);

struct ClusterAttentionArgs {
  LayerQuery query;                  // states: in/out
  std::span<const HeadIndex> heads;  // of one layer; each has clusters
  double kv_budget;                  // (0, 1]; 1: every row
};
// Attends to heads that belong to no finished document (the prefill uses it). Adds to states, which
// may hold other rows already: sinks and window of the heads, the rows that one lookup chooses by
// the default rule, and the tail. Same bits for any number of threads. Resets the workspace's
// arena. kChecksumMismatch, kCancelled; the states then hold anything.
Status AttendClusters(const ClusterAttentionArgs& args);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_DOCUMENT_ATTENTION_H_
