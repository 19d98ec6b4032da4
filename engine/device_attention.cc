#include "engine/device_attention.h"

#include <algorithm>
#include <cmath>

#include "engine/device_plan.h"

namespace lectern {
namespace {

DeviceRowAttention::Args RowArgs(const DeviceAttention::LayerArgs& args) {
  return {.queries = args.queries,
          .num_tokens = args.num_tokens,
          .softcap = args.softcap,
          .states = args.states};
}

constexpr const char* kUse = "attention to the document";

// What lies side by side is read as one.
void AddRange(uint32_t head, uint32_t begin, uint32_t end, std::vector<AttentionRange>& ranges) {
  if (!ranges.empty() && ranges.back().kv_head == head && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({head, 0, begin, end});
  }
}

}  // namespace

Result<bool> DeviceAttention::LookUp(uint32_t layer, const LookupArgs& args,
                                     std::vector<HeadSelection>& selections) {
  const WaitsForStream wait(*stream_);
  LECTERN_ASSIGN(const DeviceDocument::CodesUse use,
                 document_->UseCodes(layer, args.heads, *stream_));
  if (use.codes() == nullptr) return false;
  return lookup_.LookUp(*use.codes(), args, selections);
}

Status DeviceAttention::Attend(const LayerArgs& args, std::span<const Part> parts) {
  const WaitsForStream wait(*stream_);
  if (args.observed != nullptr) args.observed->clear();
  LECTERN_ASSIGN(const DeviceDocument::Use use,
                 document_->UseLayer(args.layer, args.heads, *stream_, staging_));
  LECTERN_RETURN_IF_ERROR(
      rows_attention_.BringQueries(RowArgs(args), document_->document().kv_dtype()));
  if (use.layer() != nullptr) return AttendResident(args, *use.layer(), parts);
  return AttendStaged(args, parts);
}

Status DeviceAttention::AttendResident(const LayerArgs& args, const DeviceDocument::Layer& layer,
                                       std::span<const Part> parts) {
  DeviceKv rows = layer.rows.view();
  std::vector<AttentionRange> ranges;
  host_rows_.clear();
  for (const Part& part : parts) {
    const uint32_t first = layer.first_row[part.head];
    if (part.chosen.empty()) {
      AddRange(part.head, first + part.rows.begin, first + part.rows.end, ranges);
      continue;
    }
    const auto begin = static_cast<uint32_t>(host_rows_.size());
    for (uint32_t i = part.rows.begin; i < part.rows.end; ++i) {
      host_rows_.push_back(first + part.chosen[i]);
    }
    AddRange(part.head, begin, static_cast<uint32_t>(host_rows_.size()), ranges);
  }
  if (!host_rows_.empty()) {
    assert(std::ranges::none_of(parts, [](const Part& part) { return part.chosen.empty(); }));
    LECTERN_RETURN_IF_ERROR(rows_.Reserve(*stream_, host_rows_.size(), kUse));
    LECTERN_RETURN_IF_ERROR(rows_.Upload(*stream_, host_rows_.data(), host_rows_.size()));
    rows.rows = rows_.data();
  }
  LECTERN_RETURN_IF_ERROR(rows_attention_.Attend(RowArgs(args), rows, ranges));
  return args.observed != nullptr ? Observe(args, rows, ranges) : Status();
}

// Where each head's rows are one range, as they are but for heads without any.
Status DeviceAttention::Observe(const LayerArgs& args, const DeviceKv& rows,
                                const std::vector<AttentionRange>& ranges) {
  const size_t num_heads = args.heads.size();
  const DeviceQueries queries = rows_attention_.queries(args.num_tokens - 1, 1);
  const uint32_t group = queries.group;
  std::vector<KeyLogitsHead> heads(num_heads, KeyLogitsHead{0, 0, 0});
  uint32_t most = 0;
  uint64_t num_logits = 0;
  for (const AttentionRange& range : ranges) {
    KeyLogitsHead& head = heads[range.kv_head];
    if (head.end > head.begin) return {};
    head = {range.begin, range.end, num_logits};
    num_logits += uint64_t{group} * (range.end - range.begin);
    most = std::max(most, range.end - range.begin);
  }
  const WaitsForStream wait(*stream_);  // `heads` is read until then
  LECTERN_RETURN_IF_ERROR(logits_heads_.Reserve(*stream_, num_heads, kUse));
  LECTERN_RETURN_IF_ERROR(logits_heads_.Upload(*stream_, heads.data(), num_heads));
  LECTERN_RETURN_IF_ERROR(logits_.Reserve(*stream_, num_logits, kUse));
  LECTERN_RETURN_IF_ERROR(stream_->Check(CudaKeyLogits(
      stream_->stream(), {.queries = queries,
                          .scale = 1 / std::sqrt(static_cast<float>(queries.head_dim)),
                          .softcap = args.softcap,
                          .source = rows,
                          .heads = logits_heads_.data(),
                          .most_entries = most,
                          .logits = logits_.data()})));
  args.observed->resize(num_heads);
  for (size_t h = 0; h < num_heads; ++h) {
    std::vector<float>& logits = (*args.observed)[h];
    logits.resize(group * (heads[h].end - heads[h].begin));
    LECTERN_RETURN_IF_ERROR(
        logits_.Download(*stream_, logits.data(), logits.size(), heads[h].out));
  }
  return stream_->Wait();
}

// As many rows at a time as there is room for.
Status DeviceAttention::AttendStaged(const LayerArgs& args, std::span<const Part> parts) {
  const Dtype dtype = document_->document().kv_dtype();
  const size_t dim = args.queries.front().num_cols;
  size_t all_rows = 0;
  for (const Part& part : parts) all_rows += part.rows.size();
  const size_t room =
      std::min(all_rows, std::max<size_t>(1, kDeviceStagingBytes / (2 * RowBytes(dtype, dim))));
  std::vector<AttentionRange> ranges;
  staging_.Begin(dtype, dim);
  const auto attend = [&]() -> Status {
    const size_t count = staging_.num_rows();
    if (count == 0) return {};
    LECTERN_RETURN_IF_ERROR(staged_.Reserve(*stream_, dtype, dim, std::max(room, count), kUse));
    LECTERN_RETURN_IF_ERROR(staging_.Upload(*stream_, staged_, 0));
    LECTERN_RETURN_IF_ERROR(rows_attention_.Attend(RowArgs(args), staged_.view(), ranges));
    ranges.clear();
    return {};
  };
  for (const Part& part : parts) {
    const auto add = [&](const TypedRows& keys, const TypedRows& values) -> Status {
      if (staging_.num_rows() + keys.num_rows > room) LECTERN_RETURN_IF_ERROR(attend());
      const auto begin = static_cast<uint32_t>(staging_.num_rows());
      staging_.Add(keys, values);
      AddRange(part.head, begin, static_cast<uint32_t>(staging_.num_rows()), ranges);
      return {};
    };
    const HeadIndex& head = args.heads[part.head];
    if (part.chosen.empty()) {
      LECTERN_RETURN_IF_ERROR(ForEachStoredBlock(head, part.rows, add));
      continue;
    }
    for (uint32_t begin = part.rows.begin; begin < part.rows.end;) {
      const auto count =
          static_cast<uint32_t>(std::min<size_t>(part.rows.end - begin, std::max<size_t>(room, 1)));
      LECTERN_RETURN_IF_ERROR(
          head.GatherRows(part.chosen.subspan(begin, count), keys_, values_));
      LECTERN_RETURN_IF_ERROR(add(head.AsRows(keys_), head.AsRows(values_)));
      begin += count;
    }
  }
  return attend();
}

Status DeviceAttention::AttendWindow(const LayerArgs& args, uint64_t first_position,
                                     uint32_t window) {
  const WaitsForStream wait(*stream_);
  LECTERN_ASSIGN(const DeviceDocument::Use use,
                 document_->UseLayer(args.layer, args.heads, *stream_, staging_));
  LECTERN_RETURN_IF_ERROR(
      rows_attention_.BringQueries(RowArgs(args), document_->document().kv_dtype()));
  const uint32_t num_rows = args.heads.front().num_rows();
  DeviceKv rows;
  if (use.layer() != nullptr) {
    rows = use.layer()->rows.view();
  } else {
    staging_.Begin(document_->document().kv_dtype(), args.queries.front().num_cols);
    for (const HeadIndex& head : args.heads) {
      LECTERN_RETURN_IF_ERROR(ForEachStoredBlock(
          head, {0, num_rows}, [&](const TypedRows& keys, const TypedRows& values) -> Status {
            staging_.Add(keys, values);
            return {};
          }));
    }
    LECTERN_RETURN_IF_ERROR(staged_.Reserve(*stream_, document_->document().kv_dtype(),
                                            args.queries.front().num_cols, staging_.num_rows(),
                                            kUse));
    LECTERN_RETURN_IF_ERROR(staging_.Upload(*stream_, staged_, 0));
    rows = staged_.view();
  }
  rows.rows_per_head = num_rows;
  rows.first_position = static_cast<uint32_t>(first_position);
  rows.window = window;
  std::vector<AttentionRange> ranges;
  for (uint32_t head = 0; head < args.heads.size(); ++head) {
    ranges.push_back({head, 0, head * num_rows, (head + 1) * num_rows});
  }
  return rows_attention_.Attend(RowArgs(args), rows, ranges);
}

}  // namespace lectern
