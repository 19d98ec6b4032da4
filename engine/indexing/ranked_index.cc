#include "engine/indexing/ranked_index.h"

#include <algorithm>
#include <new>
#include <utility>

#include "engine/indexing/ranked_prefill.h"
#include "engine/ranks/rank_messages.h"

namespace lectern {
namespace {

std::string RankFolder(const std::string& directory, uint32_t rank) {
  return directory + "/rank-" + std::to_string(rank);
}

// The command: everything of a document that the other ranks need, but the tokens' own rows.
struct IndexMessage {
  std::string store, directory, temp_dir;
  // The model, as the first rank reads it.
  std::string model, adapter;
  WeightsType weights = WeightsType::kStored;
  ChatSource chat;
  Fingerprint fingerprint{};
  std::vector<int32_t> tokens;
  // These are options.
  uint32_t num_levels = 0;
  uint64_t seed = 0;
  std::string cluster_keys, stats;
  double checkpoint_seconds = 0;
  uint32_t num_sinks = 0, num_window = 0;
  Dtype dtype = Dtype::kF16, spill_dtype = Dtype::kF16;
  ShardHeader header{};

  void Write(MessageWriter& writer) const;
  static Result<IndexMessage> Read(MessageReader& reader);
};

// Calls put(field) for each field, in the order of the message.
template <typename Message, typename Put>
void ForEachField(Message& m, const Put& put) {
  put(m.store);
  put(m.directory);
  put(m.temp_dir);
  put(m.model);
  put(m.adapter);
  put(m.weights);
  put(m.chat.name);
  put(m.chat.jinja);
  put(m.chat.bos);
  put(m.chat.eos);
  put(m.chat.identity);
  put(m.fingerprint);
  put(m.tokens);
  put(m.num_levels);
  put(m.seed);
  put(m.cluster_keys);
  put(m.stats);
  put(m.checkpoint_seconds);
  put(m.num_sinks);
  put(m.num_window);
  put(m.dtype);
  put(m.spill_dtype);
  put(m.header);
}

void IndexMessage::Write(MessageWriter& writer) const {
  writer.Put(RankCommand::kIndex);
  ForEachField(*this, [&](const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, std::string>) {
      writer.PutString(field);
    } else if constexpr (std::is_same_v<Field, std::vector<int32_t>>) {
      writer.PutArray(std::span<const int32_t>(field));
    } else {
      writer.Put(field);
    }
  });
}

Result<IndexMessage> IndexMessage::Read(MessageReader& reader) {
  IndexMessage message;
  ForEachField(message, [&](auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, std::string>) {
      field = reader.TakeString();
    } else if constexpr (std::is_same_v<Field, std::vector<int32_t>>) {
      field = reader.TakeArray<int32_t>();
    } else {
      field = reader.Take<Field>();
    }
  });
  if (!reader.is_whole()) return Status(Code::kInternal, "the command to index came incompletely");
  return message;
}

// The spills of one rank: of its layers, and of its tokens. The first rank's layers lie in the
// document's folder itself, where a run without ranks has them.
struct RankSpills {
  std::unique_ptr<KvSpill> layers, own;
};
Result<RankSpills> OpenSpills(Env& env, const std::string& directory, const std::string& temp_dir,
                              SpillShape shape, uint32_t rank, uint32_t size) {
  RankSpills spills;
  const std::string folder = RankFolder(directory, rank);
  shape.rank = rank;
  shape.num_ranks = size;
  shape.checkpoint_name = "-rank-" + std::to_string(rank);
  LECTERN_ASSIGN(spills.layers,
                 KvSpill::Open(env, rank == 0 ? directory : folder, temp_dir, shape));
  SpillShape own = shape;
  own.rank = 0;
  own.num_ranks = 1;
  own.num_tokens = RankTokens{rank, size}.Below(shape.num_tokens);
  own.num_calibration = 0;
  own.checkpoint_name += "-own";
  LECTERN_ASSIGN(spills.own, KvSpill::Open(env, folder + "/own", temp_dir, own));
  return spills;
}

// The result of a rank's clustering as bytes, and back: appended to `layers`.
std::vector<std::byte> ShardsMessage(const ClusteredLayers& layers) {
  MessageWriter writer;
  writer.PutArray(std::span<const uint64_t>(layers.centroids));
  writer.Put(uint64_t{layers.shards.size()});
  for (const ShardSummary& shard : layers.shards) {
    writer.PutString(shard.file);
    writer.Put(shard.bytes);
    writer.Put(shard.table_crc);
    writer.Put(shard.header_crc);
  }
  return std::move(writer.bytes());
}
Status AppendShards(MessageReader reader, ClusteredLayers& layers) {
  const std::vector<uint64_t> centroids = reader.TakeArray<uint64_t>();
  const auto count = reader.Take<uint64_t>();
  for (uint64_t i = 0; i < count && reader.is_whole(); ++i) {
    ShardSummary shard;
    shard.file = reader.TakeString();
    shard.bytes = reader.Take<uint64_t>();
    shard.table_crc = reader.Take<uint32_t>();
    shard.header_crc = reader.Take<uint32_t>();
    layers.shards.push_back(std::move(shard));
  }
  if (!reader.is_whole() || centroids.size() != layers.centroids.size()) {
    return {Code::kInternal, "a rank's list of shards came incompletely"};
  }
  for (size_t level = 0; level < centroids.size(); ++level) {
    layers.centroids[level] += centroids[level];
  }
  return {};
}

// The status of a step that may throw bad_alloc.
template <typename Step>
Status Caught(const Step& step) try {
  return step();
} catch (const std::bad_alloc&) {
  return {Code::kOutOfMemory, "not enough memory to index the document; use fewer threads"};
}

// Another rank's document, from the command to its shards.
class FollowedIndex {
 public:
  FollowedIndex(Communicator& ranks, const RankResources& resources)
      : ranks_(ranks), resources_(resources), peers_(ranks) {}

  // Each stage begins with a meeting at which the first rank says whether it goes on.
  Status Run(MessageReader& reader) {
    if (!peers_.Agree(Caught([&] { return Open(reader); })).ok()) return {};
    if (!peers_.Agree({}).ok()) return {};
    PrefillOptions options;
    options.checkpoint_seconds = message_.checkpoint_seconds;
    options.keeps_spills = resources_.ram == nullptr;
    const Transformer transformer(*model_, resources_.backend, resources_.threads,
                                  message_.tokens.size());
    const Status prefilled = PrefillWithRanks({.transformer = transformer,
                                               .tokens = message_.tokens,
                                               .ranks = ranks_,
                                               .own = *spills_.own,
                                               .layers = *spills_.layers,
                                               .options = options});
    // The first rank has the same error, if it is one of a document's.
    if (!prefilled.ok()) return {};
    if (!peers_.Agree({}).ok()) return {};
    ClusteredLayers layers;
    Status local = Caught([&] { return Cluster(layers); });
    if (!peers_.Agree(std::move(local)).ok()) return {};
    std::vector<std::byte> all;
    std::vector<size_t> sizes;
    return ranks_.Gather(0, ShardsMessage(layers), all, sizes);
  }

 private:
  Status Open(MessageReader& reader) {
    LECTERN_ASSIGN(message_, IndexMessage::Read(reader));
    LECTERN_ASSIGN(model_, Model::Load(resources_.env, message_.model,
                                       {.io = resources_.io,
                                        .store = message_.store,
                                        .weights = message_.weights,
                                        .threads = &resources_.threads,
                                        .chat_template = message_.chat,
                                        .adapter = message_.adapter}));
    if (model_->fingerprint() != message_.fingerprint) {
      return {Code::kModelMismatch, "the model at " + message_.model +
                                        " is another one here than at the first rank; give all "
                                        "ranks the same files"};
    }
    const ModelConfig& config = model_->config();
    layout_ = {.num_tokens = message_.tokens.size(),
               .num_sinks = message_.num_sinks,
               .num_window = message_.num_window,
               .num_levels = message_.num_sinks > 0 ? message_.num_levels : 0,
               .dtype = message_.dtype};
    SpillShape shape;
    std::ranges::copy(message_.header.document_id, shape.document.begin());
    shape.generation = message_.header.generation;
    shape.num_tokens = message_.tokens.size();
    shape.num_layers = config.num_layers;
    shape.num_kv_heads = config.num_kv_heads;
    shape.head_dim = config.head_dim;
    shape.query_cols = config.num_heads * config.head_dim;
    shape.dtype = message_.spill_dtype;
    shape.num_calibration = message_.num_window;
    shape.softcap = config.attention_softcap;
    LECTERN_ASSIGN(spills_, OpenSpills(resources_.env, message_.directory, message_.temp_dir, shape,
                                       ranks_.rank(), ranks_.size()));
    return {};
  }

  Status Cluster(ClusteredLayers& layers) {
    const IndexContext context = {.env = resources_.env,
                                  .store = message_.store,
                                  .model = *model_,
                                  .backend = resources_.backend,
                                  .threads = resources_.threads,
                                  .io = resources_.io,
                                  .ram = resources_.ram};
    IndexOptions options;
    options.num_levels = message_.num_levels;
    options.seed = message_.seed;
    options.cluster_keys = message_.cluster_keys;
    options.stats = message_.stats;
    IndexProgressMeter progress(options, model_->config(), layout_.num_tokens, 1);
    LECTERN_ASSIGN(layers, ClusterLayers({.context = context,
                                          .options = options,
                                          .layout = layout_,
                                          .header = message_.header,
                                          .directory = message_.directory,
                                          .temp_dir = message_.temp_dir,
                                          .spill = *spills_.layers,
                                          .num_heads = resources_.threads.num_threads(),
                                          .progress = progress}));
    return {};
  }

  Communicator& ranks_;
  const RankResources& resources_;
  RankPeers peers_;
  IndexMessage message_;
  std::shared_ptr<const Model> model_;
  RowLayout layout_{};
  RankSpills spills_;
};

}  // namespace

std::string RankedIndex::WhyAlone(const IndexOptions& options, double prefill_budget) {
  if (prefill_budget < 1) return "a sparse prefill is one process's";
  if (options.stats == "full") return "full statistics of attention are one process's";
  if (!options.retention.keeps_all()) return "choosing which rows to keep is one process's";
  return {};
}

Result<std::unique_ptr<RankedIndex>> RankedIndex::Begin(RankGroup& group, const Args& args) {
  std::unique_ptr<RankedIndex> index(new RankedIndex(group.TakeTurn(), args.tokens));
  const uint32_t size = group.size();
  // The first rank's folder is made before the others', which lie in it.
  LECTERN_ASSIGN(RankSpills spills,
                 OpenSpills(args.context.env, args.directory, args.temp_dir, args.shape, 0, size));
  index->layers_ = std::move(spills.layers);
  index->own_ = std::move(spills.own);
  const Model& model = args.context.model;
  IndexMessage message;
  message.store = args.context.store;
  message.directory = args.directory;
  message.temp_dir = args.temp_dir;
  message.model = model.folder();
  message.adapter = model.adapter() != nullptr ? model.adapter()->path() : "";
  message.weights = model.weights().type();
  message.chat = model.chat_template().source();
  message.fingerprint = model.fingerprint();
  message.tokens.assign(args.tokens.begin(), args.tokens.end());
  message.num_levels = args.options.num_levels;
  message.seed = args.options.seed;
  message.cluster_keys = args.options.cluster_keys;
  message.stats = args.options.stats;
  message.checkpoint_seconds = args.options.checkpoint_seconds;
  message.num_sinks = args.layout.num_sinks;
  message.num_window = args.layout.num_window;
  message.dtype = args.layout.dtype;
  message.spill_dtype = args.shape.dtype;
  message.header = args.header;
  MessageWriter writer;
  message.Write(writer);
  LECTERN_RETURN_IF_ERROR(index->turn_.ranks().Broadcast(writer.bytes()));
  const Status opened = index->turn_.peers().Agree({});
  if (!opened.ok()) {
    index->next_ = Stage::kOver;  // the others have gone back to their commands
    return opened;
  }
  return index;
}

RankedIndex::~RankedIndex() {
  if (next_ == Stage::kOver || !layers_) return;
  (void)turn_.peers().Agree(Status(Code::kCancelled, "the first rank ended the document"));
}

Status RankedIndex::Prefill(const Transformer& transformer, const PrefillOptions& options) {
  LECTERN_RETURN_IF_ERROR(turn_.peers().Agree({}));
  next_ = Stage::kOver;  // where it fails, all ranks know
  LECTERN_RETURN_IF_ERROR(PrefillWithRanks({.transformer = transformer,
                                            .tokens = tokens_,
                                            .ranks = turn_.ranks(),
                                            .own = *own_,
                                            .layers = *layers_,
                                            .options = options}));
  next_ = Stage::kCluster;
  return {};
}

Result<ClusteredLayers> RankedIndex::Cluster(const LayersToCluster& work) {
  LECTERN_RETURN_IF_ERROR(turn_.peers().Agree({}));
  next_ = Stage::kOver;
  ClusteredLayers layers;
  Status local = Caught([&]() -> Status {
    LECTERN_ASSIGN(layers, ClusterLayers(work));
    return {};
  });
  LECTERN_RETURN_IF_ERROR(turn_.peers().Agree(std::move(local)));
  std::vector<std::byte> all;
  std::vector<size_t> sizes;
  LECTERN_RETURN_IF_ERROR(turn_.ranks().Gather(0, {}, all, sizes));
  std::span<const std::byte> rest = all;
  for (const size_t size : sizes) {
    if (size > 0) {
      LECTERN_RETURN_IF_ERROR(AppendShards(MessageReader(rest.first(size)), layers));
    }
    rest = rest.subspan(size);
  }
  turn_.End();
  return layers;
}

void RemoveRankFolders(Env& env, const std::string& directory, uint32_t num_ranks) {
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    (void)env.RemoveTree(RankFolder(directory, rank));
  }
}

Status IndexAsRank(Communicator& ranks, const RankResources& resources, MessageReader& message) {
  return FollowedIndex(ranks, resources).Run(message);
}

}  // namespace lectern
