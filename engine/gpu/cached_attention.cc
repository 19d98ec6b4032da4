#include "engine/gpu/cached_attention.h"

#include <algorithm>
#include <cmath>

#include "engine/gpu/memory_plan.h"

namespace lectern {
namespace {

constexpr const char* kUse = "attention to the document";

// Adds a range of rows; ranges that lie side by side become one.
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
  tail_codes_ = {};
  LECTERN_ASSIGN(DeviceDocument::CodesUse use,
                 document_->UseCodes(layer, args.heads, *stream_, staging_));
  if (use.codes() == nullptr) return false;
  LECTERN_ASSIGN(const bool is_found, lookup_.LookUp(*use.codes(), args, selections));
  if (is_found && args.tail) tail_codes_ = std::move(use);
  return is_found;
}

Status DeviceAttention::AttendTail(const Args& args, const LookupArgs& lookup,
                                   std::vector<HeadSelection>& selections) {
  if (tail_codes_.codes() == nullptr) return {};
  const WaitsForStream wait(*stream_);
  const DeviceDocument::CodesUse use = std::move(tail_codes_);
  const DeviceCodes& codes = *use.codes();
  const uint32_t most_groups = codes.view().most_groups;
  if (args.query.queries.front().num_rows > kMostDeviceQueryRows) {
    return lookup_.BringTail(codes, lookup, selections);
  }
  DeviceKv means = codes.tail();
  means.logits = lookup_.tail();
  means.logits_stride = most_groups;
  std::vector<AttentionRange> ranges;
  for (uint32_t h = 0; h < args.heads.size(); ++h) {
    ranges.push_back({h, 0, h * most_groups, h * most_groups + codes.num_groups(h)});
  }
  return rows_attention_.Attend(args.query, means, ranges);
}

// Attends to the rows that stay on the device, or else brings them: whole stretches for this call
// alone, chosen rows by way of the cache. A part that reaches beyond the exact rows without a
// choice reads all.
Status DeviceAttention::Attend(const Args& args, std::span<const Part> parts) {
  const WaitsForStream wait(*stream_);
  if (args.observed != nullptr) args.observed->clear();
  const bool reads_all = std::ranges::any_of(parts, [&](const Part& part) {
    const HeadIndex& head = args.heads[part.head];
    return part.chosen.empty() && (part.rows.end > head.num_exact() || head.levels().empty());
  });
  LECTERN_ASSIGN(
      const DeviceDocument::Use use,
      document_->UseLayer(args.layer, args.heads, *stream_, staging_,
                          reads_all ? DeviceDocument::Reads::kAll : DeviceDocument::Reads::kSome));
  LECTERN_RETURN_IF_ERROR(
      rows_attention_.BringQueries(args.query, document_->document().kv_dtype()));
  if (use.layer() != nullptr) return AttendResident(args, *use.layer(), parts);
  return reads_all ? AttendStaged(args, parts) : AttendCached(args, parts);
}

Status DeviceAttention::AttendResident(const Args& args, const DeviceDocument::Layer& layer,
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
  LECTERN_RETURN_IF_ERROR(rows_attention_.Attend(args.query, rows, ranges));
  return Observe(args, rows, ranges);
}

Status DeviceAttention::Observe(const Args& args, const DeviceKv& rows,
                                const std::vector<AttentionRange>& ranges) {
  if (args.observed == nullptr) return {};
  const Status status = FindLogits(args, rows, ranges);
  if (status.code() != Code::kOutOfMemory) return status;
  args.observed->clear();
  return {};
}

Status DeviceAttention::FindLogits(const Args& args, const DeviceKv& rows,
                                   const std::vector<AttentionRange>& ranges) {
  const size_t num_heads = args.heads.size();
  const DeviceQueries queries = rows_attention_.queries(args.query.num_tokens - 1, 1);
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
                          .softcap = args.query.softcap,
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

Status DeviceAttention::AttendCached(const Args& args, std::span<const Part> parts) {
  // A call that would fill the cache more often than this goes past it. Chosen without measurement.
  constexpr size_t kMostTurns = 8;
  entries_.clear();
  for (const Part& part : parts) {
    for (uint32_t i = part.rows.begin; i < part.rows.end; ++i) {
      entries_.push_back({part.head, part.chosen.empty() ? i : part.chosen[i]});
    }
  }
  if (entries_.empty()) return {};
  size_t done = 0;
  {
    LECTERN_ASSIGN(DeviceDocument::CacheUse use, document_->UseCache(*stream_));
    const WaitsForStream wait(*stream_);
    const size_t room = use.cache() != nullptr ? use.cache()->slots.num_slots() : 0;
    while (done < entries_.size() && entries_.size() <= kMostTurns * room) {
      const size_t end = std::min(entries_.size(), done + room);
      const Status status = AttendCachedRows(args, *use.cache(), done, end);
      // If memory did not suffice, nothing was added to the states yet, because memory is taken
      // first.
      if (status.code() == Code::kOutOfMemory) {
        (void)stream_->Wait();
        use.GiveBack();
        break;
      }
      LECTERN_RETURN_IF_ERROR(status);
      use.Count(end - done - missing_.size(), missing_.size());
      done = end;
    }
  }
  std::vector<Part> rest;
  for (const Part& part : parts) {
    const auto skipped = static_cast<uint32_t>(std::min<size_t>(done, part.rows.size()));
    done -= skipped;
    if (skipped == part.rows.size()) continue;
    rest.push_back(part);
    rest.back().rows.begin += skipped;
  }
  return rest.empty() ? Status() : AttendStaged(args, rest);
}

Status DeviceAttention::AttendCachedRows(const Args& args, DeviceDocument::Cache& cache,
                                         size_t begin, size_t end) {
  RowSlots& slots = cache.slots;
  const std::span<const Entry> entries = std::span(entries_).subspan(begin, end - begin);
  std::vector<uint32_t> first_row = {0};
  for (const HeadIndex& head : args.heads) first_row.push_back(first_row.back() + head.num_rows());
  std::vector<AttentionRange> ranges;
  layer_rows_.clear();
  for (const Entry& entry : entries) {
    const auto at = static_cast<uint32_t>(layer_rows_.size());
    layer_rows_.push_back(first_row[entry.head] + entry.row);
    AddRange(entry.head, at, at + 1, ranges);
  }
  // Takes the slots back from rows that were placed and did not come, if this function returns
  // early.
  struct Placed {
    RowSlots& of;
    uint32_t layer;
    std::vector<uint32_t> rows;
    ~Placed() {
      for (const uint32_t row : rows) of.Forget(layer, row);
    }
  } placed = {slots, args.layer, {}};
  placed.rows.reserve(entries.size());
  missing_.clear();
  host_places_.clear();
  slots.BeginGroup(args.layer, first_row.back());
  slots.Find(layer_rows_, host_rows_);  // before any is placed, which takes others' slots
  for (size_t i = 0; i < entries.size(); ++i) {
    if (host_rows_[i] != RowSlots::kNone) continue;
    host_rows_[i] = slots.Find(layer_rows_[i]);  // it may be named twice
    if (host_rows_[i] != RowSlots::kNone) continue;
    host_rows_[i] = slots.Place(layer_rows_[i]);
    assert(host_rows_[i] != RowSlots::kNone);
    placed.rows.push_back(layer_rows_[i]);
    missing_.push_back(entries[i]);
    host_places_.push_back(host_rows_[i]);
  }
  LECTERN_RETURN_IF_ERROR(Bring(args, cache.rows));
  LECTERN_RETURN_IF_ERROR(rows_.Reserve(*stream_, host_rows_.size(), kUse));
  LECTERN_RETURN_IF_ERROR(rows_.Upload(*stream_, host_rows_.data(), host_rows_.size()));
  DeviceKv rows = cache.rows.view();
  rows.rows = rows_.data();
  LECTERN_RETURN_IF_ERROR(rows_attention_.Attend(args.query, rows, ranges));
  placed.rows.clear();  // they are there
  return entries.size() == entries_.size() ? Observe(args, rows, ranges) : Status();
}

Status DeviceAttention::Bring(const Args& args, const DeviceKvRows& to) {
  const Dtype dtype = document_->document().kv_dtype();
  const size_t dim = args.query.queries.front().num_cols;
  const size_t room = std::min(missing_.size(), kDeviceStagingBytes / (2 * RowBytes(dtype, dim)));
  if (missing_.empty()) return {};
  LECTERN_RETURN_IF_ERROR(staged_.Reserve(*stream_, dtype, dim, room, kUse));
  LECTERN_RETURN_IF_ERROR(places_.Reserve(*stream_, host_places_.size(), kUse));
  LECTERN_RETURN_IF_ERROR(places_.Upload(*stream_, host_places_.data(), host_places_.size()));
  for (size_t first = 0, i = 0; first < missing_.size(); first = i) {
    staging_.Begin(staged_, 0);
    const size_t last = std::min(missing_.size(), first + room);
    while (i < last) {
      const uint32_t h = missing_[i].head;
      const HeadIndex& head = args.heads[h];
      if (missing_[i].row < head.num_exact()) {
        const uint32_t row = missing_[i++].row;
        LECTERN_RETURN_IF_ERROR(ForEachStoredBlock(
            head, {row, row + 1}, [&](const TypedRows& keys, const TypedRows& values) {
              return staging_.Add(*stream_, keys, values);
            }));
        continue;
      }
      gathered_.clear();
      for (; i < last && missing_[i].head == h && missing_[i].row >= head.num_exact(); ++i) {
        gathered_.push_back(missing_[i].row);
      }
      LECTERN_RETURN_IF_ERROR(staging_.AddGathered(*stream_, head, gathered_));
    }
    LECTERN_RETURN_IF_ERROR(staging_.End(*stream_));
    LECTERN_RETURN_IF_ERROR(to.Place(*stream_, staged_, places_.data() + first, last - first));
  }
  return {};
}

Status DeviceAttention::AttendStaged(const Args& args, std::span<const Part> parts) {
  const Dtype dtype = document_->document().kv_dtype();
  const size_t dim = args.query.queries.front().num_cols;
  size_t all_rows = 0;
  for (const Part& part : parts) all_rows += part.rows.size();
  const size_t room =
      std::min(all_rows, std::max<size_t>(1, kDeviceStagingBytes / (2 * RowBytes(dtype, dim))));
  LECTERN_RETURN_IF_ERROR(staged_.Reserve(*stream_, dtype, dim, room, kUse));
  std::vector<AttentionRange> ranges;
  staging_.Begin(staged_, 0);
  const auto attend = [&]() -> Status {
    LECTERN_RETURN_IF_ERROR(staging_.End(*stream_));
    LECTERN_RETURN_IF_ERROR(rows_attention_.Attend(args.query, staged_.view(), ranges));
    ranges.clear();
    staging_.Begin(staged_, 0);
    return {};
  };
  // add(begin, count) of `num_rows` rows in turn, as many as there is room for.
  const auto add_rows = [&](const Part& part, size_t num_rows, const auto& add) -> Status {
    for (size_t begin = 0, count = 0; begin < num_rows; begin += count) {
      if (staging_.num_rows() == room) LECTERN_RETURN_IF_ERROR(attend());
      const auto at = static_cast<uint32_t>(staging_.num_rows());
      count = std::min(num_rows - begin, room - at);
      LECTERN_RETURN_IF_ERROR(add(begin, count));
      AddRange(part.head, at, at + static_cast<uint32_t>(count), ranges);
    }
    return {};
  };
  for (const Part& part : parts) {
    const HeadIndex& head = args.heads[part.head];
    if (!part.chosen.empty()) {
      const auto rows = part.chosen.subspan(part.rows.begin, part.rows.size());
      LECTERN_RETURN_IF_ERROR(add_rows(part, rows.size(), [&](size_t begin, size_t count) {
        return staging_.AddGathered(*stream_, head, rows.subspan(begin, count));
      }));
      continue;
    }
    LECTERN_RETURN_IF_ERROR(
        ForEachStoredBlock(head, part.rows, [&](const TypedRows& keys, const TypedRows& values) {
          return add_rows(part, keys.num_rows, [&](size_t begin, size_t count) {
            return staging_.Add(*stream_, keys.Slice(begin, begin + count),
                                values.Slice(begin, begin + count));
          });
        }));
  }
  return attend();
}

// Attends to a windowed layer: each token sees its own window, so all rows of the layer are given,
// with the first one's position and the window. Rows that do not stay are brought first.
Status DeviceAttention::AttendWindow(const Args& args, uint64_t first_position,
                                     uint32_t window) {
  const WaitsForStream wait(*stream_);
  LECTERN_ASSIGN(
      const DeviceDocument::Use use,
      document_->UseLayer(args.layer, args.heads, *stream_, staging_, DeviceDocument::Reads::kAll));
  LECTERN_RETURN_IF_ERROR(
      rows_attention_.BringQueries(args.query, document_->document().kv_dtype()));
  const uint32_t num_rows = args.heads.front().num_rows();
  DeviceKv rows;
  if (use.layer() != nullptr) {
    rows = use.layer()->rows.view();
  } else {
    LECTERN_RETURN_IF_ERROR(staged_.Reserve(*stream_, document_->document().kv_dtype(),
                                            args.query.queries.front().num_cols,
                                            args.heads.size() * num_rows, kUse));
    staging_.Begin(staged_, 0);
    for (const HeadIndex& head : args.heads) {
      LECTERN_RETURN_IF_ERROR(ForEachStoredBlock(
          head, {0, num_rows}, [&](const TypedRows& keys, const TypedRows& values) {
            return staging_.Add(*stream_, keys, values);
          }));
    }
    LECTERN_RETURN_IF_ERROR(staging_.End(*stream_));
    rows = staged_.view();
  }
  rows.rows_per_head = num_rows;
  rows.first_position = static_cast<uint32_t>(first_position);
  rows.window = window;
  std::vector<AttentionRange> ranges;
  for (uint32_t head = 0; head < args.heads.size(); ++head) {
    ranges.push_back({head, 0, head * num_rows, (head + 1) * num_rows});
  }
  return rows_attention_.Attend(args.query, rows, ranges);
}

}  // namespace lectern
