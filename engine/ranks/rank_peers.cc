#include "engine/ranks/rank_peers.h"

#include <algorithm>
#include <cmath>

#include "engine/ranks/packed_message.h"

namespace lectern {

Status RankPeers::AddLse(Status local, std::span<float> lse) {
  floats_.assign(lse.begin(), lse.end());
  floats_.push_back(local.ok() ? -INFINITY : 0);
  LECTERN_RETURN_IF_ERROR(ranks_.AddLogs(floats_));
  if (floats_.back() != -INFINITY) return FirstError(local);
  std::copy(floats_.begin(), floats_.end() - 1, lse.begin());
  return {};
}

Status RankPeers::Add(Status local, std::span<double> numbers) {
  doubles_.assign(numbers.begin(), numbers.end());
  doubles_.push_back(local.ok() ? 0 : 1);
  LECTERN_RETURN_IF_ERROR(ranks_.Sum(doubles_));
  if (doubles_.back() > 0) return FirstError(local);
  std::copy(doubles_.begin(), doubles_.end() - 1, numbers.begin());
  return {};
}

Status RankPeers::Gather(std::span<const std::byte> own, std::vector<std::byte>& all,
                         size_t& first) {
  std::vector<size_t> sizes;
  LECTERN_RETURN_IF_ERROR(ranks_.Gather(Communicator::kAll, own, all, sizes));
  first = 0;
  for (uint32_t rank = 0; rank < ranks_.rank(); ++rank) first += sizes[rank];
  return {};
}

Status RankPeers::FirstError(const Status& local) {
  std::vector<std::byte> all;
  std::vector<size_t> sizes;
  LECTERN_RETURN_IF_ERROR(ranks_.Gather(Communicator::kAll, StatusBytes(local), all, sizes));
  std::span<const std::byte> rest = all;
  for (uint32_t rank = 0; rank < sizes.size(); ++rank) {
    const Status status = StatusFrom(rest.first(sizes[rank]));
    rest = rest.subspan(sizes[rank]);
    if (status.ok()) continue;
    if (rank == 0) return status;  // the leader's own needs no place
    return Status(status.code(), "rank " + std::to_string(rank) + ": " + status.message())
        .WithParam(status.param());
  }
  return {Code::kInternal, "a rank failed without an error"};
}

std::vector<std::byte> StatusBytes(const Status& status) {
  MessageWriter writer;
  writer.Put(status.code());
  writer.PutString(status.param());
  writer.PutString(status.message());
  return std::move(writer.bytes());
}

Status StatusFrom(std::span<const std::byte> bytes) {
  MessageReader reader(bytes);
  const auto code = reader.Take<Code>();
  std::string param = reader.TakeString(), message = reader.TakeString();
  if (!reader.is_whole()) return {Code::kInternal, "a rank sent half a status"};
  if (code == Code::kOk) return {};
  return Status(code, std::move(message)).WithParam(std::move(param));
}

}  // namespace lectern
