#include "index/head_index.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "index/calibrate.h"
#include "index/centroid_tree.h"
#include "index/policies/kv_compress.h"
#include "index/row_codes.h"

namespace lectern {
namespace {

// kCorrupt, naming the file and the head.
Status Contradiction(const ShardReader& shard, uint32_t kv_head, const char* what) {
  return {Code::kCorrupt, shard.path() + ": kv head " + std::to_string(kv_head) + ": " + what +
                              "; index the document again"};
}

// Whether the scales of these rows' q8 blocks are all finite; true for other types. An infinite or
// NaN scale would spoil all results of a step, though its checksum is right.
bool HasScales(const TypedRows& rows, IndexRange range) {
  if (rows.dtype != Dtype::kQ8) return true;
  constexpr uint16_t kExponent = 0x7C00;  // all exponent bits set: infinity or NaN
  constexpr size_t kBlockBytes = kQ8Block + sizeof(f16);
  // Rows are whole blocks, so all blocks follow one another.
  const std::byte* const data = rows.row(range.begin);
  const size_t num_blocks = range.size() * (rows.num_cols / kQ8Block);
  bool all_are = true;
  for (size_t block = 0; block < num_blocks; ++block) {
    f16 scale;
    std::memcpy(&scale, data + block * kBlockBytes, sizeof scale);
    all_are &= (scale.bits & kExponent) != kExponent;
  }
  return all_are;
}

// Whether `children` starts at `first`, ascends, leaves no cluster empty and ends at `last`.
bool IsPartition(std::span<const uint32_t> children, size_t num_clusters, uint32_t first,
                 uint32_t last) {
  if (children.size() != num_clusters + 1 || children.front() != first || children.back() != last) {
    return false;
  }
  for (size_t i = 0; i < num_clusters; ++i) {
    if (children[i] >= children[i + 1]) return false;
  }
  return true;
}

// Whether these are the rows of a windowed layer: the last tokens that a token after the document
// still sees.
bool IsEndOfDocument(std::span<const uint32_t> positions, const ShardHeader& header) {
  const uint64_t count = std::min<uint64_t>(header.num_tokens, header.window_size - 1);
  if (count == 0 || positions.size() != count) return false;
  for (size_t i = 0; i < count; ++i) {
    if (positions[i] != header.num_tokens - count + i) return false;
  }
  return true;
}

// Whether the scores ascend and are all numbers.
bool Ascend(std::span<const float> scores) {
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i]) || (i > 0 && scores[i] < scores[i - 1])) return false;
  }
  return true;
}

}  // namespace

Result<HeadIndex> HeadIndex::Load(const ShardReader& shard, uint32_t kv_head) {
  const ShardHeader& header = shard.header();
  HeadIndex head;
  head.shard_ = &shard;
  head.dtype_ = static_cast<Dtype>(header.kv_dtype);
  head.head_dim_ = header.head_dim;
  head.row_bytes_ = RowBytes(head.dtype_, header.head_dim);
  const auto corrupt = [&](const char* what) { return Contradiction(shard, kv_head, what); };

  // A shard may come from anywhere, so everything that lookups index by is checked here once: sizes
  // of sections, then levels, then that levels fit each other.
  const SectionEntry* rows = shard.Find(SectionKind::kRows, kv_head, 0);
  if (rows == nullptr) return corrupt("no rows");
  if (rows->bytes % (2 * head.row_bytes_) != 0) return corrupt("rows are cut");
  const uint64_t num_rows = rows->bytes / (2 * head.row_bytes_);
  if (num_rows > header.num_tokens) return corrupt("more rows than tokens");
  head.num_rows_ = static_cast<uint32_t>(num_rows);
  head.whole_ = {0, head.num_rows_};
  head.rows_offset_ = rows->offset;
  LECTERN_ASSIGN(head.positions_, shard.Array<uint32_t>(SectionKind::kPositions, kv_head, 0));
  if (head.positions_.size() != num_rows) return corrupt("one position per row expected");
  for (const uint32_t position : head.positions_) {
    if (position >= header.num_tokens) return corrupt("a position lies outside the document");
  }
  // The sum of two numbers that anybody may have written needs 64 bits.
  const uint64_t num_exact =
      header.num_levels == 0 ? num_rows : uint64_t{header.num_sinks} + header.num_window;
  if (num_exact > num_rows) return corrupt("fewer rows than sinks and window");
  head.num_exact_ = static_cast<uint32_t>(num_exact);
  head.num_sinks_ = header.num_levels == 0 ? head.num_rows_ : header.num_sinks;
  if (header.window_size > 0 && !IsEndOfDocument(head.positions_, header)) {
    return corrupt("its rows are not those of a window");
  }

  for (uint32_t level = 1; level <= header.num_levels; ++level) {
    Level view;
    LECTERN_ASSIGN(view.key_counts, shard.Array<uint32_t>(SectionKind::kKeyCounts, kv_head, level));
    LECTERN_ASSIGN(view.children, shard.Array<uint32_t>(SectionKind::kChildren, kv_head, level));
    const size_t num_clusters = view.key_counts.size();
    const Dtype dtype = CentroidDtype(header.head_dim);
    const uint64_t bytes = uint64_t{num_clusters} * RowBytes(dtype, header.head_dim);
    const SectionEntry* centroids = shard.Find(SectionKind::kCentroids, kv_head, level);
    const SectionEntry* values = shard.Find(SectionKind::kMeanValues, kv_head, level);
    const SectionEntry* radii = shard.Find(SectionKind::kRadii, kv_head, level);
    const SectionEntry* variances = shard.Find(SectionKind::kVariances, kv_head, level);
    if (num_clusters == 0 || centroids == nullptr || values == nullptr || radii == nullptr ||
        variances == nullptr || centroids->bytes != bytes || values->bytes != bytes ||
        radii->bytes != num_clusters * sizeof(float) ||
        variances->bytes != num_clusters * sizeof(float)) {
      return corrupt("centroids, mean values, radii, variances and counts differ in number");
    }
    view.radii_offset = radii->offset;
    view.radii = {reinterpret_cast<const float*>(shard.data() + radii->offset), num_clusters};
    view.variances_offset = variances->offset;
    view.variances = {reinterpret_cast<const float*>(shard.data() + variances->offset),
                      num_clusters};
    view.centroids_offset = centroids->offset;
    view.mean_values_offset = values->offset;
    view.centroids = {shard.data() + centroids->offset, dtype, num_clusters, header.head_dim};
    view.mean_values = {shard.data() + values->offset, dtype, num_clusters, header.head_dim};
    uint64_t keys = 0;
    for (const uint32_t count : view.key_counts) {
      if (count == 0) return corrupt("an empty cluster");
      keys += count;
      view.log_counts.push_back(std::log(static_cast<float>(count)));
    }
    if (keys != head.num_rows_ - head.num_exact_) return corrupt("key counts do not add up");
    head.levels_.push_back(std::move(view));
  }
  for (size_t l = 0; l < head.levels_.size(); ++l) {
    const Level& level = head.levels_[l];
    const bool finest = l + 1 == head.levels_.size();
    const uint32_t first = finest ? head.num_exact_ : 0;
    const uint32_t last =
        finest ? head.num_rows_ : static_cast<uint32_t>(head.levels_[l + 1].num_clusters());
    if (!IsPartition(level.children, level.num_clusters(), first, last)) {
      return corrupt("clusters do not partition the level below");
    }
    // A count is the number of keys below the cluster, at every level.
    const std::span<const uint32_t> below =
        finest ? std::span<const uint32_t>() : head.levels_[l + 1].key_counts;
    for (size_t i = 0; i < level.num_clusters(); ++i) {
      uint64_t keys = finest ? level.children[i + 1] - level.children[i] : 0;
      for (uint32_t c = level.children[i]; !finest && c < level.children[i + 1]; ++c) {
        keys += below[c];
      }
      if (keys != level.key_counts[i]) return corrupt("a key count is not that of its keys");
    }
  }
  // The optional sections follow: row codes, thresholds, the window's copy, block scores.
  const SectionEntry* codes = shard.Find(SectionKind::kRowCodes, kv_head, 0);
  const SectionEntry* fine_codes = shard.Find(SectionKind::kFineCodes, kv_head, 0);
  if ((codes == nullptr) != (fine_codes == nullptr)) {
    return corrupt("row codes and fine codes must come together");
  }
  if (header.num_levels > 0 && codes != nullptr) {
    const uint64_t num_coded = num_rows - head.num_exact_;
    head.row_code_bytes_ = RowCodeBytes(header.head_dim);
    head.fine_code_bytes_ = FineCodeBytes(header.head_dim);
    if (codes->bytes != num_coded * head.row_code_bytes_ ||
        fine_codes->bytes != num_coded * head.fine_code_bytes_) {
      return corrupt("one row code and one fine code per clustered row expected");
    }
    head.row_codes_ = shard.data() + codes->offset;
    head.fine_codes_ = shard.data() + fine_codes->offset;
  }
  if (header.num_levels > 0) {
    LECTERN_ASSIGN(head.thresholds_, shard.Array<float>(SectionKind::kThresholds, kv_head, 0));
    if (head.thresholds_.size() != header.num_levels * kThresholdsPerLevel) {
      return corrupt("thresholds are missing");
    }
    if (shard.Find(SectionKind::kQueryMetric, kv_head, 0) != nullptr) {
      LECTERN_ASSIGN(const std::span<const f16> stored,
                     shard.Array<f16>(SectionKind::kQueryMetric, kv_head, 0));
      std::optional<QueryMetric> metric = QueryMetric::FromStored(stored, header.head_dim);
      if (!metric) return corrupt("its query metric has another size, or cannot be inverted");
      head.metric_ = std::make_shared<const QueryMetric>(*std::move(metric));
    }
  }
  if (const SectionEntry* copy = shard.Find(SectionKind::kWindowCopy, kv_head, 0)) {
    if (header.head_dim % kQ8Block != 0 ||
        copy->bytes != uint64_t{2} * (head.num_exact_ - head.num_sinks_) *
                           RowBytes(Dtype::kQ8, header.head_dim)) {
      return corrupt("the copy of its window has another size");
    }
    if (header.num_levels > 0) head.window_copy_ = shard.data() + copy->offset;
  }
  for (const auto& [kind, scores] :
       {std::pair(SectionKind::kBlockScores, &head.block_scores_.squared),
        std::pair(SectionKind::kPlainBlockScores, &head.block_scores_.plain),
        std::pair(SectionKind::kFullBlockScores, &head.block_scores_.full)}) {
    if (shard.Find(kind, kv_head, 0) == nullptr) continue;
    LECTERN_ASSIGN(*scores, shard.Array<float>(kind, kv_head, 0));
    if (scores->size() != (num_rows + kCompressBlock - 1) / kCompressBlock) {
      return corrupt("one score per block of rows expected");
    }
    if (!Ascend(*scores)) return corrupt("scores of blocks do not ascend");
  }
  return head;
}

void HeadIndex::Measure(const Backend& backend, Rows<const float> queries, Rows<float> out,
                        std::span<float> scratch) const {
  if (metric_) {
    backend.key_logits({.queries = queries,
                        .keys = metric_->rows(),
                        .scale = 1,
                        .logits = out,
                        .scratch = scratch});
    return;
  }
  for (size_t r = 0; r < queries.num_rows; ++r) std::copy_n(queries[r], queries.num_cols, out[r]);
}

TypedRows HeadIndex::Keys(IndexRange block) const {
  const std::byte* base = shard_->data() + rows_offset_ + uint64_t{block.begin} * 2 * row_bytes_;
  return {base, dtype_, block.size(), head_dim_};
}

TypedRows HeadIndex::Values(IndexRange block) const {
  const std::byte* base = shard_->data() + rows_offset_ + uint64_t{block.begin} * 2 * row_bytes_;
  return {base + block.size() * row_bytes_, dtype_, block.size(), head_dim_};
}

TypedRows HeadIndex::CopiedRows(size_t row) const {
  const size_t count = num_exact_ - num_sinks_;
  return {window_copy_ + row * count * RowBytes(Dtype::kQ8, head_dim_), Dtype::kQ8, count,
          head_dim_};
}

uint64_t HeadIndex::ExactBytes(bool window_copy) const {
  if (!window_copy) return BlockBytes({0, num_exact_});
  return BlockBytes({0, num_sinks_}) +
         uint64_t{num_exact_ - num_sinks_} * 2 * RowBytes(Dtype::kQ8, head_dim_);
}

Status HeadIndex::VerifyExact(bool window_copy) const {
  if (!window_copy) return VerifyRows({0, num_exact_});
  // The sinks' keys and values are the first ones of their block's two halves.
  const uint64_t bytes = num_sinks_ * row_bytes_, half = num_exact_ * row_bytes_;
  LECTERN_RETURN_IF_ERROR(shard_->Verify(rows_offset_, bytes));
  LECTERN_RETURN_IF_ERROR(shard_->Verify(rows_offset_ + half, bytes));
  return shard_->Verify(static_cast<uint64_t>(window_copy_ - shard_->data()),
                        ExactBytes(true) - 2 * bytes);
}

Status HeadIndex::VerifyRows(IndexRange rows) const {
  return shard_->Verify(rows_offset_ + uint64_t{rows.begin} * 2 * row_bytes_, BlockBytes(rows));
}

Status HeadIndex::GatherRows(std::span<const uint32_t> rows, std::vector<std::byte>& keys,
                             std::vector<std::byte>& values) const {
  keys.resize(rows.size() * row_bytes_);
  values.resize(rows.size() * row_bytes_);
  return GatherRows(rows, keys.data(), values.data());
}

Status HeadIndex::GatherRows(std::span<const uint32_t> rows, std::byte* keys,
                             std::byte* values) const {
  // Copies rows with a pipeline of kAhead rows: row i is prefetched when row i - kAhead is copied.
  if (rows.empty()) return {};
  const std::span<const uint32_t> blocks = GatheredBlocks();
  auto block = std::upper_bound(blocks.begin(), blocks.end(), rows.front()) - 1;
  // Chosen rows lie apart in memory, so rows needed soon are prefetched while others are copied. No
  // measurement of other distances is on record.
  constexpr size_t kAhead = 32;
  struct Place {
    uint64_t key, value;
  };
  std::array<Place, kAhead> places;
  const std::byte* const file = shard_->data();
  VerifiedBlock key_block(*shard_), value_block(*shard_);
  for (size_t i = 0; i < rows.size() + kAhead; ++i) {
    Place& place = places[i % kAhead];
    if (i >= kAhead) {
      const size_t row = i - kAhead;
      LECTERN_RETURN_IF_ERROR(key_block.Verify(place.key, row_bytes_));
      LECTERN_RETURN_IF_ERROR(value_block.Verify(place.value, row_bytes_));
      std::memcpy(keys + row * row_bytes_, file + place.key, row_bytes_);
      std::memcpy(values + row * row_bytes_, file + place.value, row_bytes_);
    }
    if (i >= rows.size()) continue;
    while (block[1] <= rows[i]) ++block;
    const uint32_t begin = block[0], num_block_rows = block[1] - begin;
    place.key = rows_offset_ + uint64_t{begin} * 2 * row_bytes_ + (rows[i] - begin) * row_bytes_;
    place.value = place.key + num_block_rows * row_bytes_;
    for (uint64_t byte = 0; byte < row_bytes_; byte += 64) {
      __builtin_prefetch(file + place.key + byte);
      __builtin_prefetch(file + place.value + byte);
    }
  }
  return {};
}

void HeadIndex::ReadAheadRows(std::span<const uint32_t> rows) const {
  if (rows.empty() || shard_->verified_share() == 1) return;
  // Clusters that hold some of the rows are read whole (their K rows, then their V rows); clusters
  // less than kClose bytes apart are read in one go: 64 KiB, the size of a block that is verified
  // as a whole anyway. No measurement of other sizes is on record.
  constexpr uint64_t kClose = 64 << 10;
  const std::span<const uint32_t> clusters = GatheredBlocks();
  uint64_t begin = 0, end = 0;
  for (auto row = rows.begin(); row != rows.end();) {
    const auto cluster = std::upper_bound(clusters.begin(), clusters.end(), *row) - 1;
    const uint64_t first = rows_offset_ + uint64_t{cluster[0]} * 2 * row_bytes_;
    if (end == 0 || first > end + kClose) {
      if (end > 0) shard_->ReadAhead(begin, end - begin);
      begin = first;
    }
    end = rows_offset_ + uint64_t{cluster[1]} * 2 * row_bytes_;
    row = std::lower_bound(row, rows.end(), cluster[1]);
  }
  shard_->ReadAhead(begin, end - begin);
}

Status HeadIndex::VerifyRowCodes(IndexRange rows) const {
  return shard_->Verify(static_cast<uint64_t>(RowCodes(rows.begin) - shard_->data()),
                        rows.size() * row_code_bytes_);
}

Result<uint32_t> HeadIndex::VerifyFineCodesFrom(uint32_t row) const {
  const auto begin = static_cast<uint64_t>(FineCodes(row) - shard_->data());
  LECTERN_RETURN_IF_ERROR(shard_->Verify(begin, fine_code_bytes_));
  const uint64_t last = begin + fine_code_bytes_ - 1;
  // The code may end in the next block of the file; rows up to the end of that block are then
  // verified too.
  const uint64_t block_end = (last / kBlockBytes + 1) * kBlockBytes;
  return row + static_cast<uint32_t>((block_end - begin) / fine_code_bytes_);
}

Status HeadIndex::VerifyCentroids(size_t level, IndexRange clusters) const {
  const Level& view = levels_[level];
  LECTERN_RETURN_IF_ERROR(
      shard_->Verify(view.centroids_offset + clusters.begin * view.centroids.row_bytes(),
                     clusters.size() * view.centroids.row_bytes()));
  LECTERN_RETURN_IF_ERROR(shard_->Verify(view.variances_offset + clusters.begin * sizeof(float),
                                         clusters.size() * sizeof(float)));
  if (view.are_numbers->load(std::memory_order_relaxed)) return {};
  // Numbers are checked only until the whole level was found to be sound.
  LECTERN_RETURN_IF_ERROR(CheckScales(view.centroids, level, clusters));
  bool all_are = true;
  for (const float variance : view.variances.subspan(clusters.begin, clusters.size())) {
    all_are &= variance >= 0 && variance < INFINITY;
  }
  if (all_are) {
    if (clusters.size() == view.num_clusters()) view.are_numbers->store(true);
    return {};
  }
  return Status(Code::kCorrupt,
                shard_->path() + ": level " + std::to_string(level + 1) +
                    " has a variance that is negative or not finite; index the document again");
}

Status HeadIndex::VerifyMeanValues(size_t level, IndexRange clusters) const {
  const Level& view = levels_[level];
  LECTERN_RETURN_IF_ERROR(
      shard_->Verify(view.mean_values_offset + clusters.begin * view.mean_values.row_bytes(),
                     clusters.size() * view.mean_values.row_bytes()));
  return CheckScales(view.mean_values, level, clusters);
}

Status HeadIndex::CheckScales(const TypedRows& rows, size_t level, IndexRange clusters) const {
  if (HasScales(rows, clusters)) return {};
  return Status(Code::kCorrupt, shard_->path() + ": level " + std::to_string(level + 1) +
                                    " has a scale that is not finite; index the document again");
}

Status HeadIndex::VerifyRadii(size_t level, IndexRange clusters) const {
  return shard_->Verify(levels_[level].radii_offset + clusters.begin * sizeof(float),
                        clusters.size() * sizeof(float));
}

}  // namespace lectern
