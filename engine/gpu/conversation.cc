#include "engine/gpu/conversation.h"

#include <algorithm>
#include <utility>

namespace lectern {
namespace {

constexpr const char* kConversationRows = "the conversation";
// Memory grows by so many tokens, so that it does not grow at each token. Chosen without
// measurement.
constexpr size_t kCapacityStep = 256;

}  // namespace

DeviceConversation::DeviceConversation(std::shared_ptr<DeviceStream> stream,
                                       const ModelConfig& config, Dtype dtype,
                                       const Backend& backend)
    : stream_(std::move(stream)), config_(config), dtype_(dtype), attention_(stream_, backend) {}

Status DeviceConversation::Reserve(size_t num_kept, size_t num_tokens) {
  assert(num_kept <= capacity_);
  if (num_tokens <= capacity_) return {};
  // Half as much again, so that a long conversation is copied a few times only.
  const size_t wanted = std::max<size_t>(num_tokens, capacity_ + capacity_ / 2);
  const size_t capacity = (wanted + kCapacityStep - 1) / kCapacityStep * kCapacityStep;
  if (capacity * config_.num_kv_heads > UINT32_MAX) {
    return {Code::kOutOfMemory, "the conversation is too long for a device"};
  }
  std::vector<DeviceKvRows> layers(config_.num_layers);
  const WaitsForStream wait(*stream_);
  for (DeviceKvRows& rows : layers) {
    LECTERN_RETURN_IF_ERROR(rows.Reserve(*stream_, dtype_, config_.head_dim,
                                         capacity * config_.num_kv_heads, kConversationRows));
  }
  for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
    for (size_t head = 0; head < config_.num_kv_heads; ++head) {
      LECTERN_RETURN_IF_ERROR(layers[layer].Copy(*stream_, layers_[layer], head * capacity_,
                                                 num_kept, head * capacity));
    }
  }
  LECTERN_RETURN_IF_ERROR(stream_->Wait());
  layers_ = std::move(layers);
  capacity_ = static_cast<uint32_t>(capacity);
  return {};
}

DeviceKv DeviceConversation::View(uint32_t layer) const {
  DeviceKv rows = layers_[layer].view();
  rows.rows_per_head = capacity_;
  return rows;
}

Status DeviceConversation::Store(CudaStream& stream, uint32_t layer, size_t num_tokens,
                                 const float* keys, const float* values, uint32_t first,
                                 const uint32_t* step) const {
  assert(first + num_tokens <= capacity_);
  const size_t cols = size_t{config_.num_kv_heads} * config_.head_dim;
  for (const bool is_values : {false, true}) {
    const float* const from = is_values ? values : keys;
    LECTERN_RETURN_IF_ERROR(stream_->Check(CudaStoreRows(
        stream, {.input = {const_cast<float*>(from), Dtype::kF32, num_tokens, cols, cols},
                 .num_heads = config_.num_kv_heads,
                 .head_dim = config_.head_dim,
                 .dtype = dtype_,
                 .output = is_values ? layers_[layer].values() : layers_[layer].keys(),
                 .scales = nullptr,
                 .rows_per_head = capacity_,
                 .first_position = first,
                 .step = step})));
  }
  return {};
}

Status DeviceConversation::Append(uint32_t layer, size_t num_tokens, const float* keys,
                                  const float* values, uint32_t first) {
  const size_t count = num_tokens * config_.num_kv_heads * config_.head_dim;
  const WaitsForStream wait(*stream_);  // what is uploaded is read until then
  LECTERN_RETURN_IF_ERROR(appended_.Reserve(*stream_, 2 * count, kConversationRows));
  LECTERN_RETURN_IF_ERROR(appended_.Upload(*stream_, keys, count));
  LECTERN_RETURN_IF_ERROR(appended_.Upload(*stream_, values, count, count));
  LECTERN_RETURN_IF_ERROR(Store(stream_->stream(), layer, num_tokens, appended_.data(),
                                appended_.data() + count, first));
  return stream_->Wait();
}

Status DeviceConversation::Attend(const RowQuery& query, uint32_t layer, uint32_t first,
                                  uint32_t window) {
  DeviceKv rows = View(layer);
  rows.first_position = first;
  rows.window = window;
  const auto num_rows = static_cast<uint32_t>(first + query.num_tokens);
  std::vector<AttentionRange> ranges;
  for (uint32_t head = 0; head < config_.num_kv_heads; ++head) {
    ranges.push_back({head, 0, head * capacity_, head * capacity_ + num_rows});
  }
  const WaitsForStream wait(*stream_);
  LECTERN_RETURN_IF_ERROR(attention_.BringQueries(query, dtype_));
  return attention_.Attend(query, rows, ranges);
}

Status DeviceConversation::Read(uint32_t num_tokens, SessionRows& rows) {
  const size_t bytes = num_tokens * RowBytes(dtype_, config_.head_dim);
  std::vector<std::byte> keys(bytes), values(bytes);
  for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
    for (uint32_t head = 0; head < config_.num_kv_heads; ++head) {
      const WaitsForStream wait(*stream_);
      LECTERN_RETURN_IF_ERROR(layers_[layer].Download(*stream_, head * size_t{capacity_},
                                                      num_tokens, keys.data(), values.data()));
      LECTERN_RETURN_IF_ERROR(stream_->Wait());
      rows.AppendStored(layer * config_.num_kv_heads + head,
                        {keys.data(), dtype_, num_tokens, config_.head_dim},
                        {values.data(), dtype_, num_tokens, config_.head_dim});
    }
  }
  return {};
}

}  // namespace lectern
