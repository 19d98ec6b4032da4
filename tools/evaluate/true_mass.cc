#include "tools/evaluate/true_mass.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "kernels/attention.h"

namespace lectern::evaluate {
namespace {

constexpr size_t kTileRows = 64;  // query rows at a time: bounds the memory of their logits

// Ranges of rows whose keys lie side by side in memory: the rows that are always read, and each
// finest cluster.
std::vector<IndexRange> BlocksOf(const HeadIndex& head) {
  std::vector<IndexRange> blocks = {{0, head.num_exact()}};
  for (uint32_t i = 0; i < head.levels().back().num_clusters(); ++i) {
    blocks.push_back(head.ClusterRows(i));
  }
  return blocks;
}

// The mean attention probability of each stored row of one head, [rows].
Result<std::vector<float>> HeadMass(const LookupArgs& args, size_t h, std::span<const float> lse) {
  const HeadIndex& head = args.heads[h];
  const Rows<const float> queries = args.queries[h];
  std::vector<float> mass(head.num_rows(), 0.0f);
  std::vector<float> logits(std::min(kTileRows, queries.num_rows) * head.num_rows());
  std::vector<float> scratch(AttendScratch(kTileRows, queries.num_cols));
  for (const IndexRange& block : BlocksOf(head)) LECTERN_RETURN_IF_ERROR(head.VerifyRows(block));
  for (size_t begin = 0; begin < queries.num_rows; begin += kTileRows) {
    const size_t end = std::min(begin + kTileRows, queries.num_rows);
    for (const IndexRange& block : BlocksOf(head)) {
      args.backend.key_logits(
          {.queries = queries.Slice(begin, end),
           .keys = head.Keys(block),
           .scale = args.scale,
           .logits = {logits.data() + block.begin, end - begin, block.size(), head.num_rows()},
           .scratch = scratch});
    }
    Softcap(args.backend, {logits.data(), end - begin, head.num_rows()}, args.softcap);
    args.backend.add_scores(
        {.logits = Rows<const float>(logits.data(), end - begin, head.num_rows()),
         .lse = lse.subspan(begin, end - begin),
         .scores = mass});
  }
  for (float& m : mass) m /= static_cast<float>(queries.num_rows);
  return mass;
}

}  // namespace

Result<TrueMass> TrueMass::Of(const LookupArgs& args, std::span<const std::span<float>> lse) {
  TrueMass result;
  result.mass_.resize(args.heads.size());
  std::mutex mutex;  // guards `first`, the first error of any thread
  Status first;
  args.threads.ParallelFor(args.heads.size(), [&](size_t h, size_t) {
    auto mass = HeadMass(args, h, lse[h]);
    if (mass.ok()) {
      result.mass_[h] = std::move(mass).value();
      return;
    }
    std::lock_guard lock(mutex);
    if (first.ok()) first = mass.status();
  });
  LECTERN_RETURN_IF_ERROR(first);
  return result;
}

double TrueMass::Recalled(std::span<const HeadIndex> heads, std::span<const HeadIndex> kept,
                          std::span<const HeadSelection> selections) const {
  double read = 0, all = 0;
  for (size_t h = 0; h < heads.size(); ++h) {
    const std::span<const uint32_t> positions = heads[h].positions();
    std::vector<float> at(*std::max_element(positions.begin(), positions.end()) + 1, 0.0f);
    for (size_t row = 0; row < positions.size(); ++row) at[positions[row]] = mass_[h][row];
    const auto add = [&](uint32_t row) { read += at[kept[h].positions()[row]]; };
    const uint32_t whole = selections.empty() ? kept[h].num_rows() : kept[h].num_exact();
    for (uint32_t row = 0; row < whole; ++row) add(row);
    if (!selections.empty()) std::ranges::for_each(selections[h].rows, add);
    all += std::accumulate(mass_[h].begin(), mass_[h].end(), 0.0);
  }
  return all > 0 ? read / all : 1.0;
}

std::vector<HeadSelection> TrueMass::BestRows(const LookupArgs& args) const {
  struct Row {
    float mass;
    uint32_t head, row;
  };
  std::vector<Row> rows;
  std::vector<HeadSelection> selections(args.heads.size());
  double left = 0;
  for (uint32_t h = 0; h < args.heads.size(); ++h) {
    const HeadIndex& head = args.heads[h];
    selections[h].bytes = head.BlockBytes({0, head.num_exact()});
    left += args.kv_budget * static_cast<double>(head.dense_bytes()) -
            static_cast<double>(selections[h].bytes);
    for (uint32_t row = head.num_exact(); row < head.num_rows(); ++row) {
      rows.push_back({mass_[h][row], h, row});
    }
  }
  const auto row_bytes = static_cast<double>(args.heads.front().BlockBytes({0, 1}));
  const size_t count = std::min(rows.size(), static_cast<size_t>(std::max(0.0, left) / row_bytes));
  std::nth_element(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(count), rows.end(),
                   [](const Row& a, const Row& b) {
                     if (a.mass != b.mass) return a.mass > b.mass;
                     return a.head != b.head ? a.head < b.head : a.row < b.row;
                   });
  for (size_t i = 0; i < count; ++i) {
    selections[rows[i].head].rows.push_back(rows[i].row);
    selections[rows[i].head].bytes += args.heads[rows[i].head].BlockBytes({0, 1});
  }
  for (HeadSelection& selection : selections) {
    std::sort(selection.rows.begin(), selection.rows.end());
  }
  return selections;
}

}  // namespace lectern::evaluate
