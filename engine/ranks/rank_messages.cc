#include "engine/ranks/rank_messages.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/ranks/rank_peers.h"

namespace lectern {

AttendMessage AttendMessage::Of(uint64_t document, const SharedRows::Args& args) {
  const LookupArgs& lookup = args.lookup;
  AttendMessage message;
  message.document = document;
  message.layer = args.layer;
  message.num_tokens = static_cast<uint32_t>(args.query.num_tokens);
  message.num_observed = static_cast<uint32_t>(args.num_observed);
  message.num_heads = static_cast<uint32_t>(args.query.queries.size());
  message.num_rows = static_cast<uint32_t>(args.query.queries.front().num_rows);
  message.head_dim = static_cast<uint32_t>(args.query.queries.front().num_cols);
  message.scale = lookup.scale;
  message.softcap = lookup.softcap;
  message.kv_budget = lookup.kv_budget;
  message.reads_all = args.reads_all;
  message.tail = lookup.tail;
  message.bound = lookup.bound;
  message.window_copies = lookup.window_copies;
  for (const Rows<const float>& rows : args.query.queries) {
    for (size_t r = 0; r < rows.num_rows; ++r) {
      message.queries.insert(message.queries.end(), rows[r], rows[r] + rows.num_cols);
    }
  }
  for (const std::vector<float>& lse : lookup.known_lse) {
    message.known_lse.insert(message.known_lse.end(), lse.begin(), lse.end());
  }
  message.row_weights.assign(lookup.row_weights.begin(), lookup.row_weights.end());
  message.head_budgets.assign(lookup.head_budgets.begin(), lookup.head_budgets.end());
  return message;
}

void AttendMessage::Write(MessageWriter& writer) const {
  writer.Put(RankCommand::kAttend);
  writer.Put(document);
  for (const uint32_t number : {layer, num_tokens, num_observed, num_heads, num_rows, head_dim}) {
    writer.Put(number);
  }
  writer.Put(scale);
  writer.Put(softcap);
  writer.Put(kv_budget);
  for (const bool flag : {reads_all, tail, bound, window_copies}) writer.Put(flag);
  writer.PutArray(std::span<const float>(queries));
  writer.PutArray(std::span<const float>(known_lse));
  writer.PutArray(std::span<const float>(row_weights));
  writer.PutArray(std::span<const double>(head_budgets));
}

Result<AttendMessage> AttendMessage::Read(MessageReader& reader) {
  AttendMessage message;
  message.document = reader.Take<uint64_t>();
  for (uint32_t* const number : {&message.layer, &message.num_tokens, &message.num_observed,
                                 &message.num_heads, &message.num_rows, &message.head_dim}) {
    *number = reader.Take<uint32_t>();
  }
  message.scale = reader.Take<float>();
  message.softcap = reader.Take<float>();
  message.kv_budget = reader.Take<double>();
  for (bool* const flag :
       {&message.reads_all, &message.tail, &message.bound, &message.window_copies}) {
    *flag = reader.Take<bool>();
  }
  message.queries = reader.TakeArray<float>();
  message.known_lse = reader.TakeArray<float>();
  message.row_weights = reader.TakeArray<float>();
  message.head_budgets = reader.TakeArray<double>();
  const size_t rows = size_t{message.num_heads} * message.num_rows;
  const auto fits = [](size_t size, size_t expected) { return size == 0 || size == expected; };
  if (!reader.is_whole() || rows == 0 || message.queries.size() != rows * message.head_dim ||
      !fits(message.known_lse.size(), rows) ||
      !fits(message.row_weights.size(), message.num_rows) ||
      !fits(message.head_budgets.size(), message.num_heads)) {
    return Status(Code::kInternal, "the queries of a layer came incompletely");
  }
  return message;
}

std::vector<float> PartialRows(std::span<const AttentionState> states, const OwnRows& own,
                               bool is_bounded) {
  const size_t dim = states.front().out.num_cols, num_rows = states.front().num_rows();
  std::vector<float> rows;
  rows.reserve(states.size() * num_rows * (kPartialRowFloats + dim));
  for (size_t h = 0; h < states.size(); ++h) {
    for (size_t r = 0; r < num_rows; ++r) {
      const float bound =
          is_bounded && !own.selections.empty() ? own.selections[h].unread_bound[r] : -INFINITY;
      rows.insert(rows.end(), {states[h].max[r], states[h].sum[r], own.read_lse[h][r], bound});
      rows.insert(rows.end(), states[h].out[r], states[h].out[r] + dim);
    }
  }
  return rows;
}

void TakePartialRows(std::span<const float> rows, std::span<const AttentionState> states,
                     OwnRows& own, bool is_bounded) {
  const size_t dim = states.front().out.num_cols;
  const float* next = rows.data();
  for (size_t h = 0; h < states.size(); ++h) {
    for (size_t r = 0; r < states[h].num_rows(); ++r) {
      PartialRow row;
      std::memcpy(&row, next, sizeof(row));
      states[h].max[r] = row.max;
      states[h].sum[r] = row.sum;
      own.read_lse[h][r] = row.read_lse;
      if (is_bounded && !own.selections.empty()) {
        own.selections[h].unread_bound[r] = row.unread_bound;
      }
      std::copy_n(next + kPartialRowFloats, dim, states[h].out[r]);
      next += kPartialRowFloats + dim;
    }
  }
}

std::vector<std::byte> PartMessage(const Status& local, const OwnRows& own,
                                   const std::vector<std::vector<float>>* observed) {
  MessageWriter writer;
  writer.PutArray(std::span<const std::byte>(StatusBytes(local)));
  if (!local.ok()) return std::move(writer.bytes());
  writer.Put(own.bytes);
  for (const HeadSelection& selection : own.selections) {
    writer.PutArray(std::span<const uint32_t>(selection.rows));
    writer.Put(selection.bytes);
    writer.Put(selection.missed_mass);
  }
  if (observed == nullptr) return std::move(writer.bytes());
  for (const std::vector<float>& logits : *observed) {
    writer.PutArray(std::span<const float>(logits));
  }
  return std::move(writer.bytes());
}

Status AppendPart(std::span<const std::byte> message, size_t num_observed, OwnRows& own,
                  std::vector<std::vector<float>>* observed, uint64_t& bytes) {
  MessageReader reader(message);
  LECTERN_RETURN_IF_ERROR(StatusFrom(reader.TakeArray<std::byte>()));
  bytes = reader.Take<uint64_t>();
  for (HeadSelection& selection : own.selections) {
    const std::vector<uint32_t> rows = reader.TakeArray<uint32_t>();
    selection.rows.insert(selection.rows.end(), rows.begin(), rows.end());
    selection.bytes += reader.Take<uint64_t>();
    selection.missed_mass = std::min(1.0, selection.missed_mass + reader.Take<double>());
  }
  for (size_t h = 0; observed != nullptr && h < observed->size(); ++h) {
    const std::vector<float> part = reader.TakeArray<float>();
    std::vector<float>& all = (*observed)[h];
    const size_t before = all.size() / num_observed, more = part.size() / num_observed;
    std::vector<float> joined;
    joined.reserve(all.size() + part.size());
    for (size_t r = 0; r < num_observed; ++r) {
      const auto begin = static_cast<ptrdiff_t>(r * before),
                 part_begin = static_cast<ptrdiff_t>(r * more);
      joined.insert(joined.end(), all.begin() + begin,
                    all.begin() + begin + static_cast<ptrdiff_t>(before));
      joined.insert(joined.end(), part.begin() + part_begin,
                    part.begin() + part_begin + static_cast<ptrdiff_t>(more));
    }
    all = std::move(joined);
  }
  if (!reader.is_whole()) return {Code::kInternal, "a rank's rows came incompletely"};
  return {};
}

}  // namespace lectern
