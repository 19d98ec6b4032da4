// The attention of a step with nothing between projection and output on the host: what
// engine/document_attention.h and the session do, enqueued layer by layer on a device.
//
// Of a layer, in turn: keys and values of the step's tokens join the conversation's; attention to
// the conversation, and to the sinks and the window of the document (or all of it); the log-sum-exp
// of both is what the lookup knows (kernels/cuda/row_lookup.h for a token of an answer,
// question_lookup.h for a question); then attention to the rows that it lists and to the mean
// values that stand for the others; and the join of all three. Evidence is summed on the device,
// what was missed comes back once a step. All of the document's rows have to be on the device, and
// their codes where a layer is not read whole.
#ifndef LECTERN_ENGINE_DEVICE_STEP_H_
#define LECTERN_ENGINE_DEVICE_STEP_H_

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/device_conversation.h"
#include "engine/device_document.h"
#include "engine/transformer.h"
#include "kernels/cuda/row_lookup.h"

namespace lectern {

// Of one session; one thread at a time. Device memory stays from answer to answer.
class DeviceStep {
 public:
  // Shares stream, document and conversation, borrows the model's config.
  DeviceStep(std::shared_ptr<DeviceStream> stream, std::shared_ptr<DeviceDocument> document,
             std::shared_ptr<DeviceConversation> conversation, const ModelConfig& config);
  ~DeviceStep();

  struct Plan {
    size_t num_tokens = 1;        // of a step
    std::vector<double> budgets;  // (0, 1] of every layer; empty: everything is read
    bool tail = true;
    // [num_tokens * query group], of LookupArgs::row_weights; empty: equal ones.
    std::vector<float> weights;
    bool has_squares = false, has_masses = false;  // see AddEvidence
    bool operator==(const Plan&) const = default;
  };
  // Makes ready for steps, and forgets evidence. false: they are the host's to attend, as the rows
  // or codes of a layer are not on the device, a budget leaves too little to rows (DeviceLookup),
  // or there is no memory. Waits. Codes of DeviceDocument::UseLayer, errors of Device::Check.
  Result<bool> Prepare(const Plan& plan, KvStaging& staging);
  // What it is ready for; nullptr: nothing.
  const Plan* plan() const { return plan_ ? &*plan_ : nullptr; }
  // Lets go of the document's layers.
  void Release();
  // > 0; steps of the same one enqueue the same.
  uint64_t key() const { return key_; }

  // A step: Begin, Attend layer by layer, and, once the stream of `a` was waited for, Finish. The
  // first and the last wait. Its first token is number `num_past` of the conversation, which has
  // room for all of them.
  Status Begin(uint32_t num_past);
  // Rows of what the device has of `a` from `row` on, projected queries, keys and values -> these
  // rows of `projected`. Enqueued on the stream of `a`, without a copy from or to the host.
  Status Attend(uint32_t layer, Activations& a, size_t row);
  Status Finish();

  // What the last step that finished read of a layer.
  struct LayerRead {
    bool is_windowed = false, is_sparse = false;
    uint64_t bytes = 0;              // as DocumentRead's, or its window_bytes
    double uncalibrated_missed = 0;  // likewise
    // Where the plan has masses: of what the last token's query rows attend to, summed over them
    // and all heads, the share that is the document's.
    double document_mass = 0;
  };
  LayerRead Read(uint32_t layer) const;
  // Of the last token of every step since Prepare, by position of the document: the attention of
  // its query rows, all heads and layers, and its square, as far as the plan has them, are added.
  // Waits.
  Status AddEvidence(std::span<double> masses, std::span<double> squares);

 private:
  struct Layer;
  // States of the items of one launch, and where those of each kv head are.
  struct Part {
    DeviceArray<float> out, max, sum;
    DeviceArray<AttentionItem> items;
    DeviceArray<uint32_t> item_begin;  // [kv heads + 1], then how many there are
    Status Reserve(DeviceStream& stream, size_t num_items, size_t num_rows, size_t dim);
    DeviceStates states() const { return {out.data(), max.data(), sum.data()}; }
  };
  Result<bool> TryPrepare(KvStaging& staging);
  Result<bool> AddLayer(uint32_t number, std::span<const HeadIndex> heads, KvStaging& staging);
  Status TakeMemory();
  Status FollowConversation();
  CudaAttendArgs AttendArgs(size_t part) const;
  Status AttendConversation(DeviceStream& stream, uint32_t number);
  Status AttendExact(DeviceStream& stream, const Layer& layer);
  Status LookUp(DeviceStream& stream, uint32_t number);
  Status AttendSelected(DeviceStream& stream, const Layer& layer);
  Status Join(DeviceStream& stream, const Layer& layer, size_t num_parts, float* output,
              float* lse);
  Status Observe(DeviceStream& stream, uint32_t number);
  Status AddUnits(const DeviceArray<uint64_t>& units, std::span<double> sums);
  float* Lse(uint32_t number, size_t kind) const;
  bool is_observed() const { return plan_->has_squares || plan_->has_masses; }
  // Whether more query rows choose than a token has, or not all.
  bool is_question() const { return !plan_->weights.empty() || num_rows() > kMostLookupQueries; }
  uint32_t num_chosen() const {
    return host_chosen_.empty() ? num_rows() : static_cast<uint32_t>(host_chosen_.size());
  }
  uint32_t group() const { return config_.query_group(); }
  uint32_t num_rows() const { return static_cast<uint32_t>(plan_->num_tokens) * group(); }
  size_t num_queries() const { return size_t{config_.num_kv_heads} * num_rows(); }
  float scale() const { return 1 / std::sqrt(static_cast<float>(config_.head_dim)); }
  const uint32_t* Place(size_t at) const { return places_.data() + at; }

  const std::shared_ptr<DeviceStream> stream_;
  const std::shared_ptr<DeviceDocument> document_;
  const std::shared_ptr<DeviceConversation> conversation_;
  const ModelConfig& config_;
  std::optional<Plan> plan_;
  uint64_t key_ = 0;
  std::vector<Layer> layers_;

  // What does not change while the plan stands, of all layers: see Layer.
  std::vector<uint32_t> host_places_;
  std::vector<AttentionItem> host_items_;
  std::vector<ExtraRange> host_extra_;
  DeviceArray<uint32_t> places_;
  DeviceArray<AttentionItem> exact_items_;
  DeviceArray<ExtraRange> extra_;
  DeviceArray<HeadRows> conversation_heads_;
  // What these and the items are for; 0: for nothing yet.
  uint32_t conversation_capacity_ = 0, conversation_rows_per_item_ = 0;
  // Rows that choose, and what they count; empty: all, equally.
  std::vector<uint32_t> host_chosen_;
  std::vector<float> host_weights_;
  DeviceArray<uint32_t> chosen_;
  DeviceArray<float> weights_;

  // Of a step.
  DeviceArray<uint32_t> step_;  // tokens before it; then of each kv head how many there are with it
  DeviceQueries queries_;
  DeviceArray<uint16_t> query_rows_;
  std::array<Part, 3> parts_;  // conversation; sinks and window; what the lookup chose
  DeviceArray<float> known_lse_, scratch_, tail_;
  DeviceArray<uint32_t> rows_, counts_;  // that the lookup chose
  DeviceArray<float> lse_;               // [layers][kinds: see the .cc][kv heads * R]
  std::vector<float> host_lse_;
  DeviceArray<uint64_t> masses_, squares_;  // [tokens of the document]
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DEVICE_STEP_H_
