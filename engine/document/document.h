// An indexed document, open for reading: its text, tokens and plan, and for each layer the kv heads
// that lookup and attention read.
#ifndef LECTERN_ENGINE_DOCUMENT_DOCUMENT_H_
#define LECTERN_ENGINE_DOCUMENT_DOCUMENT_H_

#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "engine/document/divergence_curve.h"
#include "engine/document/document_text.h"
#include "engine/document/missed_calibration.h"
#include "engine/document/retrieval_heads.h"
#include "engine/model/formats/json.h"
#include "engine/model/template/chat_formats.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/model/weights/weights.h"
#include "engine/requests/requests.h"
#include "index/budget_plan.h"
#include "index/head_index.h"
#include "index/retention/retention.h"
#include "store/catalog.h"
#include "store/ram_limit.h"
#include "store/store.h"

namespace lectern {

// How a document is opened.
struct DocumentOptions {
  Io io = Io::kMmap;  // for layers; text and tokens are always read into memory
  // Shards' pages beyond this limit are let go of between layers; nullptr: they stay.
  std::shared_ptr<RamLimit> ram = nullptr;
};

// The kv budget of an ask, and what is predicted of it.
struct ChosenBudget {
  double kv_budget = 1;
  bool is_auto = false;       // from max_divergence, if divergences were measured
  double max_divergence = 0;  // nats a token: the ask's, else the document's; also if not automatic
  // Nats a token, by the document's own rule and policies; 0 where everything is read; nothing: it
  // was not measured.
  std::optional<double> divergence;
};

// Immutable and thread-safe; shared by any number of sessions. Shards stay open while it lives, and
// their files stay as long, even if the document is removed from the store. Views and pointers are
// valid as long as the document. No call checks `layer`, which is below num_layers().
class Document {
 public:
  // Opens every shard's header, reads and checks the text, its tokens and the options of indexing;
  // a layer's clusters are read at first use. `row` and `shards` are what the catalog has of it.
  // Holds a shared lease of `directory` and, if there is options.ram, a share of it for all that
  // stays in memory, without layer_ram(). kMissingFile,
  // kTruncated, kChecksumMismatch, kCorrupt (also a shard that `shards` lacks),
  // kUnsupportedVersion, kOutOfMemory (also by options.ram); kLocked: its files are being removed;
  // other codes of Env.
  static Result<std::shared_ptr<const Document>> Open(Env& env, const std::string& directory,
                                                      const DocumentRow& row,
                                                      const std::vector<ShardSummary>& shards,
                                                      const DocumentOptions& options = {});
  ~Document();

  const DocumentRow& row() const { return contents_.row(); }
  // The text with its pages, passages and words.
  const DocumentText& contents() const { return contents_; }
  std::string_view text() const { return contents_.text(); }
  std::span<const int32_t> tokens() const { return tokens_; }  // of the fixed context
  // The byte ranges in the text, one for each token of it.
  std::span<const TokenizedText::Range> ranges() const { return ranges_; }
  // These three as DocumentText has them.
  std::span<const PageMapEntry> pages() const { return contents_.pages(); }
  std::span<const Passage> passages() const { return contents_.passages(); }
  Result<const WordIndex*> words() const { return contents_.words(); }
  // The header of the document's own shard: sizes that hold for all layers but windowed ones.
  const ShardHeader& shape() const { return contents_.shard().header(); }
  uint32_t num_layers() const { return shape().num_layers; }
  Dtype kv_dtype() const { return static_cast<Dtype>(shape().kv_dtype); }  // of the stored rows
  // The kv budget of an ask. `kv_budget`: (0, 1] or kAutoBudget; `max_divergence`: above 0, nats a
  // token, for an automatic budget; 0 in either: the document's own. The ranges are not checked
  // here. An automatic budget of a document without measured divergences is the document's own.
  ChosenBudget ChooseBudget(float kv_budget, float max_divergence) const;
  // Divergences at budgets, measured while indexing with the document's plan and the default rule.
  const DivergenceCurve& divergence_curve() const { return budget_.curve; }
  // Calibration of missed attention, measured while indexing with the document's plan and the
  // default rule.
  const MissedCalibration& missed_calibration() const { return missed_calibration_; }
  // The model's retrieval heads, as they were known when the document was indexed; nothing: they
  // were not looked for. Their layers exist; their heads' numbers are not checked.
  const std::optional<RetrievalHeads>& retrieval_heads() const { return retrieval_heads_; }
  bool has_clusters() const { return shape().num_levels > 0; }
  // W of a sliding-window layer, else 0. Such a layer's rows are read whole, outside of budget and
  // plan.
  uint32_t window(uint32_t layer) const { return layers_[layer]->shard->header().window_size; }
  bool is_windowed(uint32_t layer) const { return window(layer) > 0; }
  // Number of layers that are not windowed.
  uint32_t num_full_layers() const { return num_full_layers_; }
  // The type that the model's matrices were multiplied as while indexing.
  WeightsType weights() const { return weights_; }
  // The path of the adapter that the model had while indexing; empty: none.
  const std::string& adapter() const { return adapter_; }
  // The chat template that it was indexed with; nothing: the model's own. kInvalidArgument, param
  // "chat_template": the shard names a built-in template that this build does not have.
  Result<std::optional<ChatSource>> chat_source() const;
  // The date that the template was told while indexing, such as "2026-11-25"; empty: it uses none.
  const std::string& template_date() const { return template_date_; }
  // The policies of asks that do not name any.
  const PlanPolicies& policies() const { return policies_; }

  // Which rows are stored, and their share of all rows in (0, 1]; 1 where everything is kept. A kv
  // budget is a share of all rows, so that figures compare; from kept_share() on it reads all that
  // is stored.
  const Retention& retention() const { return retention_; }
  // IndexOptions::prefill_budget of the run that computed its keys and values; below 1: sparsely.
  double prefill_budget() const { return prefill_budget_; }
  double kept_share() const { return kept_share_; }
  // Whether a pass at this budget reads all rows that are stored.
  bool ReadsAll(double kv_budget) const { return !has_clusters() || kv_budget >= kept_share_; }
  // While one of these lives, the verified parts of a layer's rows, codes and centroids stay in
  // memory; it holds a shared lock of the layer, and the document must outlive it. Afterwards pages
  // are dropped if the RamLimit is exceeded and nobody else uses the layer: those of the layer that
  // was just read, because a step comes back to it last.
  class LayerUse {
   public:
    LayerUse(const Document& document, uint32_t layer)
        : document_(document), layer_(layer), lock_(document.layers_[layer]->use) {}
    ~LayerUse() {
      lock_.unlock();
      document_.CountPages(layer_);
    }
    LayerUse(const LayerUse&) = delete;

   private:
    const Document& document_;
    const uint32_t layer_;
    std::shared_lock<std::shared_mutex> lock_;
  };
  // The least memory for shards that a step needs, in bytes: all of the largest layer but what
  // stays in memory. Open does not reserve it; each session does, for its question.
  uint64_t layer_ram() const { return layer_ram_; }
  const std::shared_ptr<RamLimit>& ram() const { return ram_; }  // nullptr: no limit

  // The kv heads of a layer, entry h for kv head h, in windowed layers too. They are read and
  // checked at first use, but their rows, codes and centroids are not verified here; calls wait for
  // one that reads them, and after an error the next call tries again. kCorrupt, kChecksumMismatch,
  // and the codes of reading. May throw std::bad_alloc.
  Result<std::span<const HeadIndex>> Heads(uint32_t layer) const;
  // Hints that a step of many tokens comes to `layer` next, so that it is read in the background;
  // before the first such step all layers of a document of at most 128 MiB that has no limit of
  // memory. ReadAheadCodes reads clusters and codes, which a lookup needs first. ReadAheadRows
  // reads rows, but only if the layer is windowed or most of the layer before it was read, as in a
  // first question; of layer 0, unless it is windowed, it reads none.
  void ReadAheadCodes(uint32_t layer) const;
  void ReadAheadRows(uint32_t layer) const;
  // Bytes of K and V of one layer that is not windowed, over all kv heads and rows, stored or not.
  uint64_t LayerBytes() const;

  // The plan by `policies` at a budget that does not read everything; its shares are of stored
  // rows, and 1 for windowed layers. With `has_floors` no share is below the least cost of a lookup
  // of the layer or head. Only where has_clusters(). Reads the clusters of all layers.
  // kInvalidArgument and kBudgetTooSmall as MakePlan; codes of Heads.
  Result<BudgetPlan> Plan(const PlanPolicies& policies, double kv_budget, bool tail,
                          bool has_floors) const;
  // The plan of the stored policies at the stored budget, as reports show it; a share of 1 for
  // every layer where everything is read. Codes of Plan.
  Result<DocumentPlan> StoredPlan() const;
  // The smallest budget for which Plan with floors succeeds. Only where has_clusters(). Codes of
  // Heads.
  Result<double> SmallestBudget(const PlanPolicies& policies, bool tail) const;

  // [chunks of the prefill][layers]: running sums of cosines, for texts that begin like this one
  // (engine/indexing/reuse_kv.h). Empty: it has none. kCorrupt, kChecksumMismatch.
  Result<std::span<const double>> CosineSums() const;

  // Reads and verifies every block of every shard, and loads the heads of all layers; ends at the
  // first damage. Codes of Heads.
  Status VerifyAll() const;

 private:
  // Hints that the layer's rows (`rows`), or all of its other sections, are read soon, so that
  // they are read in the background.
  void ReadAhead(uint32_t layer, bool rows) const;
  // Hints once, at the first call, that all of a small document is read soon.
  void ReadWholeAhead() const;
  // Sets cosines_ from the shard's {"cosine": [layers]}, if it has statistics. kCorrupt: another
  // number of them, or one beyond [-1, 1]; codes of ShardReader::Section.
  Status ReadStatistics();
  // Sets retention_ and, if "kept_rows" is there, kept_share_ from the shard's index options.
  // kCorrupt: a value is damaged, or the share lies outside (0, 1].
  Status ReadRetention(const Json& options);
  // Sets budget_, which asks that name no budget get, from the shard's index options. kCorrupt:
  // "kv_budget" is missing, or a value is damaged. Older documents have "kv_budget" alone, without
  // "kv_budget_auto", "max_divergence" and "divergence".
  Status ReadBudget(const Json& options);
  void ReadHeadsAhead() const;  // hints that Heads of all layers follow
  // The least shares of stored rows that a lookup can serve, for layers that are not windowed: one
  // for each layer where heads compete (HeadsCompete), else one for each kv head, layer by layer.
  // Reads the clusters of all layers. Codes of Heads.
  Result<std::vector<double>> Floors(const PlanPolicies& policies, bool tail) const;
  struct Layer {
    std::unique_ptr<ShardReader> shard;
    mutable std::shared_mutex use;  // shared: someone reads; exclusive: pages may be dropped
    mutable std::mutex mutex;
    mutable std::vector<HeadIndex> heads;     // filled once, under mutex
    mutable std::atomic<bool> is_loaded = false;
    mutable std::atomic<uint64_t> pages = 0;  // bytes that the limit was told of
  };
  // The last step of Open, after ram_ and all layers are set. Sets layer_ram_, also where there is
  // no limit. With one, reserves ram_share_ and registers this document: from then on any thread
  // may call DropPages. kOutOfMemory.
  Status ReserveRam();
  // Tells the limit how many bytes of the layer's pages are in memory, and drops them if the limit
  // is exceeded and nobody reads the layer. Does nothing without a limit. LayerUse calls it at its
  // end, when it has let the layer go.
  void CountPages(uint32_t layer) const;
  void DropPages(uint32_t layer) const;  // unless someone reads the layer
  std::unique_ptr<FileLock> lease_;  // keeps others from removing the files
  DocumentText contents_;
  std::span<const int32_t> tokens_;  // these two lie in its shard
  std::span<const TokenizedText::Range> ranges_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::shared_ptr<RamLimit> ram_;
  RamLimit::Share ram_share_;  // for everything that stays as long as the document is open
  uint64_t layer_ram_ = 0;
  uint32_t num_full_layers_ = 0;
  WeightsType weights_ = WeightsType::kStored;
  std::string adapter_;
  std::string chat_template_ = std::string(kPlainTemplate);  // a name (chat_formats.h)
  std::string template_text_, template_date_;                // where the template needs them
  // How asks that name no budget get theirs.
  struct Budget {
    float kv_budget = 1;  // where it is not automatic, or nothing was measured
    bool is_auto = false;
    float max_divergence = kMaxDivergence;
    DivergenceCurve curve;
  } budget_;
  MissedCalibration missed_calibration_;
  std::optional<RetrievalHeads> retrieval_heads_;
  PlanPolicies policies_;
  Retention retention_;
  double kept_share_ = 1;
  double prefill_budget_ = 1;
  std::vector<double> cosines_;  // [layers], or empty
  mutable std::atomic<bool> is_asked_for_ = false;  // ReadWholeAhead was called
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_DOCUMENT_H_
