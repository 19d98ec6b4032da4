#include "engine/document/kv_spill.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstring>

#include "store/crc32c.h"

namespace lectern {
namespace {

// The beginning of `checkpoint`. After it come CRCs, sums of cosines, these sums after each chunk,
// queries, sums of squared attention (if any) and numbers of kept rows (if decided); last a CRC-32C
// of everything before it.
struct CheckpointHeader {
  char magic[8] = {'L', 'E', 'C', 'T', 'C', 'K', 'P', '3'};
  DocumentId document{};
  uint64_t generation = 0, num_tokens = 0, tokens_done = 0;
  uint32_t num_layers = 0, num_kv_heads = 0, head_dim = 0, query_cols = 0;
  uint32_t dtype = 0, num_calibration = 0, squared_sums = 0;
  uint16_t rank = 0, later_ranks = 0;  // of a spill that is one of later_ranks + 1
};

// The header that a checkpoint of this spill has; a stored one that differs is of another.
CheckpointHeader HeaderOf(const SpillShape& shape, uint64_t tokens_done) {
  CheckpointHeader header;
  header.document = shape.document;
  header.generation = shape.generation;
  header.num_tokens = shape.num_tokens;
  header.tokens_done = tokens_done;
  header.num_layers = shape.num_layers;
  header.num_kv_heads = shape.num_kv_heads;
  header.head_dim = shape.head_dim;
  header.query_cols = shape.query_cols;
  header.dtype = static_cast<uint32_t>(shape.dtype);
  header.num_calibration = shape.num_calibration;
  header.squared_sums = shape.squared_sums;
  header.rank = static_cast<uint16_t>(shape.rank);
  header.later_ranks = static_cast<uint16_t>(shape.num_ranks - 1);
  return header;
}

}  // namespace

Result<std::unique_ptr<KvSpill>> KvSpill::Open(Env& env, const std::string& directory,
                                               const std::string& temp_dir,
                                               const SpillShape& shape) {
  std::unique_ptr<KvSpill> spill(new KvSpill(env, directory, temp_dir, shape));
  spill->layers_.resize(shape.num_layers);
  spill->sums_.crcs.assign(size_t{shape.num_layers} * shape.num_kv_heads * 2, 0);
  spill->sums_.cosines.assign(shape.num_layers, {});
  if (shape.squared_sums) {
    spill->sums_.squared.resize(size_t{shape.num_layers} * shape.num_kv_heads * shape.num_tokens);
  }
  spill->chunk_sums_.assign(shape.num_tokens / kChunkTokens * shape.num_layers, 0.0);
  spill->queries_.assign(size_t{shape.num_layers} * shape.num_calibration * shape.query_cols, 0.0f);
  LECTERN_ASSIGN(const bool resumed, spill->Resume());
  if (!resumed) LECTERN_RETURN_IF_ERROR(spill->Create());
  return spill;
}

Status KvSpill::Create() {
  // The files that Resume opened are closed first: Windows removes no folder with an open file.
  layers_.clear();
  layers_.resize(shape_.num_layers);
  LECTERN_RETURN_IF_ERROR(env_.RemoveTree(directory_));
  LECTERN_RETURN_IF_ERROR(env_.MakeDirectory(directory_));
  tokens_done_ = 0;
  std::fill(sums_.crcs.begin(), sums_.crcs.end(), 0u);
  std::fill(sums_.squared.begin(), sums_.squared.end(), 0.0f);
  sums_.cosines.assign(shape_.num_layers, {});
  kept_rows_.clear();
  std::fill(chunk_sums_.begin(), chunk_sums_.end(), 0.0);
  for (uint32_t layer = shape_.rank; layer < shape_.num_layers; layer += shape_.num_ranks) {
    LECTERN_ASSIGN(layers_[layer].file, env_.OpenWritable(LayerPath(layer), /*exclusive=*/true));
    LECTERN_RETURN_IF_ERROR(layers_[layer].file->Allocate(shape_.layer_bytes()));
    LECTERN_ASSIGN(layers_[layer].map, env_.Map(LayerPath(layer)));
  }
  return env_.SyncDirectory(directory_);
}

Result<bool> KvSpill::Resume() {
  LECTERN_ASSIGN(const bool exists, env_.Exists(CheckpointPath()));
  if (!exists) return false;
  LECTERN_ASSIGN(const auto file, OpenWhole(env_, CheckpointPath(), Io::kPread));
  if (!ReadCheckpoint({file->data(), file->size()})) return false;
  for (uint32_t layer = shape_.rank; layer < shape_.num_layers; layer += shape_.num_ranks) {
    LECTERN_ASSIGN(const bool spilled, env_.Exists(LayerPath(layer)));
    if (!spilled && tokens_done_ == shape_.num_tokens) continue;
    if (!spilled) return false;
    LECTERN_ASSIGN(layers_[layer].file, env_.OpenWritable(LayerPath(layer), /*exclusive=*/false));
    LECTERN_ASSIGN(layers_[layer].map, env_.Map(LayerPath(layer)));
    if (layers_[layer].map->size() != shape_.layer_bytes()) return false;
    for (uint32_t head = 0; head < shape_.num_kv_heads; ++head) {
      const TypedRows keys = Keys(layer, head, tokens_done_);
      const TypedRows values = Values(layer, head, tokens_done_);
      const size_t bytes = tokens_done_ * keys.row_bytes();
      if (Crc32c(0, keys.data, bytes) != Crc(layer, head, false) ||
          Crc32c(0, values.data, bytes) != Crc(layer, head, true)) {
        return false;
      }
    }
    LetGo(layer);
  }
  return true;
}

bool KvSpill::ReadCheckpoint(std::span<const std::byte> bytes) {
  const size_t crc_bytes = sums_.crcs.size() * sizeof(uint32_t);
  const size_t cosine_bytes = sums_.cosines.size() * sizeof(CosineSum);
  const size_t chunk_bytes = chunk_sums_.size() * sizeof(double);
  const size_t query_bytes = queries_.size() * sizeof(float);
  const size_t squared_bytes = sums_.squared.size() * sizeof(float);
  const size_t kept_bytes = size_t{shape_.num_layers} * shape_.num_kv_heads * sizeof(uint64_t);
  CheckpointHeader header;
  const size_t least = sizeof header + crc_bytes + cosine_bytes + chunk_bytes + query_bytes +
                       squared_bytes + sizeof(uint32_t);
  if (bytes.size() != least && bytes.size() != least + kept_bytes) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  const CheckpointHeader expected = HeaderOf(shape_, header.tokens_done);
  if (std::memcmp(&header, &expected, sizeof header) != 0) return false;
  if (header.tokens_done > shape_.num_tokens) return false;
  uint32_t crc;
  std::memcpy(&crc, bytes.data() + bytes.size() - sizeof crc, sizeof crc);
  if (crc != Crc32c(0, bytes.data(), bytes.size() - sizeof crc)) return false;
  const std::byte* from = bytes.data() + sizeof header;
  kept_rows_.resize((bytes.size() - least) / sizeof(uint64_t));
  for (const auto& [to, size] : {std::pair<void*, size_t>(sums_.crcs.data(), crc_bytes),
                                 {sums_.cosines.data(), cosine_bytes},
                                 {chunk_sums_.data(), chunk_bytes},
                                 {queries_.data(), query_bytes},
                                 {sums_.squared.data(), squared_bytes},
                                 {kept_rows_.data(), kept_rows_.size() * sizeof(uint64_t)}}) {
    if (size > 0) std::memcpy(to, from, size);
    from += size;
  }
  tokens_done_ = header.tokens_done;
  return true;
}

Status KvSpill::Append(const Backend& backend, uint32_t layer, uint64_t begin,
                       Rows<const float> keys, Rows<const float> values) {
  const size_t dim = shape_.head_dim, row_bytes = RowBytes(shape_.dtype, dim);
  rounded_.resize(keys.num_rows * row_bytes);
  for (uint32_t head = 0; head < shape_.num_kv_heads; ++head) {
    for (const bool is_values : {false, true}) {
      const Rows<const float> all = is_values ? values : keys;
      backend.from_float_rows({all.data + head * dim, all.num_rows, dim, all.stride}, shape_.dtype,
                              rounded_.data());
      LECTERN_RETURN_IF_ERROR(Write(layer, head, is_values, begin * row_bytes, rounded_));
    }
  }
  return {};
}

Status KvSpill::AppendRounded(uint32_t layer, uint64_t begin, const TypedRows& keys,
                              const TypedRows& values) {
  assert(keys.dtype == shape_.dtype && keys.num_cols == shape_.head_dim &&
         keys.num_rows == values.num_rows && keys.num_rows % shape_.num_kv_heads == 0);
  const size_t num_tokens = keys.num_rows / shape_.num_kv_heads, row_bytes = keys.row_bytes();
  for (uint32_t head = 0; head < shape_.num_kv_heads; ++head) {
    for (const bool is_values : {false, true}) {
      const TypedRows& all = is_values ? values : keys;
      LECTERN_RETURN_IF_ERROR(Write(layer, head, is_values, begin * row_bytes,
                                    {all.row(head * num_tokens), num_tokens * row_bytes}));
    }
  }
  return {};
}

Status KvSpill::AppendStored(uint32_t layer, uint32_t kv_head, bool is_values,
                             std::span<const std::byte> rows) {
  return Write(layer, kv_head, is_values, 0, rows);
}

Status KvSpill::Write(uint32_t layer, uint32_t kv_head, bool values, uint64_t offset,
                      std::span<const std::byte> bytes) {
  uint32_t& crc = Crc(layer, kv_head, values);
  crc = Crc32c(crc, bytes.data(), bytes.size());
  return layers_[layer].file->WriteAt(RegionOffset(kv_head, values) + offset, bytes.data(),
                                      bytes.size());
}

void KvSpill::Advance(uint64_t tokens_done) {
  tokens_done_ = tokens_done;
  if (tokens_done == 0 || tokens_done % kChunkTokens != 0) return;
  const size_t chunk = tokens_done / kChunkTokens - 1;
  for (uint32_t layer = 0; layer < shape_.num_layers; ++layer) {
    chunk_sums_[chunk * shape_.num_layers + layer] = sums_.cosines[layer].sum;
  }
}

// In the last layer only part of each chunk is counted (see kUnsampledTokens).
void KvSpill::TakeSums(std::span<const double> sums) {
  std::copy(sums.begin(), sums.end(), chunk_sums_.begin());
  const size_t num_chunks = sums.size() / shape_.num_layers;
  for (uint32_t layer = 0; num_chunks > 0 && layer < shape_.num_layers; ++layer) {
    const bool is_last = layer + 1 == shape_.num_layers;
    const size_t counted = is_last ? kChunkTokens - kUnsampledTokens : kChunkTokens;
    sums_.cosines[layer] = {sums[(num_chunks - 1) * shape_.num_layers + layer],
                            num_chunks * counted};
  }
}

void KvSpill::KeepQueries(uint32_t layer, uint64_t begin, Rows<const float> queries) {
  const uint64_t first = shape_.num_tokens - shape_.num_calibration;
  for (size_t t = 0; t < queries.num_rows; ++t) {
    if (begin + t < first) continue;
    const size_t row = size_t{layer} * shape_.num_calibration + (begin + t - first);
    std::copy_n(queries[t], shape_.query_cols, queries_.data() + row * shape_.query_cols);
  }
}

Status KvSpill::Checkpoint() {
  // The spills must be durable before the checkpoint that vouches for them.
  for (Layer& layer : layers_) {
    if (layer.file) LECTERN_RETURN_IF_ERROR(layer.file->Sync());
  }
  std::vector<std::byte> bytes;
  const auto append = [&](const void* data, size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), from, from + size);
  };
  const CheckpointHeader header = HeaderOf(shape_, tokens_done_);
  append(&header, sizeof header);
  append(sums_.crcs.data(), sums_.crcs.size() * sizeof(uint32_t));
  append(sums_.cosines.data(), sums_.cosines.size() * sizeof(CosineSum));
  append(chunk_sums_.data(), chunk_sums_.size() * sizeof(double));
  append(queries_.data(), queries_.size() * sizeof(float));
  append(sums_.squared.data(), sums_.squared.size() * sizeof(float));
  append(kept_rows_.data(), kept_rows_.size() * sizeof(uint64_t));
  const uint32_t crc = Crc32c(0, bytes.data(), bytes.size());
  append(&crc, sizeof crc);

  // Written elsewhere and renamed, so that a crash leaves the old checkpoint or the new one.
  const std::string temp =
      temp_dir_ + "/checkpoint-" + ToHex(shape_.document) + shape_.checkpoint_name + ".part";
  if (const Status removed = env_.Remove(temp);
      !removed.ok() && removed.code() != Code::kMissingFile) {
    return removed;
  }
  LECTERN_ASSIGN(const auto file, env_.OpenWritable(temp, /*exclusive=*/true));
  LECTERN_RETURN_IF_ERROR(file->WriteAt(0, bytes.data(), bytes.size()));
  LECTERN_RETURN_IF_ERROR(file->Sync());
  LECTERN_RETURN_IF_ERROR(file->Close());
  LECTERN_RETURN_IF_ERROR(env_.Rename(temp, CheckpointPath()));
  return env_.SyncDirectory(directory_);
}

std::vector<double> KvSpill::MeanCosines() const {
  std::vector<double> means;
  for (const CosineSum& cosine : sums_.cosines) {
    means.push_back(cosine.count > 0 ? cosine.sum / static_cast<double>(cosine.count) : 0);
  }
  return means;
}

TypedRows KvSpill::Keys(uint32_t layer, uint32_t kv_head, uint64_t num_tokens) const {
  return {layers_[layer].map->data() + RegionOffset(kv_head, false), shape_.dtype, num_tokens,
          shape_.head_dim};
}

TypedRows KvSpill::Values(uint32_t layer, uint32_t kv_head, uint64_t num_tokens) const {
  return {layers_[layer].map->data() + RegionOffset(kv_head, true), shape_.dtype, num_tokens,
          shape_.head_dim};
}

Rows<const float> KvSpill::Queries(uint32_t layer) const {
  return {queries_.data() + size_t{layer} * shape_.num_calibration * shape_.query_cols,
          shape_.num_calibration, shape_.query_cols};
}

Status KvSpill::RemoveLayer(uint32_t layer) {
  layers_[layer] = {};
  const Status removed = env_.Remove(LayerPath(layer));
  return removed.code() == Code::kMissingFile ? Status() : removed;
}

Status KvSpill::RemoveCheckpoint() {
  const Status removed = env_.Remove(CheckpointPath());
  return removed.code() == Code::kMissingFile ? Status() : removed;
}

std::string KvSpill::LayerPath(uint32_t layer) const {
  char name[32];
  std::snprintf(name, sizeof name, "/spill-%03u", layer);
  return directory_ + name;
}

uint64_t KvSpill::RegionOffset(uint32_t kv_head, bool values) const {
  const uint64_t region = shape_.num_tokens * RowBytes(shape_.dtype, shape_.head_dim);
  return (uint64_t{2} * kv_head + (values ? 1 : 0)) * region;
}

}  // namespace lectern
