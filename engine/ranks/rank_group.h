// The leading rank's side of a group of processes that attend to documents together. The other
// ranks run ServeRank (rank_worker.h).
//
// A layer of a pass takes these meetings, in this order:
//   1. the leader broadcasts the queries; all agree that they can begin;
//   2. a lookup adds up denominators, and finds where each of its choices ends;
//   3. all join their partial outputs at the leader by log-sum-exp, and it collects which rows were
//      read.
// Linear layers, the conversation, sinks and window, windowed layers and sampling are the leader's;
// the others need no model. So an answer has the rounding of one process but for the joined sums.
#ifndef LECTERN_ENGINE_RANKS_RANK_GROUP_H_
#define LECTERN_ENGINE_RANKS_RANK_GROUP_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/attention/shared_rows.h"
#include "engine/document/document.h"
#include "engine/ranks/communicator.h"
#include "engine/ranks/rank_peers.h"

namespace lectern {

// Thread-safe; layers of several sessions take turns. Lives as long as anything made of it.
class RankGroup : public std::enable_shared_from_this<RankGroup> {
 public:
  // `ranks`: of at least two processes, of which this is the first one.
  explicit RankGroup(std::shared_ptr<Communicator> ranks);
  // Tells the other ranks to end.
  ~RankGroup();

  uint32_t size() const { return ranks_->size(); }
  // A session's access to a document of the store in this folder, which all ranks can read. Never
  // nullptr.
  std::unique_ptr<SharedRows> Share(std::shared_ptr<const Document> document,
                                    const std::string& store);
  // The whole group, for a longer task of several messages. Waits for a layer that has begun;
  // layers that begin meanwhile do without the other ranks (SharedRows::Begin).
  class Turn {
   public:
    explicit Turn(std::shared_ptr<RankGroup> group);
    Turn(Turn&&) noexcept = default;
    ~Turn() { End(); }
    Communicator& ranks() { return *group_->ranks_; }
    RankPeers& peers() { return group_->peers_; }
    void End();  // gives the group back; nothing may be sent afterwards

   private:
    std::shared_ptr<RankGroup> group_;  // nullptr: it was given back
  };
  Turn TakeTurn() { return Turn(shared_from_this()); }
  // [ranks]: bytes of keys, values, codes and centroids that each rank has read for passes.
  std::vector<uint64_t> bytes_read() const;
  // The messages of this rank, up to the last layer.
  Communicator::Traffic traffic() const;

  // The group that this process leads, as MPI has one for each process; nullptr: none. Engines that
  // are made afterwards use it.
  static std::shared_ptr<RankGroup> OfProcess();
  static void SetOfProcess(std::shared_ptr<RankGroup> group);

 private:
  friend class GroupRows;

  // Lets the other ranks open the document, and close those that no one here has any more. Returns
  // the number by which messages name it.
  Result<uint64_t> Open(const std::shared_ptr<const Document>& document, const std::string& store);
  Status Broadcast(std::vector<std::byte> message);

  const std::shared_ptr<Communicator> ranks_;
  RankPeers peers_;
  // Who sends messages: nobody, a layer, or a longer task. Only whoever does touches the members
  // above and open_.
  enum class Use { kFree, kLayer, kTask };
  // Waits while a layer sends. False, and nothing changes: a longer task does.
  bool BeginLayer();
  void BeginTask();
  void EndUse();

  std::mutex use_mutex_;
  std::condition_variable use_changed_;
  Use use_ = Use::kFree;
  struct OpenDocument {
    std::weak_ptr<const Document> document;
    uint64_t number = 0;
  };
  std::map<const Document*, OpenDocument> open_;  // at the other ranks
  uint64_t last_number_ = 0;
  mutable std::mutex counts_mutex_;
  std::vector<uint64_t> bytes_read_;
  Communicator::Traffic traffic_;  // after the last layer
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_RANKS_RANK_GROUP_H_
