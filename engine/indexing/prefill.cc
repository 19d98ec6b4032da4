#include "engine/indexing/prefill.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "engine/attention/document_attention.h"
#include "engine/attention/sinks.h"
#include "engine/gpu/prefill.h"
#include "index/full_attention.h"

namespace lectern {
namespace {

// Keys that one thread sums squares of at a time, by hand: the size changes the speed alone.
constexpr size_t kKeysPerItem = 512;
// In a sparse prefill one lookup chooses the rows for 128 tokens, by the queries of 16 of them.
// Blocks of 64 have smaller errors, but take as long as an exact prefill
// (tools/evaluate/RESULTS.md, "Sparse prefill").
constexpr size_t kBlockTokens = 128, kChoosingOfBlock = 16;

// [tokens * group]: the weight of each query row in a block's lookup. Rows of the choosing tokens
// share a weight of 1, evenly spread over the block; all others have 0.
std::vector<float> BlockWeights(size_t num_tokens, size_t group) {
  const size_t choosing = std::min(num_tokens, kChoosingOfBlock);
  std::vector<float> weights(num_tokens * group, 0.0f);
  for (size_t i = 0; i < choosing; ++i) {
    const size_t token = (2 * i + 1) * num_tokens / (2 * choosing);
    std::fill_n(weights.begin() + static_cast<ptrdiff_t>(token * group), group,
                1 / static_cast<float>(choosing * group));
  }
  return weights;
}

// One run of Prefill, with the buffers that its chunks share.
class DocumentPrefill {
 public:
  // Borrows all and allocates the buffers of a chunk.
  DocumentPrefill(const Transformer& transformer, std::span<const int32_t> tokens, KvSpill& spill,
                  const PrefillOptions& options)
      : transformer_(transformer),
        config_(transformer.model().config()),
        tokens_(tokens),
        spill_(spill),
        options_(options),
        activations_(config_, std::min(kChunkTokens, tokens.size()),
                     transformer.threads().num_threads()) {
    const size_t threads = transformer.threads().num_threads();
    scratch_size_ = AttendScratch(kQueryRowsPerItem, config_.head_dim);
    scratch_.resize(threads * scratch_size_);
    visible_.resize(activations_.max_tokens * config_.query_group());
    window_.visible.resize(config_.window > 0 ? visible_.size() : 0);
    window_.first.resize(window_.visible.size());
    cosines_.resize(activations_.max_tokens);
    lse_.resize(size_t{activations_.max_tokens} * config_.num_heads);
    max_.resize(lse_.size());
    sum_.resize(lse_.size());
    if (options.sparse) {
      clusters_.emplace(*options.sparse, config_, transformer.backend(), transformer.threads(),
                        spill);
    }
    buffers_.resize(threads);
  }

  // Runs the chunks that the spill does not have yet, with checkpoints, as Prefill describes.
  Status Run() {
    LECTERN_RETURN_IF_ERROR(FindDevice());
    auto last_checkpoint = std::chrono::steady_clock::now();
    for (uint64_t begin = spill_.tokens_done(); begin < tokens_.size();) {
      const uint64_t end = std::min<uint64_t>(begin + kChunkTokens, tokens_.size());
      // A chunk goes through all layers before the next one begins: the next one attends to its
      // rows.
      const Status chunk = Chunk(begin, end);
      if (chunk.code() == Code::kCancelled) {
        // Finished chunks stay. The chunk that was cut runs again, from the same bytes.
        spill_.AbandonChunk();
        LECTERN_RETURN_IF_ERROR(spill_.Checkpoint());
        return chunk;
      }
      LECTERN_RETURN_IF_ERROR(chunk);
      spill_.Advance(end);
      if (options_.on_chunk) options_.on_chunk(end);
      const auto now = std::chrono::steady_clock::now();
      const std::chrono::duration<double> since = now - last_checkpoint;
      if (end == tokens_.size() || since.count() >= options_.checkpoint_seconds) {
        LECTERN_RETURN_IF_ERROR(spill_.Checkpoint());
        last_checkpoint = now;
      }
      begin = end;
    }
    return {};
  }

 private:
  // Prepares attention on the device; leaves device_ empty where its kernels do not take the
  // spill's rows, or nothing is left to do.
  Status FindDevice() {
    const SpillShape& shape = spill_.shape();
    const LinearLayers* const device = transformer_.device();
    if (device == nullptr || !HasDeviceAttention(*device->device(), shape.dtype, shape.head_dim)) {
      return {};
    }
    if (spill_.tokens_done() == tokens_.size()) return {};
    LECTERN_ASSIGN(device_, DevicePrefill::Create(
                                transformer_, spill_, activations_,
                                PlanDevicePrefill(config_, shape.dtype, tokens_.size(),
                                                  device->device()->info().num_multiprocessors,
                                                  options_.device_block_bytes)));
    return {};
  }

  bool IsCancelled() const { return options_.is_cancelled && options_.is_cancelled(); }

  // Runs tokens [begin, end) through all layers. kCancelled leaves the spill with half a chunk,
  // which Run takes back.
  Status Chunk(uint64_t begin, uint64_t end) {
    const size_t num_tokens = end - begin;
    num_tokens_ = num_tokens;
    spill_.BeginChunk();
    // Clusters move before anything is computed: all layers of a chunk must see the same boundary.
    if (clusters_) {
      const Status moved = clusters_->MoveTo(begin, [this] { return IsCancelled(); });
      if (moved.code() == Code::kCancelled) return Cancelled();
      LECTERN_RETURN_IF_ERROR(moved);
      if (options_.on_clusters && clusters_->end() != first_key_) {
        options_.on_clusters(clusters_->end());
      }
      first_key_ = clusters_->end();
    }
    transformer_.Embed(tokens_.subspan(begin, num_tokens), begin, activations_);
    const size_t group = config_.query_group();
    // Causal: a token sees the keys up to its own. Keys before first_key_ are in clusters and not
    // counted.
    for (size_t row = 0; row < num_tokens * group; ++row) {
      visible_[row] = static_cast<uint32_t>(begin - first_key_ + row / group + 1);
    }
    FindWindows(begin);
    for (uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      if (IsCancelled()) return Cancelled();
      activations_.keeps_queries = device_ && !NeedsQueries(layer, end);
      activations_.keeps_rows = device_ != nullptr;
      LECTERN_RETURN_IF_ERROR(transformer_.Project(layer, num_tokens, activations_));
      if (!device_) {  // the device's attention stores them itself
        const size_t kv_cols = size_t{config_.num_kv_heads} * config_.head_dim;
        LECTERN_RETURN_IF_ERROR(spill_.Append(transformer_.backend(), layer, begin,
                                              {activations_.keys.data(), num_tokens, kv_cols},
                                              {activations_.values.data(), num_tokens, kv_cols}));
      }
      if (!activations_.keeps_queries) {
        const size_t query_cols = size_t{config_.num_heads} * config_.head_dim;
        spill_.KeepQueries(layer, begin, {activations_.projected.data(), num_tokens, query_cols});
      }
      const bool is_last = layer + 1 == config_.num_layers;
      const bool is_counted = spill_.shape().num_calibration > 0;
      // The first of the chunk's tokens that attends in this layer.
      const size_t first = is_last ? std::min(num_tokens, kUnsampledTokens) : 0;
      const bool is_squared = spill_.shape().squared_sums && !config_.is_windowed(layer);
      if (is_last && !is_squared && (!is_counted || first == num_tokens)) {
        return device_ ? device_->Store(layer, begin, end) : Status();
      }
      LECTERN_RETURN_IF_ERROR(Attend(layer, begin, end, is_squared ? 0 : first));
      if (is_squared && !SumSquares(layer, begin, end)) return Cancelled();
      const auto cosines = std::span(cosines_).first(is_counted ? num_tokens - first : 0);
      LECTERN_RETURN_IF_ERROR(transformer_.AddAttention(layer, num_tokens, activations_, cosines));
      // In their order, so that neither threads nor chunks matter.
      for (const double cosine : cosines) spill_.AddCosine(layer, cosine);
      if (!is_last) {
        LECTERN_RETURN_IF_ERROR(transformer_.AddMlp(layer, num_tokens, activations_));
      }
      if (!options_.keeps_spills) spill_.LetGo(layer);
      if (!options_.keeps_spills && ReadsClusters(layer)) clusters_->LetGo(layer);
    }
    return {};
  }

  // Finds which rows each row of the chunk sees in windowed layers: token t sees t - window + 1 to
  // t.
  void FindWindows(uint64_t begin) {
    const auto first_of = [&](uint64_t token) {
      return token + 1 - std::min<uint64_t>(token + 1, config_.window);
    };
    window_.first_key = first_of(begin);
    for (size_t row = 0; row < window_.visible.size(); ++row) {
      const uint64_t token = begin + row / config_.query_group();
      window_.visible[row] = static_cast<uint32_t>(token + 1 - window_.first_key);
      window_.first[row] = static_cast<uint32_t>(first_of(token) - window_.first_key);
    }
  }

  // Whether the layer's rows further back are read through clusters. A windowed layer reads its
  // window only, all of it exactly.
  bool ReadsClusters(uint32_t layer) const { return first_key_ > 0 && !config_.is_windowed(layer); }

  // Whether the host needs the queries of a chunk that ends at token `end`: for a lookup, for sums
  // of squares, or because they are among the last ones, which the spill keeps. Else they stay on
  // the device.
  bool NeedsQueries(uint32_t layer, uint64_t end) const {
    const SpillShape& shape = spill_.shape();
    return ReadsClusters(layer) || (shape.squared_sums && !config_.is_windowed(layer)) ||
           end + shape.num_calibration > shape.num_tokens;
  }

  // Computes attention for the chunk's tokens from `first_token` on: exact attention first, then
  // clusters are added to the same running states (online softmax), which are divided at the end.
  Status Attend(uint32_t layer, uint64_t begin, uint64_t end, size_t first_token) {
    const size_t rows = (end - begin) * config_.query_group();
    const size_t skipped = first_token * config_.query_group();
    const Status attended =
        device_ ? AttendOnDevice(layer, begin, end, first_token) : AttendHere(layer, rows, skipped);
    if (attended.code() == Code::kCancelled) return Cancelled();
    LECTERN_RETURN_IF_ERROR(attended);
    for (size_t token = first_token; ReadsClusters(layer) && token < end - begin;
         token += kBlockTokens) {
      const Status added =
          AddClusters(layer, token, std::min<size_t>(token + kBlockTokens, end - begin));
      if (added.code() == Code::kCancelled) return Cancelled();
      LECTERN_RETURN_IF_ERROR(added);
    }
    if (activations_.is_attended) return {};
    for (uint32_t head = 0; head < config_.num_kv_heads; ++head) {
      const AttentionState state = State(head, skipped, rows);
      FinishState(state, state.out, std::span(lse_).subspan(head * rows + skipped, rows - skipped));
    }
    return {};
  }

  // Lets the device attend to keys that are not in clusters. The output comes back to the host if
  // attention to clusters is added to it; for other layers only the log-sum-exps come that sums of
  // squares need.
  Status AttendOnDevice(uint32_t layer, uint64_t begin, uint64_t end, size_t first_token) {
    const bool is_windowed = config_.is_windowed(layer), adds_clusters = ReadsClusters(layer);
    const std::function<bool()> is_cancelled = [this] { return IsCancelled(); };
    LECTERN_RETURN_IF_ERROR(
        device_->Attend({.layer = layer,
                         .begin = begin,
                         .end = end,
                         .first_token = adds_clusters ? 0 : first_token,
                         .first_key = is_windowed ? window_.first_key : first_key_,
                         .is_cancelled = is_cancelled}));
    const size_t num_states = (end - begin) * config_.num_heads;
    if (adds_clusters) {
      return device_->ReadOutput(end - begin, std::span(max_).first(num_states),
                                 std::span(sum_).first(num_states));
    }
    if (!spill_.shape().squared_sums || is_windowed) return {};
    return device_->ReadLse(std::span(lse_).first(num_states));
  }

  // The same on the host, for query rows [skipped, rows). An item of work is a block of query rows
  // of one kv head, so that keys which a thread loads serve many rows.
  Status AttendHere(uint32_t layer, size_t rows, size_t skipped) {
    const size_t blocks = (rows - skipped + kQueryRowsPerItem - 1) / kQueryRowsPerItem;
    std::atomic<bool> cancelled = false;
    transformer_.threads().ParallelFor(
        blocks * config_.num_kv_heads, [&](size_t item, size_t slot) {
          if (cancelled.load(std::memory_order_relaxed)) return;
          if (IsCancelled()) return cancelled.store(true, std::memory_order_relaxed);
          const auto head = static_cast<uint32_t>(item / blocks);
          const size_t first = skipped + item % blocks * kQueryRowsPerItem;
          AttendBlock(layer, head, first, std::min(first + kQueryRowsPerItem, rows), slot);
        });
    return cancelled ? Status(Code::kCancelled, "cancelled") : Status();
  }

  // Adds the squared attention that the chunk's tokens pay to all keys to the spill's sums. An item
  // of work is a block of keys of one kv head, and adds the query rows up in their order, so that
  // the sums do not depend on the number of threads. False: cancelled.
  bool SumSquares(uint32_t layer, uint64_t begin, uint64_t end) {
    const size_t blocks = (end + kKeysPerItem - 1) / kKeysPerItem;
    std::atomic<bool> cancelled = false;
    transformer_.threads().ParallelFor(
        blocks * config_.num_kv_heads, [&](size_t item, size_t slot) {
          if (cancelled.load(std::memory_order_relaxed)) return;
          if (IsCancelled()) return cancelled.store(true, std::memory_order_relaxed);
          const size_t first_key = item % blocks * kKeysPerItem;
          SumSquaresOfKeys(layer, static_cast<uint32_t>(item / blocks), begin, end - begin,
                           first_key, std::min<size_t>(first_key + kKeysPerItem, end), slot);
        });
    return !cancelled;
  }

  // Adds a chunk's squared attention to keys [first_key, last_key), a block of query rows at a
  // time, so that buffers stay small.
  void SumSquaresOfKeys(uint32_t layer, uint32_t head, uint64_t begin, size_t num_tokens,
                        size_t first_key, size_t last_key, size_t slot) {
    const size_t group = config_.query_group(), rows = num_tokens * group;
    const size_t block = kQueryRowsPerItem / group * group;
    const Rows<float> queries = transformer_.Grouped(activations_.queries, head, num_tokens);
    const std::span<const float> lse = std::span<const float>(lse_).subspan(head * rows, rows);
    for (size_t row = 0; row < rows; row += block) {
      const size_t last = std::min(row + block, rows);
      AddSquaredAttention({.backend = transformer_.backend(),
                           .queries = queries.Slice(row, last),
                           .lse = lse.subspan(row, last - row),
                           .group = group,
                           .first_token = begin + row / group,
                           .keys = spill_.Keys(layer, head, last_key).Slice(first_key, last_key),
                           .first_key = first_key,
                           .scale = 1 / std::sqrt(static_cast<float>(config_.head_dim)),
                           .softcap = config_.attention_softcap},
                          buffers_[slot],
                          spill_.SquaredSums(layer, head).subspan(first_key, last_key - first_key));
    }
  }

  // The running attention state (output, maximum, sum) of query rows [first, last) of one kv head,
  // as views of the chunk's buffers.
  AttentionState State(uint32_t head, size_t first, size_t last) {
    const Rows<float> output = transformer_.Grouped(activations_.attended, head, num_tokens_);
    const size_t rows = output.num_rows;
    return {output.Slice(first, last), std::span(max_).subspan(head * rows + first, last - first),
            std::span(sum_).subspan(head * rows + first, last - first)};
  }

  // Attends from query rows [first, last) of one kv head to the keys that are not in clusters.
  // `slot`: the thread's scratch memory.
  void AttendBlock(uint32_t layer, uint32_t head, size_t first, size_t last, size_t slot) {
    const Rows<float> queries = transformer_.Grouped(activations_.queries, head, num_tokens_);
    const AttentionState state = State(head, first, last);
    const bool is_windowed = config_.is_windowed(layer);
    const uint64_t first_key = is_windowed ? window_.first_key : first_key_;
    const std::span<const uint32_t> visible = is_windowed ? window_.visible : visible_;
    const uint64_t seen = first_key + visible[last - 1];  // no row of the block sees more
    // A state that has seen no key yet: buffers hold the layer before.
    BeginState(state, transformer_.model().weights().layer(layer).sinks, head,
               config_.query_group(), first);
    transformer_.backend().attend(
        {.queries = queries.Slice(first, last),
         .keys = spill_.Keys(layer, head, seen).Slice(first_key, seen),
         .values = spill_.Values(layer, head, seen).Slice(first_key, seen),
         .scale = 1 / std::sqrt(static_cast<float>(config_.head_dim)),
         .softcap = config_.attention_softcap,
         .visible = visible.subspan(first, last - first),
         .first = is_windowed
                      ? std::span<const uint32_t>(window_.first).subspan(first, last - first)
                      : std::span<const uint32_t>(),
         .state = state,
         .logits = {},
         .scratch = {scratch_.data() + slot * scratch_size_, scratch_size_}});
  }

  // Adds attention to the clustered keys to the states of tokens [first, last) of the chunk, a
  // block for which one lookup chooses.
  Status AddClusters(uint32_t layer, size_t first, size_t last) {
    const size_t group = config_.query_group();
    const std::vector<float> weights = BlockWeights(last - first, group);
    std::vector<Rows<const float>> queries;
    std::vector<AttentionState> states;
    for (uint32_t head = 0; head < config_.num_kv_heads; ++head) {
      queries.push_back(transformer_.Grouped(activations_.queries, head, num_tokens_)
                            .Slice(first * group, last * group));
      states.push_back(State(head, first * group, last * group));
    }
    return AttendClusters({.query = {.backend = transformer_.backend(),
                                     .threads = transformer_.threads(),
                                     .rows = {.queries = queries,
                                              .num_tokens = last - first,
                                              .softcap = config_.attention_softcap,
                                              .states = states},
                                     .row_weights = weights,
                                     .is_cancelled = [this] { return IsCancelled(); },
                                     .workspace = workspace_},
                           .heads = clusters_->Heads(layer),
                           .kv_budget = options_.sparse->budget});
  }

  // The error of a cancelled run, which says where the next one goes on.
  Status Cancelled() const {
    return {Code::kCancelled, "indexing was cancelled; the same command goes on from token " +
                                  std::to_string(spill_.tokens_done())};
  }

  const Transformer& transformer_;
  const ModelConfig& config_;
  const std::span<const int32_t> tokens_;
  KvSpill& spill_;
  const PrefillOptions& options_;
  Activations activations_;
  std::unique_ptr<DevicePrefill> device_;  // nullptr: attention is here
  std::vector<uint32_t> visible_;          // [chunk tokens * group], from first_key_ on
  // The same for windowed layers, from `first_key` on, and where each row's window begins.
  struct Window {
    std::vector<uint32_t> visible, first;
    uint64_t first_key = 0;
  } window_;
  std::vector<double> cosines_;                // [chunk tokens]
  std::vector<float> lse_;                     // [kv heads][chunk tokens * group], of the layer
  std::vector<FullAttentionBuffers> buffers_;  // [threads]
  std::vector<float> max_, sum_;               // of attention states, likewise
  std::vector<float> scratch_;                 // [threads][attention scratch]
  size_t scratch_size_;
  size_t num_tokens_ = 0;  // of the chunk
  // The clusters of a sparse prefill; keys before first_key_ are in them.
  std::optional<PrefillClusters> clusters_;
  uint64_t first_key_ = 0;
  AttentionWorkspace workspace_;
};

}  // namespace

Status Prefill(const Transformer& transformer, std::span<const int32_t> tokens, KvSpill& spill,
               const PrefillOptions& options) {
  return DocumentPrefill(transformer, tokens, spill, options).Run();
}

}  // namespace lectern
