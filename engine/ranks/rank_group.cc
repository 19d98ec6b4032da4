#include "engine/ranks/rank_group.h"

#include <utility>

#include "engine/ranks/rank_messages.h"

namespace lectern {

// One session's access. Has the use of the group from Begin to Finish.
class GroupRows final : public SharedRows {
 public:
  GroupRows(std::shared_ptr<RankGroup> group, std::shared_ptr<const Document> document,
            std::string store)
      : group_(std::move(group)),
        document_(std::move(document)),
        store_(std::move(store)),
        share_{&group_->peers_, 0, group_->size()} {}

  const LookupShare& share() const override { return share_; }

  Result<bool> Begin(const Args& args) override {
    if (!group_->BeginLayer()) return false;
    Status sent = Send(args);
    if (sent.ok()) return true;
    group_->EndUse();
    return sent;
  }

  void Abort() override { group_->ranks_->Abort(); }

  Status Finish(Status local, std::span<const AttentionState> states, OwnRows& own,
                std::vector<std::vector<float>>* observed) override {
    const auto end_use = [](RankGroup* group) { group->EndUse(); };
    const std::unique_ptr<RankGroup, decltype(end_use)> use(group_.get(), end_use);
    Communicator& ranks = *group_->ranks_;
    const size_t row_floats = kPartialRowFloats + states.front().out.num_cols;
    std::vector<float> rows(states.size() * states.front().num_rows() * row_floats);
    if (local.ok()) rows = PartialRows(states, own, is_bounded_);
    LECTERN_RETURN_IF_ERROR(ranks.JoinAtFirst(rows, row_floats));
    std::vector<std::byte> all;
    std::vector<size_t> sizes;
    LECTERN_RETURN_IF_ERROR(ranks.Gather(0, {}, all, sizes));
    LECTERN_RETURN_IF_ERROR(std::move(local));
    TakePartialRows(rows, states, own, is_bounded_);
    std::vector<uint64_t> bytes(sizes.size());
    bytes[0] = own.bytes;
    std::span<const std::byte> rest = all;
    for (size_t rank = 1; rank < sizes.size(); ++rank) {
      const Status status =
          AppendPart(rest.first(sizes[rank]), num_observed_, own, observed, bytes[rank]);
      if (!status.ok()) {
        return Status(status.code(), "rank " + std::to_string(rank) + ": " + status.message())
            .WithParam(status.param());
      }
      rest = rest.subspan(sizes[rank]);
    }
    std::lock_guard lock(group_->counts_mutex_);
    for (size_t rank = 0; rank < bytes.size(); ++rank) group_->bytes_read_[rank] += bytes[rank];
    group_->traffic_ = ranks.traffic();
    return {};
  }

 private:
  // Tells the other ranks what to attend to; all are ready afterwards.
  Status Send(const Args& args) {
    LECTERN_ASSIGN(const uint64_t document, group_->Open(document_, store_));
    MessageWriter writer;
    AttendMessage::Of(document, args).Write(writer);
    LECTERN_RETURN_IF_ERROR(group_->Broadcast(std::move(writer.bytes())));
    LECTERN_RETURN_IF_ERROR(group_->peers_.Agree({}));
    is_bounded_ = args.lookup.bound && !args.reads_all;
    num_observed_ = args.num_observed;
    return {};
  }

  const std::shared_ptr<RankGroup> group_;
  const std::shared_ptr<const Document> document_;
  const std::string store_;
  const LookupShare share_;
  // The layer that has begun:
  bool is_bounded_ = false;
  size_t num_observed_ = 0;
};

RankGroup::RankGroup(std::shared_ptr<Communicator> ranks)
    : ranks_(std::move(ranks)), peers_(*ranks_), bytes_read_(ranks_->size()) {}

RankGroup::~RankGroup() {
  MessageWriter writer;
  writer.Put(RankCommand::kStop);
  // Where the group is lost, the others have ended already.
  (void)Broadcast(std::move(writer.bytes()));
}

std::unique_ptr<SharedRows> RankGroup::Share(std::shared_ptr<const Document> document,
                                             const std::string& store) {
  return std::make_unique<GroupRows>(shared_from_this(), std::move(document), store);
}

std::vector<uint64_t> RankGroup::bytes_read() const {
  std::lock_guard lock(counts_mutex_);
  return bytes_read_;
}

Status RankGroup::Broadcast(std::vector<std::byte> message) { return ranks_->Broadcast(message); }

Communicator::Traffic RankGroup::traffic() const {
  std::lock_guard lock(counts_mutex_);
  return traffic_;
}

bool RankGroup::BeginLayer() {
  std::unique_lock lock(use_mutex_);
  use_changed_.wait(lock, [this] { return use_ != Use::kLayer; });
  if (use_ == Use::kTask) return false;
  use_ = Use::kLayer;
  return true;
}

void RankGroup::BeginTask() {
  std::unique_lock lock(use_mutex_);
  use_changed_.wait(lock, [this] { return use_ == Use::kFree; });
  use_ = Use::kTask;
}

void RankGroup::EndUse() {
  {
    std::lock_guard lock(use_mutex_);
    use_ = Use::kFree;
  }
  use_changed_.notify_all();
}

RankGroup::Turn::Turn(std::shared_ptr<RankGroup> group) : group_(std::move(group)) {
  group_->BeginTask();
}

void RankGroup::Turn::End() {
  if (group_) std::exchange(group_, nullptr)->EndUse();
}

Result<uint64_t> RankGroup::Open(const std::shared_ptr<const Document>& document,
                                 const std::string& store) {
  for (auto i = open_.begin(); i != open_.end();) {
    if (!i->second.document.expired()) {
      ++i;
      continue;
    }
    // Others keep the files of a document as long as they have it open.
    MessageWriter writer;
    writer.Put(RankCommand::kClose);
    writer.Put(i->second.number);
    LECTERN_RETURN_IF_ERROR(Broadcast(std::move(writer.bytes())));
    i = open_.erase(i);
  }
  if (const auto found = open_.find(document.get()); found != open_.end()) {
    return found->second.number;
  }
  MessageWriter writer;
  writer.Put(RankCommand::kOpen);
  writer.Put(++last_number_);
  writer.PutString(store);
  writer.Put(document->row().generation);
  LECTERN_RETURN_IF_ERROR(Broadcast(std::move(writer.bytes())));
  LECTERN_RETURN_IF_ERROR(peers_.Agree({}));
  open_[document.get()] = {document, last_number_};
  return last_number_;
}

namespace {

std::mutex process_mutex;
std::shared_ptr<RankGroup>& ProcessGroup() {
  static std::shared_ptr<RankGroup> group;
  return group;
}

}  // namespace

std::shared_ptr<RankGroup> RankGroup::OfProcess() {
  std::lock_guard lock(process_mutex);
  return ProcessGroup();
}

void RankGroup::SetOfProcess(std::shared_ptr<RankGroup> group) {
  std::lock_guard lock(process_mutex);
  ProcessGroup() = std::move(group);
}

}  // namespace lectern
