// Runs the attention of a step on a device with nothing between projection and output on the host:
// it enqueues, layer by layer, what engine/attention/document_attention.h and the session do.
//
// Each layer goes through these stages. Keys and values of the step's tokens join the
// conversation's. The queries attend to the conversation, and to the sinks and the window of the
// document (or to all of it). The log-sum-exp of both is given to the lookup
// (kernels/cuda/lookup/row_lookup.h for a token of an answer, question_lookup.h for a question).
// The queries attend to the rows that the lookup lists, and to the mean values that stand for the
// others. The three results are joined. Evidence is summed on the device, and the missed mass comes
// back once a step. All of the document's rows have to be on the device, and its codes where a
// layer is not read whole.
#ifndef LECTERN_ENGINE_GPU_STEP_H_
#define LECTERN_ENGINE_GPU_STEP_H_

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/attention/step.h"
#include "engine/gpu/conversation.h"
#include "engine/gpu/resident_document.h"
#include "kernels/cuda/lookup/row_lookup.h"

namespace lectern {

// One session's; one thread at a time. Device memory stays from answer to answer.
class DeviceStep final : public StepAttention {
 public:
  // Shares stream, document and conversation, borrows the rest. `staging`: of the document's rows.
  DeviceStep(std::shared_ptr<DeviceStream> stream, std::shared_ptr<DeviceDocument> document,
             std::shared_ptr<DeviceConversation> conversation, const ModelConfig& config,
             KvStaging& staging);
  ~DeviceStep() override;

  // false: the host must attend in this pass. This is so if there is another rule or conversation,
  // a limit of missed attention, or budgets of heads; if the rows or codes of a layer are not on
  // the device; if a budget leaves too little to rows (DeviceLookup); or if there is no memory. The
  // plan that was refused last is refused again until Release. With another rule, selector, limit
  // or conversation it does Release, too. The conversation has room for its tokens. Waits. Codes of
  // DeviceDocument::UseLayer, errors of Device::Check.
  Result<bool> Begin(const StepPlan& plan) override;
  // Enqueued on the stream of `a`, without a copy from or to the host. Does not poll
  // StepPlan::cancel. Errors of Device::Check.
  Status Attend(uint32_t layer, Activations& a, size_t row) override;
  // Once the stream of the activations was waited for. Waits. Adds to document_mass of
  // StepPlan::sums; after a pass of several tokens, or where masses are wanted, it does CollectSums
  // too, else that is the caller's to do before it reads them.
  Result<StepRead> Finish() override;
  void GiveUp() override { (void)stream_->stream().Wait(); }
  // Waits, and lets go of the document's layers, also after an error. Does nothing if no plan
  // stands.
  Status CollectSums() override;
  uint64_t graph_key() const override { return key_; }
  // Lets go of the document's layers; forgets sums that were gathered, and which plan was refused.
  void Release();

 private:
  // Settings that passes share: buffers are prepared once for all passes with the same plan.
  struct Plan {
    size_t num_tokens = 1;        // of a pass
    std::vector<double> budgets;  // (0, 1] of every layer; empty: everything is read
    bool tail = true;
    std::vector<float> weights;  // as StepPlan's
    bool has_squares = false, has_masses = false;
    bool operator==(const Plan&) const = default;
  };
  // Counts of one layer in the last pass.
  struct LayerRead {
    bool is_windowed = false, is_sparse = false;
    uint64_t bytes = 0;              // as DocumentRead's, or its window_bytes
    double uncalibrated_missed = 0;  // as DocumentRead's, but it may be 0
    // Where the plan has masses: of what the last token's query rows attend to, summed over them
    // and all heads, the share that is the document's.
    double document_mass = 0;
  };
  struct Layer;
  // States of the items of one launch, and where those of each kv head are.
  struct Part {
    DeviceArray<float> out, max, sum;
    DeviceArray<AttentionItem> items;
    DeviceArray<uint32_t> item_begin;  // [kv heads + 1], then how many there are
    Status Reserve(DeviceStream& stream, size_t num_items, size_t num_rows, size_t dim);
    DeviceStates states() const { return {out.data(), max.data(), sum.data()}; }
  };
  // Lets go of the old plan, and makes everything ready for passes with `plan`: plan_, layers_,
  // fixed_, choosing_ and memory; then key_ is a new one. Waits. False, and no plan stands:
  // something is not on the device, a budget leaves too little to rows, or there is no memory.
  // Codes of Document::Heads and UseLayer, errors of Device::Check.
  Result<bool> Prepare(const Plan& plan);
  // The part of Prepare after plan_ is set: the query rows that choose, with their weights, places
  // and items of every layer, and memory. False as there; kOutOfMemory where there is no memory.
  // After false or an error the caller must LetGo.
  Result<bool> TryPrepare();
  // Appends the layer to layers_, which holds its rows (and codes) from now on, and to fixed_ its
  // places and items: for all of its rows, or for the exact ones if it is sparse; then also its
  // share of the budget and its exact rows one by one, for evidence. False and errors as
  // TryPrepare's.
  Result<bool> AddLayer(uint32_t number, std::span<const HeadIndex> heads);
  // Tells the device that the conversation has `num_past` tokens before this pass, and cuts its
  // rows into items; makes room for them anew if its capacity changed, which changes key_. A plan
  // stands. Waits. kOutOfMemory, errors of Device::Check.
  Status BeginPass(uint32_t num_past);
  // Forgets the plan, and lets go of the rows and codes of its layers. The memory of buffers
  // stays.
  void LetGo();
  // Counts of one layer in the last pass, from log-sum-exps on the host, for which Finish waits.
  LayerRead CountsOf(uint32_t number) const;
  // Takes the buffers that the layers and the plan need, uploads fixed_, choosing_ and empty
  // log-sum-exps, and sets the sums of evidence to 0. The last part of TryPrepare. Waits.
  // kOutOfMemory, errors of Device::Check.
  Status TakeMemory();
  // Prepares for the conversation's rows at the place that they have now: its capacity has
  // changed, and recorded graphs are void, so key_ is a new one. Waits. kOutOfMemory, errors of
  // Device::Check; the next pass tries again.
  Status FollowConversation();
  // The arguments that all launches share: queries, scale, softcap, and the states of
  // parts_[part]. The caller adds sources and items.
  CudaAttendArgs AttendArgs(size_t part) const;
  // Stages of a layer's attention, each enqueued, with errors of Device::Check, into the states of
  // a part of its own. This one attends to the conversation's rows, in a windowed layer within the
  // window.
  Status AttendConversation(DeviceStream& stream, uint32_t number);
  // Stage: attends to the document's rows that are read whatever a lookup chooses, or to all.
  Status AttendExact(DeviceStream& stream, const Layer& layer);
  // Stage of a sparse layer, once lookup_.known_lse is joined: chooses rows, writes them to
  // lookup_.rows and counts, and cuts them into items for the attention that follows, so that the
  // host need not wait for them.
  Status LookUp(DeviceStream& stream, uint32_t number);
  // Stage of a sparse layer: attends to the rows that the lookup listed (source 0) and, with a
  // tail, to the mean values of the groups, whose logits the lookup has found already (source 1).
  Status AttendSelected(DeviceStream& stream, const Layer& layer);
  // Enqueues the joining of the first `num_parts` parts into `output` [tokens, heads * head_dim]
  // and `lse` [kv heads][R], addresses on the device; one of them may be nullptr: not wanted.
  // Errors of Device::Check.
  Status Join(DeviceStream& stream, const Layer& layer, size_t num_parts, float* output,
              float* lse);
  // Enqueues the adding of the attention of the last token's query rows to observed_, by position.
  // With masses it also finds the conversation's log-sum-exps. Only where the plan has squares or
  // masses, and not for windowed layers. Errors of Device::Check.
  Status Observe(DeviceStream& stream, uint32_t number);
  // Adds the first sums.size() of `units`, squares or masses in units of 1 / kSquareUnits
  // (key_squares.h), to `sums`. Waits for the stream. `units` stays as it is: a second call would
  // count it twice. Errors of Device::Check, kInternal if `units` is shorter; `sums` then stays.
  Status AddUnits(const DeviceArray<uint64_t>& units, std::span<double> sums);
  // The place in lse_.device, on the device, of a layer's log-sum-exps of one kind (LseOf in
  // step.cc): [kv heads][R], or for lookup and tail [kv heads][rows that choose].
  float* Lse(uint32_t number, size_t kind) const;
  bool is_observed() const { return plan_->has_squares || plan_->has_masses; }
  // Whether lookups are a question's: rows have weights, or there are more than kMostLookupQueries.
  bool is_question() const { return !plan_->weights.empty() || num_rows() > kMostLookupQueries; }
  uint32_t num_chosen() const {
    return choosing_.host_rows.empty() ? num_rows()
                                       : static_cast<uint32_t>(choosing_.host_rows.size());
  }
  uint32_t group() const { return config_.query_group(); }
  uint32_t num_rows() const { return static_cast<uint32_t>(plan_->num_tokens) * group(); }
  size_t num_queries() const { return size_t{config_.num_kv_heads} * num_rows(); }
  float scale() const { return 1 / std::sqrt(static_cast<float>(config_.head_dim)); }
  // The address of entry `at` of fixed_.places, on the device.
  const uint32_t* Place(size_t at) const { return fixed_.places.data() + at; }

  const std::shared_ptr<DeviceStream> stream_;
  const std::shared_ptr<DeviceDocument> document_;
  const std::shared_ptr<DeviceConversation> conversation_;
  const ModelConfig& config_;
  KvStaging& staging_;
  StepPlan step_plan_;                  // of the running pass
  std::optional<Plan> plan_, refused_;  // what it is ready for; what it could not be
  uint64_t key_ = 0;
  std::vector<Layer> layers_;

  // Places and items that do not change while the plan stands, for all layers: see Layer.
  struct Fixed {
    std::vector<uint32_t> host_places;
    std::vector<AttentionItem> host_items;
    std::vector<ExtraRange> host_extra;
    DeviceArray<uint32_t> places;
    DeviceArray<AttentionItem> exact_items;
    DeviceArray<ExtraRange> extra;
  } fixed_;
  // How the conversation's rows are cut into items.
  struct Said {
    DeviceArray<uint32_t> begin;  // [kv heads]: where each head's rows begin
    // The conversation that these and the items were made for; 0: none yet.
    uint32_t capacity = 0, rows_per_item = 0;
  } said_;
  // Query rows that choose, and what they count; empty: all, equally.
  struct Choosing {
    std::vector<uint32_t> host_rows;
    std::vector<float> host_weights;
    DeviceArray<uint32_t> rows;
    DeviceArray<float> weights;
  } choosing_;

  // The state of the running step.
  DeviceArray<uint32_t> step_;  // tokens before it; then of each kv head how many there are with it
  DeviceQueries queries_;
  DeviceArray<uint16_t> query_rows_;
  std::array<Part, 3> parts_;  // conversation; sinks and window; what the lookup chose
  // A layer's lookup: what it is told, its working memory, and what it finds.
  struct Lookup {
    DeviceArray<float> known_lse, scratch, tail;
    DeviceArray<uint32_t> rows, counts;  // that it chose
  } lookup_;
  struct Lse {
    DeviceArray<float> device;  // [layers][kinds: see the .cc][kv heads * R]
    std::vector<float> host;
  } lse_;
  struct Observed {
    DeviceArray<uint64_t> masses, squares;  // [tokens of the document]
  } observed_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_STEP_H_
