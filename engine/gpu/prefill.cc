#include "engine/gpu/prefill.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

constexpr const char* kJob = "indexing";

}  // namespace

Result<std::unique_ptr<DevicePrefill>> DevicePrefill::Create(const Transformer& transformer,
                                                             KvSpill& spill,
                                                             Activations& activations,
                                                             const DevicePrefillShape& shape) {
  assert(HasDeviceAttention(*transformer.device()->device(), shape.dtype, spill.shape().head_dim));
  std::unique_ptr<DevicePrefill> prefill(new DevicePrefill(transformer, spill, activations, shape));
  LECTERN_RETURN_IF_ERROR(prefill->TakeMemory());
  LECTERN_RETURN_IF_ERROR(prefill->TakeLayers());
  return prefill;
}

Status DevicePrefill::TakeMemory() {
  const std::shared_ptr<Device>& device = transformer_.device()->device();
  if (!a_.stream) {
    LECTERN_ASSIGN(a_.stream, DeviceStream::Create(device));
  }
  DeviceStream& stream = *a_.stream;
  LECTERN_RETURN_IF_ERROR(CheckPrefillPlan(config_, shape_, *device->memory()));
  LECTERN_RETURN_IF_ERROR(transformer_.device()->PrepareCosines(a_));
  const size_t dim = config_.head_dim;
  const uint64_t block = std::min<uint64_t>(shape_.block_tokens, shape_.num_tokens);
  const uint64_t states = MostPrefillStates(config_, shape_);
  LECTERN_RETURN_IF_ERROR(queries_.Reserve(stream, a_.max_tokens * config_.num_heads * dim, kJob));
  LECTERN_RETURN_IF_ERROR(
      staged_.Reserve(stream, shape_.dtype, dim, block * config_.num_kv_heads, kJob));
  brought_ = HostBuffer<std::byte>(stream.stream(),
                                   PrefillHostBytes(config_, shape_.dtype, shape_.num_tokens));
  LECTERN_RETURN_IF_ERROR(items_.Reserve(stream, MostPrefillItems(config_, shape_), kJob));
  LECTERN_RETURN_IF_ERROR(item_begin_.Reserve(stream, config_.num_kv_heads + 1, kJob));
  LECTERN_RETURN_IF_ERROR(partial_out_.Reserve(stream, states * dim, kJob));
  LECTERN_RETURN_IF_ERROR(partial_max_.Reserve(stream, states, kJob));
  LECTERN_RETURN_IF_ERROR(partial_sum_.Reserve(stream, states, kJob));
  return lse_.Reserve(stream, a_.max_tokens * config_.num_heads, kJob);
}

Status DevicePrefill::TakeLayers() {
  if (shape_.num_tokens * config_.num_kv_heads > UINT32_MAX) return {};
  const RamLimit& memory = *transformer_.device()->device()->memory();
  const uint64_t least = PrefillLayerBytes(config_, shape_) + DeviceRoomForAsking(config_);
  for (uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    if (config_.is_windowed(layer)) continue;
    if (memory.bytes() < least || memory.reserved() > memory.bytes() - least) return {};
    auto taken = TakeLayer(layer);
    if (taken.status().code() == Code::kOutOfMemory) return {};
    LECTERN_RETURN_IF_ERROR(taken.status());
    resident_.push_back(std::move(taken).value());
  }
  return {};
}

Result<DeviceKvRows> DevicePrefill::TakeLayer(uint32_t layer) {
  DeviceStream& stream = *a_.stream;
  const WaitsForStream wait(stream);
  DeviceKvRows rows;
  LECTERN_RETURN_IF_ERROR(rows.Reserve(stream, shape_.dtype, config_.head_dim,
                                       shape_.num_tokens * config_.num_kv_heads,
                                       "a layer of the document"));
  const uint64_t done = spill_.tokens_done();
  for (uint32_t head = 0; done > 0 && head < config_.num_kv_heads; ++head) {
    LECTERN_RETURN_IF_ERROR(rows.Upload(stream, spill_.Keys(layer, head, done),
                                        spill_.Values(layer, head, done),
                                        head * shape_.num_tokens));
  }
  LECTERN_RETURN_IF_ERROR(stream.Wait());
  return rows;
}

const DeviceKvRows* DevicePrefill::Resident(uint32_t layer) const {
  if (config_.is_windowed(layer)) return nullptr;
  uint32_t number = 0;  // among layers that are not windowed
  for (uint32_t other = 0; other < layer; ++other) number += !config_.is_windowed(other);
  return number < resident_.size() ? &resident_[number] : nullptr;
}

DevicePrefill::Cut DevicePrefill::CutKeys(const Args& args, bool is_resident) const {
  const uint32_t heads = config_.num_kv_heads, block_tokens = shape_.block_tokens;
  Cut cut;
  for (uint64_t begin = args.first_key; begin < args.end; begin = cut.blocks.back().end) {
    const uint64_t end = (begin / block_tokens + 1) * block_tokens;
    cut.blocks.push_back(
        {static_cast<uint32_t>(begin), static_cast<uint32_t>(std::min<uint64_t>(end, args.end))});
  }
  std::vector<AttentionRange> ranges;
  for (uint32_t head = 0; head < heads; ++head) {
    for (const IndexRange& block : cut.blocks) {
      ranges.push_back({head, 0, block.begin, block.end});
    }
  }
  cut.work = CutAttention(
      ranges, heads,
      AttentionRowsPerItem((args.end - args.first_key) * heads, ranges.size(),
                           static_cast<uint32_t>(query_rows(args)), shape_.num_multiprocessors));
  for (AttentionItem& item : cut.work.items) {
    const uint32_t number = item.begin / block_tokens - cut.blocks.front().begin / block_tokens;
    const IndexRange& block = cut.blocks[number];
    const auto tokens = static_cast<uint32_t>(shape_.num_tokens);
    const uint32_t place =
        is_resident ? item.kv_head * tokens : item.kv_head * block.size() - block.begin;
    cut.block_of_item.push_back(number);
    item.begin += place;
    item.end += place;
  }
  return cut;
}

Status DevicePrefill::RoundRows(const DeviceKvRows& to, size_t num_tokens, uint64_t rows_per_head,
                                uint64_t first_position) {
  const size_t cols = size_t{config_.num_kv_heads} * config_.head_dim;
  for (const bool is_values : {false, true}) {
    float* const from = is_values ? a_.device->values : a_.device->keys;
    LECTERN_RETURN_IF_ERROR(a_.stream->Check(CudaStoreRows(
        a_.stream->stream(), {.input = {from, Dtype::kF32, num_tokens, cols, cols},
                              .num_heads = config_.num_kv_heads,
                              .head_dim = config_.head_dim,
                              .dtype = shape_.dtype,
                              .output = is_values ? to.values() : to.keys(),
                              .scales = nullptr,
                              .rows_per_head = static_cast<uint32_t>(rows_per_head),
                              .first_position = static_cast<uint32_t>(first_position)})));
  }
  return {};
}

Status DevicePrefill::BringRows(size_t num_tokens) {
  LECTERN_RETURN_IF_ERROR(RoundRows(staged_, num_tokens, num_tokens, 0));
  return staged_.Download(*a_.stream, 0, num_tokens * config_.num_kv_heads, brought_.data(),
                          brought_.data() + brought_.size() / 2);
}

Status DevicePrefill::AppendRows(uint32_t layer, uint64_t begin, size_t num_tokens) {
  const size_t num_rows = num_tokens * config_.num_kv_heads;
  const auto rows = [&](size_t at) {
    return TypedRows{brought_.data() + at, shape_.dtype, num_rows, config_.head_dim};
  };
  return spill_.AppendRounded(layer, begin, rows(0), rows(brought_.size() / 2));
}

Status DevicePrefill::Store(uint32_t layer, uint64_t begin, uint64_t end) {
  const WaitsForStream wait(*a_.stream);
  LECTERN_RETURN_IF_ERROR(BringRows(end - begin));
  LECTERN_RETURN_IF_ERROR(a_.stream->Wait());
  return AppendRows(layer, begin, end - begin);
}

Status DevicePrefill::Attend(const Args& args) {
  assert(a_.device && args.end - args.begin <= a_.max_tokens && args.first_key <= args.begin);
  DeviceStream& stream = *a_.stream;
  const DeviceKvRows* const resident = Resident(args.layer);
  const size_t num_tokens = args.end - args.begin;
  Cut cut;
  const AttentionWork& work = cut.work;
  const WaitsForStream wait(stream);  // `work` is read until then, and what is brought written
  LECTERN_RETURN_IF_ERROR(BringRows(num_tokens));
  cut = CutKeys(args, resident != nullptr);
  num_attended_ = query_rows(args);
  const uint64_t states = work.items.size() * num_attended_;
  LECTERN_RETURN_IF_ERROR(partial_out_.Reserve(stream, states * config_.head_dim, kJob));
  LECTERN_RETURN_IF_ERROR(partial_max_.Reserve(stream, states, kJob));
  LECTERN_RETURN_IF_ERROR(partial_sum_.Reserve(stream, states, kJob));
  LECTERN_RETURN_IF_ERROR(items_.Reserve(stream, work.items.size(), kJob));
  LECTERN_RETURN_IF_ERROR(items_.Upload(stream, work.items.data(), work.items.size()));
  LECTERN_RETURN_IF_ERROR(
      item_begin_.Upload(stream, work.item_begin.data(), work.item_begin.size()));
  LECTERN_RETURN_IF_ERROR(RoundQueries(num_tokens));
  LECTERN_RETURN_IF_ERROR(stream.Wait());  // for what is brought
  if (resident != nullptr) {
    LECTERN_RETURN_IF_ERROR(AttendResident(args, *resident, cut));
    LECTERN_RETURN_IF_ERROR(Join(args));
    LECTERN_RETURN_IF_ERROR(AppendRows(args.layer, args.begin, num_tokens));
  } else {
    LECTERN_RETURN_IF_ERROR(AppendRows(args.layer, args.begin, num_tokens));
    for (uint32_t block = 0; block < cut.blocks.size(); ++block) {
      LECTERN_RETURN_IF_ERROR(AttendBlock(args, cut, block));
    }
    LECTERN_RETURN_IF_ERROR(Join(args));
  }
  LECTERN_RETURN_IF_ERROR(stream.Wait());
  a_.is_attended = true;
  return {};
}

Status DevicePrefill::RoundQueries(size_t num_tokens) {
  const size_t cols = size_t{config_.num_heads} * config_.head_dim;
  return a_.stream->Check(
      CudaStoreRows(a_.stream->stream(),
                    {.input = {a_.device->projected.data(), Dtype::kF32, num_tokens, cols, cols},
                     .num_heads = 1,
                     .head_dim = static_cast<uint32_t>(cols),
                     .dtype = QueryDtype(shape_.dtype),
                     .output = queries_.data(),
                     .scales = nullptr,
                     .rows_per_head = static_cast<uint32_t>(num_tokens),
                     .first_position = 0}));
}

Status DevicePrefill::AttendResident(const Args& args, const DeviceKvRows& rows, const Cut& cut) {
  LECTERN_RETURN_IF_ERROR(RoundRows(rows, args.end - args.begin, shape_.num_tokens, args.begin));
  DeviceKv kv = rows.view();
  kv.rows_per_head = static_cast<uint32_t>(shape_.num_tokens);
  kv.first_position = static_cast<uint32_t>(args.begin + args.first_token);
  return Launch(args, kv, 0, static_cast<uint32_t>(cut.work.items.size()));
}

Status DevicePrefill::AttendBlock(const Args& args, const Cut& cut, uint32_t number) {
  if (args.is_cancelled && args.is_cancelled()) return {Code::kCancelled, "cancelled"};
  const IndexRange block = cut.blocks[number];
  for (uint32_t head = 0; head < config_.num_kv_heads; ++head) {
    const auto rows = [&](const TypedRows& all) { return all.Slice(block.begin, block.end); };
    LECTERN_RETURN_IF_ERROR(
        staged_.Upload(*a_.stream, rows(spill_.Keys(args.layer, head, args.end)),
                       rows(spill_.Values(args.layer, head, args.end)), head * block.size()));
  }
  DeviceKv kv = staged_.view();
  kv.rows_per_head = block.size();
  kv.first_position = static_cast<uint32_t>(args.begin + args.first_token - block.begin);
  // A head's items of the block lie together.
  for (uint32_t head = 0; head < config_.num_kv_heads; ++head) {
    const auto begin = cut.block_of_item.begin() + cut.work.item_begin[head];
    const auto end = cut.block_of_item.begin() + cut.work.item_begin[head + 1];
    const auto [first, last] = std::equal_range(begin, end, number);
    LECTERN_RETURN_IF_ERROR(Launch(args, kv,
                                   static_cast<uint32_t>(first - cut.block_of_item.begin()),
                                   static_cast<uint32_t>(last - first)));
  }
  return a_.stream->Wait();
}

Status DevicePrefill::Launch(const Args& args, const DeviceKv& rows, uint32_t first_item,
                             uint32_t num_items) {
  const size_t cols = size_t{config_.num_heads} * config_.head_dim;
  const size_t state = first_item * num_attended_;
  CudaAttendArgs attend;
  attend.queries = {.data = queries_.data() + args.first_token * cols,
                    .dtype = QueryDtype(shape_.dtype),
                    .stride = cols,
                    .num_tokens = static_cast<uint32_t>(num_attended_ / config_.query_group()),
                    .num_kv_heads = config_.num_kv_heads,
                    .group = config_.query_group(),
                    .head_dim = config_.head_dim};
  attend.scale = 1 / std::sqrt(static_cast<float>(config_.head_dim));
  attend.softcap = config_.attention_softcap;
  attend.sources[0] = rows;
  attend.sources[0].window = config_.is_windowed(args.layer) ? config_.window : 0;
  attend.items = items_.data() + first_item;
  attend.max_items = num_items;
  attend.states = {partial_out_.data() + state * config_.head_dim, partial_max_.data() + state,
                   partial_sum_.data() + state};
  return a_.stream->Check(CudaAttend(a_.stream->stream(), attend));
}

Status DevicePrefill::Join(const Args& args) {
  const size_t cols = size_t{config_.num_heads} * config_.head_dim;
  return a_.stream->Check(
      CudaJoin(a_.stream->stream(),
               {.lists = {{{partial_out_.data(), partial_max_.data(), partial_sum_.data()},
                           item_begin_.data()}},
                .num_lists = 1,
                .num_tokens = static_cast<uint32_t>(num_attended_ / config_.query_group()),
                .num_kv_heads = config_.num_kv_heads,
                .group = config_.query_group(),
                .head_dim = config_.head_dim,
                .dtype = Dtype::kF32,
                .output = a_.device->projected.data() + args.first_token * cols,
                .lse = lse_.data()}));
}

Status DevicePrefill::ReadLse(std::span<float> lse) {
  assert(lse.size() == num_attended_ * config_.num_kv_heads);
  const WaitsForStream wait(*a_.stream);
  LECTERN_RETURN_IF_ERROR(lse_.Download(*a_.stream, lse.data(), lse.size()));
  return a_.stream->Wait();
}

Status DevicePrefill::ReadOutput(size_t num_tokens, std::span<float> max, std::span<float> sum) {
  const size_t cols = size_t{config_.num_heads} * config_.head_dim;
  const WaitsForStream wait(*a_.stream);
  LECTERN_RETURN_IF_ERROR(
      a_.device->projected.Download(*a_.stream, a_.projected.data(), num_tokens * cols));
  LECTERN_RETURN_IF_ERROR(ReadLse(max));
  std::fill(sum.begin(), sum.end(), 1.0f);
  transformer_.GroupHeads(a_.projected, num_tokens, a_.attended);
  a_.is_attended = false;
  return {};
}

}  // namespace lectern
