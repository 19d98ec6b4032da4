#include "engine/gpu/row_attention.h"

#include <algorithm>
#include <cmath>

#include "engine/gpu/memory_plan.h"

namespace lectern {
namespace {

constexpr const char* kRowUse = "attention";

}  // namespace

// In the order of tokens, then heads.
Status DeviceRowAttention::BringQueries(const RowQuery& args, Dtype rows) {
  const size_t dim = args.queries.front().num_cols, num_heads = args.queries.size();
  const size_t num_rows = args.queries.front().num_rows, group = num_rows / args.num_tokens;
  const Dtype dtype = QueryDtype(rows);
  host_queries_.resize(num_rows * num_heads * dim);
  for (size_t head = 0; head < num_heads; ++head) {
    for (size_t t = 0; t < args.num_tokens; ++t) {
      uint16_t* const to = host_queries_.data() + (t * num_heads + head) * group * dim;
      backend_.from_float_rows(args.queries[head].Slice(t * group, (t + 1) * group), dtype,
                               reinterpret_cast<std::byte*>(to));
    }
  }
  LECTERN_RETURN_IF_ERROR(queries_.Reserve(*stream_, host_queries_.size(), kRowUse));
  brought_ = {.data = queries_.data(),
              .dtype = dtype,
              .stride = num_heads * group * dim,
              .num_tokens = static_cast<uint32_t>(args.num_tokens),
              .num_kv_heads = static_cast<uint32_t>(num_heads),
              .group = static_cast<uint32_t>(group),
              .head_dim = static_cast<uint32_t>(dim)};
  return queries_.Upload(*stream_, host_queries_.data(), host_queries_.size());
}

DeviceQueries DeviceRowAttention::queries(size_t first, size_t num_tokens) const {
  DeviceQueries queries = brought_;
  queries.data = queries_.data() + first * queries.stride;
  queries.num_tokens = static_cast<uint32_t>(num_tokens);
  return queries;
}

Status DeviceRowAttention::Attend(const RowQuery& args, const DeviceKv& rows,
                                  const std::vector<AttentionRange>& ranges) {
  const size_t most_tokens = std::max<size_t>(1, kMostDeviceQueryRows / brought_.group);
  uint64_t num_read = 0;
  for (const AttentionRange& range : ranges) num_read += range.end - range.begin;
  if (num_read == 0) return {};
  const size_t at_once = std::min(args.num_tokens, most_tokens);
  const AttentionWork work = CutAttention(
      ranges, brought_.num_kv_heads,
      AttentionRowsPerItem(num_read, ranges.size(), static_cast<uint32_t>(at_once * brought_.group),
                           stream_->device().info().num_multiprocessors));
  const WaitsForStream wait(*stream_);  // `work` is read until then
  LECTERN_RETURN_IF_ERROR(items_.Reserve(*stream_, work.items.size(), kRowUse));
  LECTERN_RETURN_IF_ERROR(items_.Upload(*stream_, work.items.data(), work.items.size()));
  LECTERN_RETURN_IF_ERROR(item_begin_.Reserve(*stream_, work.item_begin.size(), kRowUse));
  LECTERN_RETURN_IF_ERROR(
      item_begin_.Upload(*stream_, work.item_begin.data(), work.item_begin.size()));
  for (size_t first = 0; first < args.num_tokens; first += at_once) {
    LECTERN_RETURN_IF_ERROR(
        AttendTokens(args, rows, work, first, std::min(at_once, args.num_tokens - first)));
  }
  return {};
}

Status DeviceRowAttention::AttendTokens(const RowQuery& args, const DeviceKv& rows,
                                        const AttentionWork& work, size_t first_token,
                                        size_t num_tokens) {
  CudaAttendArgs attend;
  attend.queries = queries(first_token, num_tokens);
  const size_t dim = brought_.head_dim, num_heads = brought_.num_kv_heads, group = brought_.group;
  const size_t num_rows = num_tokens * group, cols = brought_.stride;
  const size_t states = work.items.size() * num_rows;
  LECTERN_RETURN_IF_ERROR(partial_out_.Reserve(*stream_, states * dim, kRowUse));
  LECTERN_RETURN_IF_ERROR(partial_max_.Reserve(*stream_, states, kRowUse));
  LECTERN_RETURN_IF_ERROR(partial_sum_.Reserve(*stream_, states, kRowUse));
  LECTERN_RETURN_IF_ERROR(output_.Reserve(*stream_, num_tokens * cols, kRowUse));
  LECTERN_RETURN_IF_ERROR(lse_.Reserve(*stream_, num_heads * num_rows, kRowUse));
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
