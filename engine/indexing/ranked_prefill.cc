#include "engine/indexing/ranked_prefill.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "engine/attention/sinks.h"
#include "engine/ranks/packed_message.h"
#include "engine/ranks/rank_peers.h"
#include "engine/requests/seconds.h"

namespace lectern {
namespace {

// The query rows of one rank's chunk on their way around the ring, with what they have gathered.
struct RingRows {
  // Before the floats: the position of the first row's token, and the number of rows of each head.
  struct Header {
    uint64_t first_position = 0, num_rows = 0;
  };
  // For each kv head: queries [rows, dim], then output [rows, dim], maximum and sum [rows].
  static size_t HeadFloats(size_t num_rows, size_t dim) { return num_rows * (2 * dim + 2); }

  static std::vector<std::byte> Make(const Header& header, size_t num_heads, size_t dim) {
    std::vector<std::byte> bytes(sizeof(header) +
                                 num_heads * HeadFloats(header.num_rows, dim) * sizeof(float));
    std::memcpy(bytes.data(), &header, sizeof(header));
    return bytes;
  }
  RingRows(std::vector<std::byte>& bytes, size_t dim) : dim_(dim) {
    std::memcpy(&header, bytes.data(), sizeof(header));
    // A vector's memory is aligned for any number, and the header has the size of two of 8 bytes.
    floats_ = reinterpret_cast<float*>(bytes.data() + sizeof(header));
  }
  Rows<float> Queries(size_t head) const { return {FloatsOf(head), header.num_rows, dim_}; }
  AttentionState State(size_t head) const {
    float* const out = FloatsOf(head) + header.num_rows * dim_;
    float* const max = out + header.num_rows * dim_;
    return {{out, header.num_rows, dim_},
            {max, header.num_rows},
            {max + header.num_rows, header.num_rows}};
  }
  Header header;

 private:
  float* FloatsOf(size_t head) const { return floats_ + head * HeadFloats(header.num_rows, dim_); }
  const size_t dim_;
  float* floats_ = nullptr;
};

class RankedPrefill {
 public:
  explicit RankedPrefill(const RankedPrefillArgs& args)
      : args_(args),
        config_(args.transformer.model().config()),
        peers_(args.ranks),
        place_{args.ranks.rank(), args.ranks.size()},
        num_tokens_(args.tokens.size()),
        activations_(config_, std::min<size_t>(kChunkTokens, num_tokens_),
                     args.transformer.threads().num_threads()),
        scratch_size_(AttendScratch(kQueryRowsPerItem, config_.head_dim)),
        scratch_(args.transformer.threads().num_threads() * scratch_size_),
        cosines_(config_.num_layers) {}

  Status Run() {
    LECTERN_RETURN_IF_ERROR(FindBeginning());
    auto last_checkpoint = std::chrono::steady_clock::now();
    for (uint64_t begin = args_.layers.tokens_done(); begin < num_tokens_;) {
      const uint64_t end = std::min(begin + place_.size * kChunkTokens, num_tokens_);
      const Status round = Round(begin, end);
      if (!round.ok()) {
        args_.own.AbandonChunk();
        args_.layers.AbandonChunk();
        if (round.code() == Code::kCancelled) LECTERN_RETURN_IF_ERROR(Checkpoint());
        return round;
      }
      if (IsFirst() && args_.options.on_chunk) args_.options.on_chunk(end);
      // The first rank's clock says for all when to write a checkpoint.
      const bool is_due =
          end == num_tokens_ || SecondsSince(last_checkpoint) >= args_.options.checkpoint_seconds;
      double wanted[] = {IsFirst() && is_due ? 1.0 : 0.0};
      LECTERN_RETURN_IF_ERROR(peers_.Add({}, wanted));
      if (wanted[0] > 0) {
        LECTERN_RETURN_IF_ERROR(peers_.Agree(Checkpoint()));
        last_checkpoint = std::chrono::steady_clock::now();
      }
      begin = end;
    }
    return {};
  }

 private:
  bool IsFirst() const { return place_.rank == 0; }

  Status Checkpoint() {
    LECTERN_RETURN_IF_ERROR(args_.own.Checkpoint());
    return args_.layers.Checkpoint();
  }

  // Starts over, the first rank before the others, whose folders may lie in its own, unless the
  // spills of all ranks were written at the same moment. Rows of the tokens are not needed any more
  // where all tokens are done.
  Status FindBeginning() {
    const uint64_t done = args_.layers.tokens_done();
    const bool is_whole = done == num_tokens_ || args_.own.tokens_done() == place_.Below(done);
    const uint64_t mine[] = {is_whole ? done : UINT64_MAX};
    std::vector<std::byte> all;
    size_t first = 0;
    LECTERN_RETURN_IF_ERROR(peers_.Gather(std::as_bytes(std::span(mine)), all, first));
    bool starts_over = false;
    for (size_t at = 0; at < all.size(); at += sizeof(uint64_t)) {
      uint64_t of_rank = 0;
      std::memcpy(&of_rank, all.data() + at, sizeof(of_rank));
      starts_over = starts_over || of_rank == UINT64_MAX || of_rank != done;
    }
    // All ranks reach the same verdict: it is whether all numbers are equal.
    if (!starts_over) return {};
    for (const bool is_turn_of_first : {true, false}) {
      Status status;
      if (IsFirst() == is_turn_of_first) {
        status = args_.layers.StartOver();
        if (status.ok()) status = args_.own.StartOver();
      }
      LECTERN_RETURN_IF_ERROR(peers_.Agree(std::move(status)));
    }
    return {};
  }

  // Runs one chunk of each rank, tokens [begin, end) together, through all layers.
  Status Round(uint64_t begin, uint64_t end) {
    args_.own.BeginChunk();
    args_.layers.BeginChunk();
    chunk_begin_ = std::min(begin + place_.rank * kChunkTokens, end);
    count_ = std::min<uint64_t>(kChunkTokens, end - chunk_begin_);
    own_begin_ = place_.Below(begin);
    if (count_ > 0) {
      args_.transformer.Embed(args_.tokens.subspan(chunk_begin_, count_), chunk_begin_,
                              activations_);
    }
    Status local;
    for (uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      LECTERN_RETURN_IF_ERROR(Layer(layer, begin, std::move(local)));
      local = std::exchange(of_layer_, {});
    }
    LECTERN_RETURN_IF_ERROR(peers_.Agree(std::move(local)));
    return Advance(begin, end);
  }

  // One layer for the rank's chunk. `local`: the rank's error in the layer before. Leaves the error
  // of this one in of_layer_, where the ranks do not meet after it.
  Status Layer(uint32_t layer, uint64_t begin, Status local) {
    const bool is_last = layer + 1 == config_.num_layers;
    const bool is_counted = args_.layers.shape().num_calibration > 0;
    // The last layer ends with its keys and values, but for the tokens whose cosines are counted.
    const size_t skipped = is_last ? std::min<size_t>(count_, kUnsampledTokens) : 0;
    if (local.ok() && args_.options.is_cancelled && args_.options.is_cancelled()) {
      local =
          Status(Code::kCancelled, "indexing was cancelled; the same command goes on from token " +
                                       std::to_string(args_.layers.tokens_done()));
    }
    if (local.ok() && count_ > 0) local = Project(layer);
    LECTERN_RETURN_IF_ERROR(peers_.Agree(std::move(local)));
    cosines_[layer].clear();
    if (!is_last || is_counted) {
      LECTERN_RETURN_IF_ERROR(GoAround(layer, skipped));
      if (count_ > skipped) {
        cosines_[layer].resize(is_counted ? count_ - skipped : 0);
        of_layer_ = args_.transformer.AddAttention(layer, count_, activations_, cosines_[layer]);
      }
      if (of_layer_.ok() && !is_last && count_ > 0) {
        of_layer_ = args_.transformer.AddMlp(layer, count_, activations_);
      }
    }
    return HandRows(layer, begin);
  }

  // Computes the layer's queries, keys and values of the rank's chunk, stores the rows, and writes
  // them into the message for the layer's owner.
  Status Project(uint32_t layer) {
    LECTERN_RETURN_IF_ERROR(args_.transformer.Project(layer, count_, activations_));
    const size_t kv_cols = size_t{config_.num_kv_heads} * config_.head_dim;
    const size_t query_cols = size_t{config_.num_heads} * config_.head_dim;
    LECTERN_RETURN_IF_ERROR(args_.own.Append(args_.transformer.backend(), layer, own_begin_,
                                             {activations_.keys.data(), count_, kv_cols},
                                             {activations_.values.data(), count_, kv_cols}));
    rows_ = {};
    for (const bool is_values : {false, true}) {
      for (uint32_t head = 0; head < config_.num_kv_heads; ++head) {
        const TypedRows all = is_values ? args_.own.Values(layer, head, own_begin_ + count_)
                                        : args_.own.Keys(layer, head, own_begin_ + count_);
        const size_t row_bytes = all.row_bytes();
        rows_.insert(rows_.end(), all.data + own_begin_ * row_bytes,
                     all.data + (own_begin_ + count_) * row_bytes);
      }
    }
    queries_.clear();
    if (IsForCalibration(chunk_begin_ + count_)) {
      queries_.assign(activations_.projected.begin(),
                      activations_.projected.begin() + static_cast<ptrdiff_t>(count_ * query_cols));
    }
    return {};
  }

  // Whether queries of a chunk that ends at this token are among those that the spill keeps.
  bool IsForCalibration(uint64_t end) const {
    return end + args_.layers.shape().num_calibration > num_tokens_;
  }

  // Sends the chunk's queries around the ring; they come back with the attention to all ranks'
  // rows.
  Status GoAround(uint32_t layer, size_t skipped) {
    const size_t group = config_.query_group(), dim = config_.head_dim;
    const size_t first_row = skipped * group;
    std::vector<std::byte> bytes = RingRows::Make(
        {chunk_begin_ + skipped, (count_ - skipped) * group}, config_.num_kv_heads, dim);
    {
      const RingRows rows(bytes, dim);
      for (uint32_t head = 0; rows.header.num_rows > 0 && head < config_.num_kv_heads; ++head) {
        const Rows<float> queries = args_.transformer.Grouped(activations_.queries, head, count_)
                                        .Slice(first_row, count_ * group);
        std::copy_n(queries.data, queries.num_rows * dim, rows.Queries(head).data);
        BeginState(rows.State(head), args_.transformer.model().weights().layer(layer).sinks, head,
                   group, first_row);
      }
    }
    for (uint32_t place = 0; place < place_.size; ++place) {
      AttendToOwn(layer, RingRows(bytes, dim));
      LECTERN_RETURN_IF_ERROR(args_.ranks.PassOn(bytes));
    }
    const RingRows rows(bytes, dim);
    for (uint32_t head = 0; rows.header.num_rows > 0 && head < config_.num_kv_heads; ++head) {
      FinishState(rows.State(head),
                  args_.transformer.Grouped(activations_.attended, head, count_)
                      .Slice(first_row, count_ * group),
                  {});
    }
    return {};
  }

  // Adds the attention of visiting query rows to the rank's rows before them.
  void AttendToOwn(uint32_t layer, const RingRows& rows) {
    const size_t group = config_.query_group(), num_rows = rows.header.num_rows;
    if (num_rows == 0) return;
    visible_.resize(num_rows);
    first_.resize(num_rows);
    for (size_t r = 0; r < num_rows; ++r) {
      const uint64_t end = rows.header.first_position + r / group + 1;
      const uint64_t window = config_.is_windowed(layer) ? config_.window : end;
      visible_[r] = static_cast<uint32_t>(place_.Below(end));
      first_[r] = static_cast<uint32_t>(place_.Below(end - std::min<uint64_t>(end, window)));
    }
    const size_t blocks = (num_rows + kQueryRowsPerItem - 1) / kQueryRowsPerItem;
    args_.transformer.threads().ParallelFor(
        blocks * config_.num_kv_heads, [&](size_t item, size_t slot) {
          const size_t begin = item % blocks * kQueryRowsPerItem;
          AttendBlock(layer, static_cast<uint32_t>(item / blocks), rows, begin,
                      std::min(begin + kQueryRowsPerItem, num_rows), slot);
        });
  }

  void AttendBlock(uint32_t layer, uint32_t head, const RingRows& rows, size_t begin, size_t end,
                   size_t slot) {
    // Later rows see and leave out at least as many keys as earlier ones.
    const uint32_t first_key = first_[begin], last_key = visible_[end - 1];
    if (first_key == last_key) return;
    std::vector<uint32_t> visible, first;
    for (size_t r = begin; r < end; ++r) {
      visible.push_back(visible_[r] - first_key);
      first.push_back(first_[r] - first_key);
    }
    args_.transformer.backend().attend(
        {.queries = rows.Queries(head).Slice(begin, end),
         .keys = args_.own.Keys(layer, head, last_key).Slice(first_key, last_key),
         .values = args_.own.Values(layer, head, last_key).Slice(first_key, last_key),
         .scale = 1 / std::sqrt(static_cast<float>(config_.head_dim)),
         .softcap = config_.attention_softcap,
         .visible = visible,
         .first = first,
         .state = rows.State(head).Slice(begin, end),
         .logits = {},
         .scratch = {scratch_.data() + slot * scratch_size_, scratch_size_}});
  }

  // Gives the chunk's rows, and queries for calibration, to the rank that clusters the layer.
  Status HandRows(uint32_t layer, uint64_t begin) {
    MessageWriter writer;
    writer.Put(uint64_t{count_});
    writer.PutArray(std::span<const std::byte>(count_ > 0 ? rows_ : std::vector<std::byte>()));
    writer.PutArray(std::span<const float>(count_ > 0 ? queries_ : std::vector<float>()));
    std::vector<std::byte> all;
    std::vector<size_t> sizes;
    const uint32_t owner = layer % place_.size;
    LECTERN_RETURN_IF_ERROR(args_.ranks.Gather(owner, writer.bytes(), all, sizes));
    if (!args_.options.keeps_spills) args_.own.LetGo(layer);
    if (owner != place_.rank) return {};
    std::span<const std::byte> rest = all;
    for (const size_t size : sizes) {
      if (of_layer_.ok()) of_layer_ = TakeRows(layer, begin, MessageReader(rest.first(size)));
      rest = rest.subspan(size);
      begin += kChunkTokens;
    }
    if (!args_.options.keeps_spills) args_.layers.LetGo(layer);
    return {};
  }

  Status TakeRows(uint32_t layer, uint64_t begin, MessageReader message) {
    const auto count = message.Take<uint64_t>();
    const std::vector<std::byte> bytes = message.TakeArray<std::byte>();
    std::vector<float> queries = message.TakeArray<float>();
    if (count == 0) return {};
    const SpillShape& shape = args_.layers.shape();
    const size_t num_rows = count * shape.num_kv_heads;
    if (!message.is_whole() ||
        bytes.size() != 2 * num_rows * RowBytes(shape.dtype, shape.head_dim)) {
      return {Code::kInternal, "a rank's rows came incompletely"};
    }
    const TypedRows keys = {bytes.data(), shape.dtype, num_rows, shape.head_dim};
    const TypedRows values = {bytes.data() + bytes.size() / 2, shape.dtype, num_rows,
                              shape.head_dim};
    if (!queries.empty()) {
      args_.layers.KeepQueries(layer, begin, {queries.data(), count, shape.query_cols});
    }
    return args_.layers.AppendRounded(layer, begin, keys, values);
  }

  // Counts the round's cosines at the first rank, in the order of tokens, and its tokens on all.
  Status Advance(uint64_t begin, uint64_t end) {
    MessageWriter writer;
    for (const std::vector<double>& of_layer : cosines_) {
      writer.PutArray(std::span<const double>(of_layer));
    }
    std::vector<std::byte> all;
    std::vector<size_t> sizes(place_.size);
    LECTERN_RETURN_IF_ERROR(args_.ranks.Gather(0, writer.bytes(), all, sizes));
    sizes.resize(place_.size);
    std::span<const std::byte> rest = all;
    for (const size_t size : sizes) {
      MessageReader message(rest.first(size));
      for (uint32_t layer = 0; IsFirst() && layer < config_.num_layers; ++layer) {
        for (const double cosine : message.TakeArray<double>()) {
          args_.layers.AddCosine(layer, cosine);
        }
      }
      rest = rest.subspan(size);
      begin = std::min<uint64_t>(begin + kChunkTokens, end);
      args_.layers.Advance(begin);
    }
    args_.own.Advance(place_.Below(end));
    return {};
  }

  const RankedPrefillArgs& args_;
  const ModelConfig& config_;
  RankPeers peers_;
  const RankTokens place_;
  const uint64_t num_tokens_;
  Activations activations_;
  const size_t scratch_size_;
  std::vector<float> scratch_;  // [threads][attention scratch]
  // The rank's chunk: its first token and number of tokens, and its first row in the own spill.
  uint64_t chunk_begin_ = 0, count_ = 0, own_begin_ = 0;
  std::vector<std::vector<double>> cosines_;  // [layers][counted tokens of the chunk]
  Status of_layer_;                           // the rank's error since the ranks met last
  std::vector<std::byte> rows_;            // K, then V of the chunk, [kv heads][tokens, dim] each
  std::vector<float> queries_;             // of the chunk, if they are kept
  std::vector<uint32_t> visible_, first_;  // of visiting rows
};

}  // namespace

uint64_t RankTokens::Below(uint64_t position) const {
  const uint64_t chunks = position / kChunkTokens;
  uint64_t tokens = (chunks + size - 1 - rank) / size * kChunkTokens;
  if (chunks % size == rank) tokens += position % kChunkTokens;
  return tokens;
}

Status PrefillWithRanks(const RankedPrefillArgs& args) {
  std::optional<RankedPrefill> prefill;
  Status made;
  try {
    prefill.emplace(args);  // takes nearly all memory that it needs
  } catch (const std::bad_alloc&) {
    made = Status(Code::kOutOfMemory, "not enough memory to index the document; use fewer threads");
  }
  LECTERN_RETURN_IF_ERROR(RankPeers(args.ranks).Agree(std::move(made)));
  Status run;
  try {
    run = prefill->Run();
  } catch (const std::bad_alloc&) {
    args.ranks.Abort();  // somewhere between two meetings
  }
  return run;
}

}  // namespace lectern
