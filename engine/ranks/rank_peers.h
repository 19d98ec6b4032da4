// Lets ranks meet during a lookup or another common task, so that an error of one of them becomes
// the same error on all.
#ifndef LECTERN_ENGINE_RANKS_RANK_PEERS_H_
#define LECTERN_ENGINE_RANKS_RANK_PEERS_H_

#include <vector>

#include "engine/ranks/communicator.h"
#include "index/lookup_share.h"

namespace lectern {

// Borrows the communicator. One thread at a time.
class RankPeers final : public LookupPeers {
 public:
  explicit RankPeers(Communicator& ranks) : ranks_(ranks) {}

  Status AddLse(Status local, std::span<float> lse) override;
  Status Add(Status local, std::span<double> numbers) override;
  Status Gather(std::span<const std::byte> own, std::vector<std::byte>& all,
                size_t& first) override;
  // Only agrees whether all ranks are well.
  Status Agree(Status local) { return Add(std::move(local), {}); }

 private:
  // The error of the first rank that failed. Every rank calls it once any rank did.
  Status FirstError(const Status& local);

  Communicator& ranks_;
  // Messages with one number more, which tells that a rank failed.
  std::vector<float> floats_;
  std::vector<double> doubles_;
};

// A status as bytes, and back: code, param and message.
std::vector<std::byte> StatusBytes(const Status& status);
// kInternal: the bytes are no status.
Status StatusFrom(std::span<const std::byte> bytes);

}  // namespace lectern

#endif  // LECTERN_ENGINE_RANKS_RANK_PEERS_H_
