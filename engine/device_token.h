// The attention of an answer's tokens with nothing between projection and output on the host: what
// engine/document_attention.h and the session do for a token, enqueued layer by layer.
//
// Of a layer, in turn: the token's key and value join the conversation's; attention to the
// conversation, and to the sinks and the window of the document (or all of it); the log-sum-exp of
// both is what the lookup knows (kernels/cuda/row_lookup.h); then attention to the rows that it
// lists and to the mean values that stand for the others; and the join of all three. Evidence is
// summed on the device, what was missed comes back once a token. All of the document's rows have to
// be on the device, and their codes where a layer is not read whole.
#ifndef LECTERN_ENGINE_DEVICE_TOKEN_H_
#define LECTERN_ENGINE_DEVICE_TOKEN_H_

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/device_conversation.h"
#include "engine/device_document.h"
#include "engine/transformer.h"

namespace lectern {

// Of one session; one thread at a time. Device memory stays from answer to answer.
class DeviceToken {
 public:
  // Shares stream, document and conversation, borrows the model's config.
  DeviceToken(std::shared_ptr<DeviceStream> stream, std::shared_ptr<DeviceDocument> document,
              std::shared_ptr<DeviceConversation> conversation, const ModelConfig& config);
  ~DeviceToken();

  struct Plan {
    std::vector<double> budgets;  // (0, 1] of every layer; empty: everything is read
    bool tail = true;
    bool has_evidence = false;
    bool operator==(const Plan&) const = default;
  };
  // Makes ready for the tokens of an answer. false: they are the host's to attend, as the rows or
  // codes of a layer are not on the device, a budget leaves too little to rows (DeviceLookup), or
  // there is no memory. Waits. Codes of DeviceDocument::UseLayer, errors of Device::Check.
  Result<bool> Begin(const Plan& plan, KvStaging& staging);
  // What Begin made ready for; nullptr: nothing.
  const Plan* plan() const { return plan_ ? &*plan_ : nullptr; }
  // Lets go of the document's layers.
  void End();
  // > 0; tokens of the same one enqueue the same.
  uint64_t key() const { return key_; }

  // Token number `token` of the conversation, which there is room for: BeginStep, Attend layer by
  // layer, and, once the stream of `a` was waited for, EndStep. The first and the last wait.
  Status BeginStep(uint32_t token);
  // Row `row` of what the device has of `a`, projected queries, keys and values -> that row of
  // `projected`. Enqueued on the stream of `a`, without a copy from or to the host.
  Status Attend(uint32_t layer, Activations& a, size_t row);
  Status EndStep();

  // What the last token that ended read of a layer.
  struct LayerRead {
    bool is_windowed = false, is_sparse = false;
    uint64_t bytes = 0;  // as DocumentRead's, or its window_bytes
    double uncalibrated_missed = 0;
  };
  LayerRead Read(uint32_t layer) const;
  // Of all tokens since Begin, where the plan has evidence: squared attention by position of the
  // document is added. Waits.
  Status AddEvidence(std::span<double> squared_mass);

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
  Result<bool> TryBegin(const Plan& plan, KvStaging& staging);
  Result<bool> AddLayer(const Plan& plan, uint32_t number, std::span<const HeadIndex> heads,
                        KvStaging& staging);
  Status TakeMemory(const Plan& plan);
  Status FollowConversation();
  CudaAttendArgs AttendArgs(size_t part) const;
  Status AttendConversation(DeviceStream& stream, uint32_t number);
  Status AttendExact(DeviceStream& stream, const Layer& layer);
  Status AttendSelected(DeviceStream& stream, uint32_t number);
  Status Join(DeviceStream& stream, const Layer& layer, size_t num_parts, float* output,
              float* lse);
  Status Observe(DeviceStream& stream, uint32_t number);
  float* Lse(uint32_t number, size_t kind) const;
  uint32_t group() const { return config_.query_group(); }
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
  DeviceArray<HeadRows> conversation_heads_;  // of `conversation_capacity_`
  uint32_t conversation_capacity_ = 0, conversation_rows_per_item_ = 0;

  // Of a token.
  DeviceArray<uint32_t> step_;  // its number; then of each kv head how many rows there are with it
  DeviceQueries queries_;
  DeviceArray<uint16_t> query_rows_;
  std::array<Part, 3> parts_;  // conversation; sinks and window; what the lookup chose
  DeviceArray<float> known_lse_, scratch_, tail_;
  DeviceArray<uint32_t> rows_, counts_;  // that the lookup chose
  DeviceArray<float> lse_;               // [layers][3][kv heads][R]: of all; tail; what it knew
  std::vector<float> host_lse_;
  DeviceArray<uint64_t> squares_;  // [tokens of the document]
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DEVICE_TOKEN_H_
