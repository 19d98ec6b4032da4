// An indexed document, open for reading.
#ifndef LECTERN_ENGINE_DOCUMENT_DOCUMENT_H_
#define LECTERN_ENGINE_DOCUMENT_DOCUMENT_H_

#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "engine/document/missed_calibration.h"
#include "engine/document/page_map.h"
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

struct DocumentOptions {
  Io io = Io::kMmap;  // of layers; text and tokens are always read
  // Shards' pages beyond it are let go of between layers; nullptr: none ever is.
  std::shared_ptr<RamLimit> ram = nullptr;
};

// Immutable and thread-safe; shared by any number of sessions. Shards stay open while it lives,
// also after the document was removed from the store, and the files stay for as long.
class Document {
 public:
  // Opens every shard's header and the text; layers' clusters are read when they are first used.
  // kMissingFile, kTruncated, kChecksumMismatch, kCorrupt, kUnsupportedVersion, kOutOfMemory.
  static Result<std::shared_ptr<const Document>> Open(Env& env, const std::string& directory,
                                                      const DocumentRow& row,
                                                      const std::vector<ShardSummary>& shards,
                                                      const DocumentOptions& options = {});
  ~Document();

  const DocumentRow& row() const { return row_; }
  std::string_view text() const { return contents_.text; }
  std::span<const int32_t> tokens() const { return contents_.tokens; }  // of the fixed context
  std::span<const TokenizedText::Range> ranges() const { return contents_.ranges; }
  std::span<const PageMapEntry> pages() const { return contents_.pages; }  // empty: it has none
  const ShardHeader& shape() const { return document_shard_->header(); }
  uint32_t num_layers() const { return shape().num_layers; }
  Dtype kv_dtype() const { return static_cast<Dtype>(shape().kv_dtype); }
  // The kv budget of asks that name none.
  float default_kv_budget() const { return default_kv_budget_; }
  // Measured while indexing, by the document's plan and the default rule.
  const MissedCalibration& missed_calibration() const { return missed_calibration_; }
  bool has_clusters() const { return shape().num_levels > 0; }
  // Of a sliding-window layer W, else 0. Its rows are read whole, outside of budget and plan.
  uint32_t window(uint32_t layer) const { return layers_[layer]->shard->header().window_size; }
  bool is_windowed(uint32_t layer) const { return window(layer) > 0; }
  uint32_t num_full_layers() const { return num_full_layers_; }
  // What its model's matrices were multiplied as when it was indexed.
  WeightsType weights() const { return weights_; }
  // The chat template that it was indexed with; none: the model's own. kCorrupt.
  Result<std::optional<ChatSource>> chat_source() const;
  // The day that the template was told while indexing, "2026-11-25"; empty: it asks for none.
  const std::string& template_date() const { return template_date_; }
  // The plan of asks that name no policies.
  const PlanPolicies& policies() const { return policies_; }

  // Which rows are stored, and their share of all: in (0, 1], 1 where everything is kept. A kv
  // budget is a share of all, so that figures compare; one of kept_share() reads what there is.
  const Retention& retention() const { return retention_; }
  // How its keys and values were computed: IndexOptions::prefill_budget; below 1: sparsely.
  double prefill_budget() const { return prefill_budget_; }
  double kept_share() const { return kept_share_; }
  bool ReadsAll(double kv_budget) const { return !has_clusters() || kv_budget >= kept_share_; }
  // What is verified of a layer's rows, codes and centroids stays while one of these lives. Then
  // pages go if there are too many: those of the layer that was read last, because a step comes to
  // it last again.
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
  // What a step needs of memory for shards at least: all of the largest layer.
  uint64_t layer_ram() const { return layer_ram_; }
  const std::shared_ptr<RamLimit>& ram() const { return ram_; }

  // The kv heads of a layer: read and checked at first use. Thread-safe.
  Result<std::span<const HeadIndex>> Heads(uint32_t layer) const;
  // Hints that a step of many tokens comes to `layer` next, so that it is read while there is other
  // work: clusters and codes, which a lookup wants first; and rows, where the layer has a window,
  // or where most of the layer before was read, as of a first question.
  void ReadAheadCodes(uint32_t layer) const;
  void ReadAheadRows(uint32_t layer) const;
  // K and V bytes of one layer that is not windowed, all kv heads and rows, stored or not.
  uint64_t LayerBytes() const;

  // The plan by `policies` at a budget that does not read all: its shares are of stored rows.
  // `has_floors`: no share is below what a lookup of the layer or head costs at least. Reads the
  // clusters of all layers.
  // kInvalidArgument, kBudgetTooSmall, as MakePlan.
  Result<BudgetPlan> Plan(const PlanPolicies& policies, double kv_budget, bool tail,
                          bool has_floors) const;
  // The stored plan at the stored budget. kBudgetTooSmall.
  Result<DocumentPlan> StoredPlan() const;
  // The smallest budget that there is such a plan with floors for.
  Result<double> SmallestBudget(const PlanPolicies& policies, bool tail) const;

  // [chunks of the prefill][layers]: running sums of cosines, for texts that begin as this one
  // (engine/indexing/reuse_kv.h); empty: there are none. kCorrupt, kChecksumMismatch.
  Result<std::span<const double>> CosineSums() const;

  // Every block of every shard.
  Status VerifyAll() const;

 private:
  void ReadAhead(uint32_t layer, bool rows) const;
  Status ReadStatistics();
  Status ReadRetention(const Json& options);
  void ReadHeadsAhead() const;  // a hint that Heads of all layers follow
  Result<std::vector<double>> Floors(const PlanPolicies& policies, bool tail) const;
  struct Layer {
    std::unique_ptr<ShardReader> shard;
    mutable std::shared_mutex use;  // shared: someone reads; alone: pages may go
    mutable std::mutex mutex;
    mutable std::vector<HeadIndex> heads;     // filled once, under mutex
    mutable std::atomic<bool> is_loaded = false;
    mutable std::atomic<uint64_t> pages = 0;  // bytes as the limit was told
  };
  Status ReserveRam();
  void CountPages(uint32_t layer) const;
  void DropPages(uint32_t layer) const;  // unless someone reads them
  DocumentRow row_;
  std::unique_ptr<FileLock> lease_;  // nobody removes the files while they are read
  std::unique_ptr<ShardReader> document_shard_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::shared_ptr<RamLimit> ram_;
  RamLimit::Share ram_share_;  // of what stays as long as the document is open
  uint64_t layer_ram_ = 0;
  uint32_t num_full_layers_ = 0;
  WeightsType weights_ = WeightsType::kStored;
  std::string chat_template_ = std::string(kPlainTemplate);  // a name (chat_formats.h)
  std::string template_text_, template_date_;                // where the template needs them
  float default_kv_budget_ = 1;
  MissedCalibration missed_calibration_;
  PlanPolicies policies_;
  Retention retention_;
  double kept_share_ = 1;
  double prefill_budget_ = 1;
  std::vector<double> cosines_;  // [layers], or empty
  // The text and its tokens, which lie in document_shard_.
  struct Contents {
    std::string_view text;
    std::span<const int32_t> tokens;
    std::span<const TokenizedText::Range> ranges;
    std::span<const PageMapEntry> pages;
  } contents_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_DOCUMENT_H_
