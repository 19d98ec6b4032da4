// Stores keys and values in token order while a document is being prefilled, with checkpoints, so
// that an interrupted run can go on.
//
// Each layer has a file spill-NNN with, per kv head, the K rows of all tokens, then their V rows.
// The rows live in the page cache, not in anonymous memory. The file `checkpoint` says how many
// tokens are safe and holds the CRC-32C of every region so far; it is replaced by rename after the
// spills are synced.
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

// The prefill proceeds in chunks of so many tokens. Chunk boundaries are multiples of it, whatever
// happened before, so that an interrupted run gives the same bits. In the last layer only tokens
// from kUnsampledTokens on within a chunk count in the sums of cosines. Both were chosen without
// measurement.
inline constexpr size_t kChunkTokens = 512;
inline constexpr size_t kUnsampledTokens = 480;

// Identity and sizes of the document that is being prefilled.
struct SpillShape {
  DocumentId document{};
  uint64_t generation = 0;
  uint64_t num_tokens = 0;  // L
  uint32_t num_layers = 0, num_kv_heads = 0, head_dim = 0;
  uint32_t query_cols = 0;  // heads * head_dim
  Dtype dtype = Dtype::kF16;
  uint32_t num_calibration = 0;  // last tokens whose queries are kept, at most num_tokens
  bool squared_sums = false;     // whether squared attention of every key is summed too
  float softcap = 0;             // the model's bound of logits, for statistics; not stored
  // Where several ranks index together: of num_ranks spills this is one, with every num_ranks'th
  // layer from `rank` on; the others have no files here.
  uint32_t rank = 0, num_ranks = 1;
  // Tells checkpoints of one document apart that are written at the same time; not stored.
  std::string checkpoint_name = {};

  bool has_layer(uint32_t layer) const { return layer % num_ranks == rank; }

  uint64_t layer_bytes() const {
    return uint64_t{2} * num_kv_heads * num_tokens * RowBytes(dtype, head_dim);
  }
};

// One thread at a time, except that Keys and Values may be read from many. Writing calls return the
// codes of WritableFile; after an error the checksums do not fit the files any more, so the chunk
// must be abandoned (AbandonChunk) or the spill dropped. Views are valid until StartOver,
// RemoveLayer of their layer, or the end of the spill. Arguments are not checked.
class KvSpill {
 public:
  // Resumes from a checkpoint of the same shape whose bytes verify; otherwise removes the whole
  // tree `directory`, makes it anew, with parents that are missing, and starts with files at full
  // size. So kNoSpace comes here, before anything is computed, where the file system can reserve
  // space; elsewhere it comes from Append. After a resumption a layer without a spill file is
  // already in its shard: its rows must not be asked for, and the caller checks the shard. `env`
  // must outlive the spill. `temp_dir` is first used by Checkpoint, which writes there before it
  // renames; it must exist by then, on the same file system. kIoError, kReadOnly, other codes of
  // Env.
  static Result<std::unique_ptr<KvSpill>> Open(Env& env, const std::string& directory,
                                               const std::string& temp_dir,
                                               const SpillShape& shape);

  uint64_t tokens_done() const { return tokens_done_; }
  const SpillShape& shape() const { return shape_; }

  // Rounds keys and values [tokens, kv heads * head_dim] of tokens from `begin` on and appends them
  // to the layer. `begin` is where the layer's rows end so far, since checksums run over the rows
  // in their order.
  Status Append(const Backend& backend, uint32_t layer, uint64_t begin, Rows<const float> keys,
                Rows<const float> values);
  // The same for rows that are rounded already: [kv heads][tokens, head_dim].
  Status AppendRounded(uint32_t layer, uint64_t begin, const TypedRows& keys,
                       const TypedRows& values);
  // Writes the bytes of rows from token 0 on, as they are in another spill or shard of the same
  // dtype; nothing may have been appended to this head before. `is_values`: V rows, else K rows.
  Status AppendStored(uint32_t layer, uint32_t kv_head, bool is_values,
                      std::span<const std::byte> rows);
  // Keeps, in memory, the queries [tokens, query_cols] of the last num_calibration tokens of the
  // document, which calibration will need; passes over others. `begin`: the first row's token.
  void KeepQueries(uint32_t layer, uint64_t begin, Rows<const float> queries);
  // Counts one token's cosine between the layer's residual stream before and after attention.
  void AddCosine(uint32_t layer, double cosine) {
    sums_.cosines[layer].sum += cosine;
    ++sums_.cosines[layer].count;
  }
  // [layers]: means over the tokens that were counted; 0 where none was.
  std::vector<double> MeanCosines() const;
  // Sums of the squared attention to every key of a kv head so far, [L]; empty if the shape has no
  // such sums. A token adds nothing to its nearest keys (kExcludedTokens, index/full_attention.h),
  // and windowed layers stay 0. A checkpoint holds the sums too: 4 bytes per layer, kv head and
  // token. The span is valid until the spill ends.
  std::span<float> SquaredSums(uint32_t layer, uint32_t kv_head) {
    return SumsOf(std::span(sums_.squared), layer, kv_head);
  }
  // The same, to read only.
  std::span<const float> SquaredSums(uint32_t layer, uint32_t kv_head) const {
    return SumsOf(std::span(sums_.squared), layer, kv_head);
  }
  // [whole chunks so far][layers]: the sums of cosines from the first token to the end of each
  // chunk.
  std::span<const double> CosineSums() const {
    return std::span<const double>(chunk_sums_)
        .first(tokens_done_ / kChunkTokens * shape_.num_layers);
  }
  // Takes over CosineSums of chunks that are done elsewhere, [chunks][layers], in place of all sums
  // of cosines so far; Advance must follow. Empty: nothing changes.
  void TakeSums(std::span<const double> sums);
  // Remembers checksums and sums, for AbandonChunk. Call it before the first row of each chunk. It
  // copies all sums: with squared_sums, 4 more bytes of memory per layer, kv head and token.
  void BeginChunk() { sums_before_chunk_ = sums_; }
  // Restores what BeginChunk remembered; only until Advance or StartOver. The same tokens are then
  // appended again, over the rows that were written.
  void AbandonChunk() { sums_ = sums_before_chunk_; }
  // Stores how many rows of each kv head will be kept, [layers][kv heads]; empty: not decided.
  // Durable with the next checkpoint; it is stored because deciding takes the rows of all layers.
  void DecideKeptRows(std::vector<uint64_t> kept) { kept_rows_ = std::move(kept); }
  std::span<const uint64_t> kept_rows() const { return kept_rows_; }
  // All layers now have tokens [0, tokens_done). Not yet durable. At the end of a chunk the sums of
  // cosines are added to CosineSums.
  void Advance(uint64_t tokens_done);
  // Discards everything, as Open does when there is nothing to resume, with its codes.
  Status StartOver() { return Create(); }
  // Makes everything so far survive a crash: syncs the spills, then replaces `checkpoint` by
  // rename. Codes of Env and WritableFile; after an error the older checkpoint holds.
  Status Checkpoint();

  // Rows of tokens [0, num_tokens), as rounded: [num_tokens, head_dim], in the page cache. Rows can
  // be read once they are appended, before Advance too; the layer must still have its spill. Many
  // threads may read at once, but none while one writes.
  TypedRows Keys(uint32_t layer, uint32_t kv_head, uint64_t num_tokens) const;
  TypedRows Values(uint32_t layer, uint32_t kv_head, uint64_t num_tokens) const;
  // The kept queries of the layer: [calibration tokens, query_cols].
  Rows<const float> Queries(uint32_t layer) const;

  // Drops the layer's rows from this process's memory, not from the page cache, until they are read
  // again. The layer must still have its spill.
  void LetGo(uint32_t layer) { layers_[layer].map->DontNeed(0, layers_[layer].map->size()); }
  // Deletes the layer's spill, once the layer is in its shard; the layer has no rows afterwards. Ok
  // if the file is not there; else codes of Env.
  Status RemoveLayer(uint32_t layer);
  // Deletes the checkpoint, once everything is committed. Ok if it is not there.
  Status RemoveCheckpoint();

 private:
  KvSpill(Env& env, std::string directory, std::string temp_dir, const SpillShape& shape)
      : env_(env),
        directory_(std::move(directory)),
        temp_dir_(std::move(temp_dir)),
        shape_(shape) {}
  // Removes the tree directory_, makes it anew with one file per layer at its full size, so that a
  // lack of space (kNoSpace) shows before anything is computed where the file system can reserve
  // space, maps the files, and resets all sums, kept rows and tokens_done_. Codes of Env.
  Status Create();
  // Takes over the checkpoint and opens the layers' files, whose rows it verifies by checksum. A
  // missing file is fine once all tokens are done: that layer is in its shard, which the caller
  // checks. False: there is no checkpoint of this shape, or something does not fit; Create must
  // follow, as members may have changed. Codes of Env.
  Result<bool> Resume();
  // Takes sums, queries, kept rows and tokens_done_ from the bytes of a checkpoint. False, and
  // nothing changes: it is of another shape or size, or its checksum is wrong.
  bool ReadCheckpoint(std::span<const std::byte> bytes);
  // The path of the layer's file, such as "<directory_>/spill-007".
  std::string LayerPath(uint32_t layer) const;
  std::string CheckpointPath() const { return directory_ + "/checkpoint"; }
  // Byte in the layer's file at which the rows of a kv head begin: its V rows (`values`), or its K
  // rows, which lie directly before them. A region has room for all tokens.
  uint64_t RegionOffset(uint32_t kv_head, bool values) const;
  // Writes the next bytes of a region, at `offset` within it.
  Status Write(uint32_t layer, uint32_t kv_head, bool values, uint64_t offset,
               std::span<const std::byte> bytes);
  uint32_t& Crc(uint32_t layer, uint32_t kv_head, bool values) {
    return sums_.crcs[(size_t{layer} * shape_.num_kv_heads + kv_head) * 2 + values];
  }
  // The part of one kv head in an array of [layers][kv heads][L].
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
  // Sums over the rows so far.
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
  // [chunks][layers]: sums of cosines, for the chunks that are done.
  std::vector<double> chunk_sums_;
  std::vector<float> queries_;      // [layers][calibration tokens][query_cols]
  std::vector<std::byte> rounded_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_KV_SPILL_H_
