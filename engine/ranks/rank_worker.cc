#include "engine/ranks/rank_worker.h"

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include "engine/attention/document_attention.h"
#include "engine/document/document.h"
#include "engine/ranks/rank_messages.h"
#include "engine/ranks/rank_peers.h"
#include "store/catalog.h"
#include "store/store.h"

namespace lectern {
namespace {

// Attention states of a layer's kv heads, with their memory.
struct OwnStates {
  OwnStates(size_t num_heads, size_t num_rows, size_t dim)
      : numbers(num_heads * num_rows * (dim + 2)) {
    float* next = numbers.data();
    for (size_t h = 0; h < num_heads; ++h) {
      float* const max = next + num_rows * dim;
      all.push_back({{next, num_rows, dim}, {max, num_rows}, {max + num_rows, num_rows}});
      ResetState(all.back());
      next = max + 2 * num_rows;
    }
  }
  std::vector<float> numbers;
  std::vector<AttentionState> all;
};

class RankWorker {
 public:
  RankWorker(Communicator& ranks, const RankResources& resources, const RankIndexer& index)
      : ranks_(ranks), resources_(resources), index_(index), peers_(ranks) {}

  Status Serve() {
    std::vector<std::byte> message;
    for (;;) {
      LECTERN_RETURN_IF_ERROR(ranks_.Broadcast(message));
      MessageReader reader(message);
      switch (reader.Take<RankCommand>()) {
        case RankCommand::kStop:
          return {};
        case RankCommand::kOpen:
          Open(reader);
          break;
        case RankCommand::kClose:
          documents_.erase(reader.Take<uint64_t>());
          break;
        case RankCommand::kAttend:
          LECTERN_RETURN_IF_ERROR(Attend(reader));
          break;
        case RankCommand::kIndex:
          if (!index_) return {Code::kInternal, "this rank does not index"};
          LECTERN_RETURN_IF_ERROR(index_(ranks_, resources_, reader));
          break;
        default:
          return {Code::kInternal, "the leading rank sent a command that this build does not know"};
      }
    }
  }

 private:
  // Opens a document, unless another rank cannot; the leader gets the error from the meeting.
  void Open(MessageReader& reader) {
    const auto number = reader.Take<uint64_t>();
    if (!peers_.Agree(OpenHere(number, reader)).ok()) documents_.erase(number);
  }

  Status OpenHere(uint64_t number, MessageReader& reader) try {
    const std::string store = reader.TakeString();
    const auto generation = reader.Take<uint64_t>();
    LECTERN_ASSIGN(const auto catalog,
                   Catalog::Open(resources_.env, CatalogPath(store), Catalog::Mode::kReadOnly));
    LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog->List());
    const auto row = std::ranges::find(rows, generation, &DocumentRow::generation);
    if (row == rows.end()) {
      return {Code::kNotFound, "this version of the document is not in the store " + store};
    }
    LECTERN_ASSIGN(const std::vector<ShardSummary> shards, catalog->Shards(generation));
    LECTERN_ASSIGN(documents_[number],
                   Document::Open(resources_.env, DocumentDirectory(store, row->id, generation),
                                  *row, shards, {.io = resources_.io, .ram = resources_.ram}));
    return {};
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }

  // One layer. Errors of the communicator alone; others go to the leader.
  Status Attend(MessageReader& reader) {
    auto message = AttendMessage::Read(reader);
    Status local = message.status();
    std::span<const HeadIndex> heads;
    const Document* document = nullptr;
    if (local.ok()) {
      document =
          documents_.contains(message->document) ? documents_[message->document].get() : nullptr;
      auto of_layer = document != nullptr ? document->Heads(message->layer)
                                          : Status(Code::kInternal, "the document is not open");
      local = of_layer.status();
      if (local.ok()) heads = *of_layer;
    }
    // All ranks return to their commands where one of them cannot begin.
    if (!peers_.Agree(std::move(local)).ok()) return {};
    return AttendOwn(*message, *document, heads);
  }

  Status AttendOwn(const AttendMessage& message, const Document& document,
                   std::span<const HeadIndex> heads) {
    const Document::LayerUse use(document, message.layer);
    const LookupShare share = {&peers_, ranks_.rank(), ranks_.size()};
    const size_t rows = message.num_rows, dim = message.head_dim;
    OwnStates states(message.num_heads, rows, dim);
    std::vector<Rows<const float>> queries;
    std::vector<std::vector<float>> known_lse;
    for (size_t h = 0; h < message.num_heads; ++h) {
      queries.emplace_back(message.queries.data() + h * rows * dim, rows, dim);
      if (message.known_lse.empty()) continue;
      const float* const known = message.known_lse.data() + h * rows;
      known_lse.emplace_back(known, known + rows);
    }
    const LookupArgs lookup = {.backend = resources_.backend,
                               .threads = resources_.threads,
                               .heads = heads,
                               .queries = queries,
                               .scale = message.scale,
                               .softcap = message.softcap,
                               .kv_budget = message.kv_budget,
                               .tail = message.tail,
                               .head_budgets = message.head_budgets,
                               .known_lse = known_lse,
                               .row_weights = message.row_weights,
                               .bound = message.bound,
                               .window_copies = message.window_copies,
                               .workspace = &workspace_.lookup,
                               .share = &share};
    observed_.num_queries = message.num_observed;
    ObservedLogits* const observed = message.num_observed > 0 ? &observed_ : nullptr;
    workspace_.arena.Reset();
    const Status local = AttendOwnRows({.query = {.backend = resources_.backend,
                                                  .threads = resources_.threads,
                                                  .rows = {.queries = queries,
                                                           .num_tokens = message.num_tokens,
                                                           .softcap = message.softcap,
                                                           .states = states.all},
                                                  .row_weights = message.row_weights,
                                                  .is_cancelled = {},
                                                  .workspace = workspace_},
                                        .heads = heads,
                                        .lookup = lookup,
                                        .reads_all = message.reads_all,
                                        .observed = observed},
                                       own_);
    return SendPart(local, message, states.all, observed);
  }

  Status SendPart(const Status& local, const AttendMessage& message,
                  std::span<const AttentionState> states, const ObservedLogits* observed) {
    const size_t row_floats = kPartialRowFloats + message.head_dim;
    std::vector<float> rows(states.size() * message.num_rows * row_floats);
    if (local.ok()) rows = PartialRows(states, own_, message.bound && !message.reads_all);
    LECTERN_RETURN_IF_ERROR(ranks_.JoinAtFirst(rows, row_floats));
    std::vector<std::byte> all;
    std::vector<size_t> sizes;
    return ranks_.Gather(
        0, PartMessage(local, own_, observed != nullptr ? &observed->rest : nullptr), all, sizes);
  }

  static Status OutOfMemory() {
    return {Code::kOutOfMemory, "not enough memory to open the document"};
  }

  Communicator& ranks_;
  const RankResources resources_;
  const RankIndexer& index_;
  RankPeers peers_;
  std::map<uint64_t, std::shared_ptr<const Document>> documents_;  // by number
  AttentionWorkspace workspace_;
  ObservedLogits observed_;
  OwnRows own_;
};

}  // namespace

Status ServeRank(Communicator& ranks, const RankResources& resources, const RankIndexer& index) {
  return RankWorker(ranks, resources, index).Serve();
}

}  // namespace lectern
