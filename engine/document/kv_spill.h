// Keys and values in token order while a document is being prefilled, with checkpoints.
//
// One file a layer, spill-NNN: per kv head the K rows of all tokens, then their V rows. The rows
// live in the page cache, not in anonymous memory. `checkpoint` says how many tokens are safe and
// holds the CRC-32C of every region so far; it is replaced by rename after the spills are synced.
#ifndef LECTERN_ENGINE_DOCUMENT_KV_SPILL_H_
#define LECTERN_ENGINE_DOCUMENT_KV_SPILL_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/model/weights/config.h"
#include "kernels/backend.h"
#include "store/catalog.h"
#include "store/env.h"

namespace lectern {

// The prefill goes on by chunks of so many tokens: boundaries are multiples, whatever happened
// before. Of the last layer only the tokens of a chunk from kUnsampledTokens on are counted in
// sums.
inline constexpr size_t kChunkTokens = 512;
inline constexpr size_t kUnsampledTokens = 480;

struct SpillShape {
  DocumentId document{};
  uint64_t generation = 0;
  uint64_t num_tokens = 0;  // L
  uint32_t num_layers = 0, num_kv_heads = 0, head_dim = 0;
  uint32_t query_cols = 0;  // heads * head_dim
  Dtype dtype = Dtype::kF16;
  uint32_t num_calibration = 0;  // last tokens whose queries are kept
  bool squared_sums = false;     // also sums of squared attention, of every key
  float softcap = 0;             // of the model's logits: for statistics of them; not kept

  uint64_t layer_bytes() const {
    return uint64_t{2} * num_kv_heads * num_tokens * RowBytes(dtype, head_dim);
  }
};

// One thread at a time, except that Keys and Values may be read from many.
class KvSpill {
 public:
  // Takes up a checkpoint of the same shape whose bytes verify; otherwise starts anew, removing
  // what is there. `temp_dir` is where checkpoints are written before their rename. kNoSpace before
  // anything is computed, kIoError, kReadOnly.
  static Result<std::unique_ptr<KvSpill>> Open(Env& env, const std::string& directory,
                                               const std::string& temp_dir,
                                               const SpillShape& shape);

  uint64_t tokens_done() const { return tokens_done_; }
  const SpillShape& shape() const { return shape_; }

  // Rounds keys and values [tokens, kv heads * head_dim] of tokens [begin, …) into the layer.
  Status Append(const Backend& backend, uint32_t layer, uint64_t begin, Rows<const float> keys,
                Rows<const float> values);
  // The same, of rows that are rounded already: [kv heads][tokens, head_dim].
  Status AppendRounded(uint32_t layer, uint64_t begin, const TypedRows& keys,
                       const TypedRows& values);
  // Rows of all tokens [0, …) as they are in another spill or shard of the same dtype.
  Status AppendStored(uint32_t layer, uint32_t kv_head, bool is_values,
                      std::span<const std::byte> rows);
  // Keeps those of the queries [tokens, query_cols] that calibration needs.
  void KeepQueries(uint32_t layer, uint64_t begin, Rows<const float> queries);
  // One token's cosine between the layer's residual stream before and after attention.
  void AddCosine(uint32_t layer, double cosine) {
    sums_.cosines[layer].sum += cosine;
    ++sums_.cosines[layer].count;
  }
  // [layers], over the tokens that were counted; 0 where none was.
  std::vector<double> MeanCosines() const;
  // Squared attention that every key of a kv head has drawn so far, [L]; empty where the shape has
  // none. They are part of what a checkpoint holds: 4 bytes per layer, kv head and token.
  std::span<float> SquaredSums(uint32_t layer, uint32_t kv_head) {
    return SumsOf(std::span(sums_.squared), layer, kv_head);
  }
  std::span<const float> SquaredSums(uint32_t layer, uint32_t kv_head) const {
    return SumsOf(std::span(sums_.squared), layer, kv_head);
  }
  // [whole chunks so far][layers]: the sums of cosines after each.
  std::span<const double> CosineSums() const {
    return std::span<const double>(chunk_sums_)
        .first(tokens_done_ / kChunkTokens * shape_.num_layers);
  }
  // Sums after the chunks that Advance will say are done; empty: no tokens are counted.
  void TakeSums(std::span<const double> sums);
  // A chunk that is abandoned half way leaves checksums and sums as they were before it.
  void BeginChunk() { sums_before_chunk_ = sums_; }
  void AbandonChunk() { sums_ = sums_before_chunk_; }
  // How many rows of each kv head will be stored, [layers][kv heads]; empty: not decided. Durable
  // with the next checkpoint, because it takes the rows of all layers to decide.
  void DecideKeptRows(std::vector<uint64_t> kept) { kept_rows_ = std::move(kept); }
  std::span<const uint64_t> kept_rows() const { return kept_rows_; }
  // All layers have tokens [0, tokens_done). Not yet durable.
  void Advance(uint64_t tokens_done);
  // As after Open where nothing was to be taken up.
  Status StartOver() { return Create(); }
  // Makes everything so far survive a crash.
  Status Checkpoint();

  // Rows of tokens [0, num_tokens) as rounded.
  TypedRows Keys(uint32_t layer, uint32_t kv_head, uint64_t num_tokens) const;
  TypedRows Values(uint32_t layer, uint32_t kv_head, uint64_t num_tokens) const;
  // [calibration tokens, query_cols] of the layer.
  Rows<const float> Queries(uint32_t layer) const;

  // The layer's rows leave our memory, not the page cache, until they are read again.
  void LetGo(uint32_t layer) { layers_[layer].map->DontNeed(0, layers_[layer].map->size()); }
  // The layer is in its shard: deletes the spill.
  Status RemoveLayer(uint32_t layer);
  // Everything is committed: deletes the checkpoint.
  Status RemoveCheckpoint();

 private:
  KvSpill(Env& env, std::string directory, std::string temp_dir, const SpillShape& shape)
      : env_(env),
        directory_(std::move(directory)),
        temp_dir_(std::move(temp_dir)),
        shape_(shape) {}
  Status Create();
  Result<bool> Resume();
  bool ReadCheckpoint(std::span<const std::byte> bytes);
  std::string LayerPath(uint32_t layer) const;
  std::string CheckpointPath() const { return directory_ + "/checkpoint"; }
  uint64_t RegionOffset(uint32_t kv_head, bool values) const;
  // The next bytes of a region, from `offset` in it on.
  Status Write(uint32_t layer, uint32_t kv_head, bool values, uint64_t offset,
               std::span<const std::byte> bytes);
  uint32_t& Crc(uint32_t layer, uint32_t kv_head, bool values) {
    return sums_.crcs[(size_t{layer} * shape_.num_kv_heads + kv_head) * 2 + values];
  }
  // Of [layers][kv heads][L].
  template <typename Span>
  Span SumsOf(Span all, uint32_t layer, uint32_t kv_head) const {
    if (all.empty()) return all;
    return all.subspan((size_t{layer} * shape_.num_kv_heads + kv_head) * shape_.num_tokens,
                       shape_.num_tokens);
  }

  struct Layer {
    std::unique_ptr<WritableFile> file;
    std::unique_ptr<MappedFile> map;
  };
  Env& env_;
  const std::string directory_, temp_dir_;
  const SpillShape shape_;
  uint64_t tokens_done_ = 0;
  std::vector<Layer> layers_;
  // Of the rows so far.
  struct CosineSum {
    double sum = 0;
    uint64_t count = 0;
  };
  struct Sums {
    std::vector<uint32_t> crcs;      // [layers][kv heads][K, V]
    std::vector<CosineSum> cosines;  // [layers]
    std::vector<float> squared;      // [layers][kv heads][L], or empty
  } sums_, sums_before_chunk_;
  std::vector<uint64_t> kept_rows_;
  std::vector<double> chunk_sums_;  // [chunks][layers], of cosines; as far as chunks are done
  std::vector<float> queries_;      // [layers][calibration tokens][query_cols]
  std::vector<std::byte> rounded_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_KV_SPILL_H_
