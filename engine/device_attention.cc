#include "engine/device_attention.h"

#include <algorithm>
#include <cmath>

#include "engine/device_plan.h"

namespace lectern {
namespace {

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
  LECTERN_RETURN_IF_ERROR(BringQueries(args));
  if (use.layer() != nullptr) return AttendResident(args, *use.layer(), parts);
  return AttendStaged(args, parts);
}

// Rounded, in the order of tokens, then heads.
Status DeviceAttention::BringQueries(const LayerArgs& args) {
  const size_t dim = args.queries.front().num_cols, num_heads = args.queries.size();
  const size_t num_rows = args.queries.front().num_rows, group = num_rows / args.num_tokens;
  const Dtype dtype = QueryDtype(document_->document().kv_dtype());
  host_queries_.resize(num_rows * num_heads * dim);
  for (size_t head = 0; head < num_heads; ++head) {
    for (size_t t = 0; t < args.num_tokens; ++t) {
      uint16_t* const to = host_queries_.data() + (t * num_heads + head) * group * dim;
      backend_.from_float_rows(args.queries[head].Slice(t * group, (t + 1) * group), dtype,
                               reinterpret_cast<std::byte*>(to));
    }
  }
  LECTERN_RETURN_IF_ERROR(queries_.Reserve(*stream_, host_queries_.size(), kUse));
  return queries_.Upload(*stream_, host_queries_.data(), host_queries_.size());
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
  LECTERN_RETURN_IF_ERROR(AttendRows(args, rows, ranges));
  return args.observed != nullptr ? Observe(args, rows, ranges) : Status();
}

// Where each head's rows are one range, as they are but for heads without any.
Status DeviceAttention::Observe(const LayerArgs& args, const DeviceKv& rows,
                                const std::vector<AttentionRange>& ranges) {
  const size_t dim = args.queries.front().num_cols, num_heads = args.heads.size();
  const size_t group = args.queries.front().num_rows / args.num_tokens;
  const size_t cols = num_heads * group * dim;
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
      stream_->stream(), {.queries = {.data = queries_.data() + (args.num_tokens - 1) * cols,
                                      .dtype = QueryDtype(rows.dtype),
                                      .stride = cols,
                                      .num_tokens = 1,
                                      .num_kv_heads = static_cast<uint32_t>(num_heads),
                                      .group = static_cast<uint32_t>(group),
                                      .head_dim = static_cast<uint32_t>(dim)},
                          .scale = 1 / std::sqrt(static_cast<float>(dim)),
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
    LECTERN_RETURN_IF_ERROR(AttendRows(args, staged_.view(), ranges));
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
  LECTERN_RETURN_IF_ERROR(BringQueries(args));
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
  return AttendRows(args, rows, ranges);
}

Status DeviceAttention::AttendRows(const LayerArgs& args, const DeviceKv& rows,
                                   const std::vector<AttentionRange>& ranges) {
  const size_t num_rows = args.queries.front().num_rows, group = num_rows / args.num_tokens;
  const size_t most_tokens = std::max<size_t>(1, kMostDeviceQueryRows / group);
  uint64_t num_read = 0;
  for (const AttentionRange& range : ranges) num_read += range.end - range.begin;
  if (num_read == 0) return {};
  const size_t at_once = std::min(args.num_tokens, most_tokens);
  const AttentionWork work = CutAttention(
      ranges, static_cast<uint32_t>(args.heads.size()),
      AttentionRowsPerItem(num_read, static_cast<uint32_t>(at_once * group),
                           stream_->device().info().num_multiprocessors));
  const WaitsForStream wait(*stream_);  // `work` is read until then
  LECTERN_RETURN_IF_ERROR(items_.Reserve(*stream_, work.items.size(), kUse));
  LECTERN_RETURN_IF_ERROR(items_.Upload(*stream_, work.items.data(), work.items.size()));
  LECTERN_RETURN_IF_ERROR(item_begin_.Reserve(*stream_, work.item_begin.size(), kUse));
  LECTERN_RETURN_IF_ERROR(
      item_begin_.Upload(*stream_, work.item_begin.data(), work.item_begin.size()));
  for (size_t first = 0; first < args.num_tokens; first += at_once) {
    LECTERN_RETURN_IF_ERROR(
        AttendTokens(args, rows, work, first, std::min(at_once, args.num_tokens - first)));
  }
  return {};
}

Status DeviceAttention::AttendTokens(const LayerArgs& args, const DeviceKv& rows,
                                     const AttentionWork& work, size_t first_token,
                                     size_t num_tokens) {
  const size_t dim = args.queries.front().num_cols, num_heads = args.heads.size();
  const size_t group = args.queries.front().num_rows / args.num_tokens;
  const size_t num_rows = num_tokens * group, cols = num_heads * group * dim;
  const size_t states = work.items.size() * num_rows;
  LECTERN_RETURN_IF_ERROR(partial_out_.Reserve(*stream_, states * dim, kUse));
  LECTERN_RETURN_IF_ERROR(partial_max_.Reserve(*stream_, states, kUse));
  LECTERN_RETURN_IF_ERROR(partial_sum_.Reserve(*stream_, states, kUse));
  LECTERN_RETURN_IF_ERROR(output_.Reserve(*stream_, num_tokens * cols, kUse));
  LECTERN_RETURN_IF_ERROR(lse_.Reserve(*stream_, num_heads * num_rows, kUse));
  CudaAttendArgs attend;
  attend.queries = {.data = queries_.data() + first_token * cols,
                    .dtype = QueryDtype(rows.dtype),
                    .stride = cols,
                    .num_tokens = static_cast<uint32_t>(num_tokens),
                    .num_kv_heads = static_cast<uint32_t>(num_heads),
                    .group = static_cast<uint32_t>(group),
                    .head_dim = static_cast<uint32_t>(dim)};
  attend.scale = 1 / std::sqrt(static_cast<float>(dim));
  attend.softcap = args.softcap;
  attend.sources[0] = rows;
  if (rows.rows_per_head > 0) {
    attend.sources[0].first_position += static_cast<uint32_t>(first_token);
  }
  attend.items = items_.data();
  attend.max_items = static_cast<uint32_t>(work.items.size());
  attend.states = {partial_out_.data(), partial_max_.data(), partial_sum_.data()};
  LECTERN_RETURN_IF_ERROR(stream_->Check(CudaAttend(stream_->stream(), attend)));
  LECTERN_RETURN_IF_ERROR(
      stream_->Check(CudaJoin(stream_->stream(), {.lists = {{attend.states, item_begin_.data()}},
                                                  .num_lists = 1,
                                                  .num_tokens = attend.queries.num_tokens,
                                                  .num_kv_heads = attend.queries.num_kv_heads,
                                                  .group = attend.queries.group,
                                                  .head_dim = attend.queries.head_dim,
                                                  .dtype = Dtype::kF32,
                                                  .output = output_.data(),
                                                  .lse = lse_.data()})));
  host_output_.resize(num_tokens * cols);
  host_lse_.resize(num_heads * num_rows);
  LECTERN_RETURN_IF_ERROR(output_.Download(*stream_, host_output_.data(), host_output_.size()));
  LECTERN_RETURN_IF_ERROR(lse_.Download(*stream_, host_lse_.data(), host_lse_.size()));
  LECTERN_RETURN_IF_ERROR(stream_->Wait());
  for (size_t head = 0; head < num_heads; ++head) {
    for (size_t r = 0; r < num_rows; ++r) {
      float* const out =
          host_output_.data() + (r / group) * cols + (head * group + r % group) * dim;
      float& lse = host_lse_[head * num_rows + r];
      float sum = lse > -INFINITY ? 1.0f : 0.0f;
      const size_t row = first_token * group + r;
      MergeStates(args.states[head].Slice(row, row + 1), {{out, 1, dim}, {&lse, 1}, {&sum, 1}});
    }
  }
  return {};
}

}  // namespace lectern
