#include "index/retention/retention.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>

#include "index/budget_plan.h"
#include "index/policies/kv_compress.h"

namespace lectern {
namespace {

// --- scores ---

// KV-Compress: squared attention of the last tokens.
std::vector<float> SquaredScore(const RetentionShape&, const RowStatistics& rows) {
  return rows.squared;
}

// SnapKV and PyramidKV: attention of the last tokens, summed over the query heads.
std::vector<float> AttentionScore(const RetentionShape& shape, const RowStatistics& rows) {
  std::vector<float> scores(shape.num_rows);
  for (size_t row = 0; row < scores.size(); ++row) {
    double sum = 0;
    for (const std::vector<double>& of_head : rows.attention) sum += of_head[row];
    scores[row] = static_cast<float>(sum);
  }
  return scores;
}

// StreamingLLM: the last rows win.
std::vector<float> PositionScore(const RetentionShape& shape, const RowStatistics&) {
  std::vector<float> scores(shape.num_rows);
  for (size_t row = 0; row < scores.size(); ++row) scores[row] = static_cast<float>(row);
  return scores;
}

// Spreads kept rows evenly, whatever their number: the score is the row number with its bits
// reversed, so multiples of high powers of two come first. A float holds the 24 bits exactly.
std::vector<float> SpacingScore(const RetentionShape& shape, const RowStatistics&) {
  std::vector<float> scores(shape.num_rows);
  for (size_t row = 0; row < scores.size(); ++row) {
    uint32_t reversed = 0;
    for (int bit = 0; bit < 24; ++bit) reversed |= (row >> bit & 1) << (23 - bit);
    scores[row] = -static_cast<float>(reversed);
  }
  return scores;
}

// --- shares of the heads ---

// Shares `total` rows in proportion to `wanted`, with the shape's floor for each head.
std::vector<uint64_t> Fill(const RetentionShape& shape, const std::vector<double>& wanted,
                           uint64_t total) {
  std::vector<PlanPart> parts;
  for (const double of_head : wanted) {
    parts.push_back({of_head, shape.least_kept(), shape.num_rows});
  }
  return FillRows(parts, total);
}

std::vector<uint64_t> AllotEqually(const RetentionShape& shape, std::span<const std::vector<float>>,
                                   uint64_t total) {
  return Fill(shape, std::vector<double>(shape.num_layers * shape.num_kv_heads, 1.0), total);
}

// PyramidKV: an arithmetic sequence over layers, equal heads.
std::vector<uint64_t> AllotPyramid(const RetentionShape& shape, std::span<const std::vector<float>>,
                                   uint64_t total) {
  PolicyInput input;
  input.num_layers = shape.num_layers;
  input.num_kv_heads = shape.num_kv_heads;
  input.rows.assign(size_t{shape.num_layers} * shape.num_kv_heads, shape.num_rows);
  input.num_protected = shape.num_sinks + shape.num_window;
  input.kv_budget = static_cast<double>(total) /
                    (static_cast<double>(input.rows.size()) * static_cast<double>(shape.num_rows));
  return Fill(shape, PyramidShares(input), total);
}

// KV-Compress: blocks of all layers and heads compete. The sum differs from the total by less than
// a block for each head: a head that loses nothing has less than whole blocks, and floors are
// rounded up to blocks.
std::vector<uint64_t> AllotByCompetition(const RetentionShape& shape,
                                         std::span<const std::vector<float>> block_scores,
                                         uint64_t total) {
  const uint64_t kept_blocks = (total + kCompressBlock - 1) / kCompressBlock;
  const size_t least_blocks = (shape.least_kept() + kCompressBlock - 1) / kCompressBlock;
  std::vector<std::vector<float>> finite(block_scores.begin(), block_scores.end());
  std::vector<std::span<const float>> heads;
  // The last blocks of a head are its best: making them infinite keeps its floor.
  uint64_t blocks = 0;
  for (std::vector<float>& head : finite) {
    std::fill_n(head.rbegin(), std::min(least_blocks, head.size()), INFINITY);
    heads.push_back(head);
    blocks += head.size();
  }
  const std::vector<uint64_t> evicted = EvictBlocks(heads, blocks - std::min(blocks, kept_blocks));
  std::vector<uint64_t> rows;
  for (const uint64_t gone : evicted) {
    rows.push_back(shape.num_rows - RowsOfBlocks(shape.num_rows, gone));
  }
  return rows;
}

// The paper's share of representatives: 25 % of what is kept.
constexpr KvCrush Crush(Anchor anchor, uint32_t page = 1) { return {0.25, anchor, page}; }

constexpr RetentionMethod kMethods[] = {
    {"kv-compress", SquaredScore, AllotByCompetition},
    {"pyramid", AttentionScore, AllotPyramid},
    {"snapkv", AttentionScore, AllotEqually},
    {"kvcrush", AttentionScore, AllotEqually, Crush(Anchor::kMean)},
    {"kvcrush-random", AttentionScore, AllotEqually, Crush(Anchor::kRandom)},
    {"kvcrush-alternating", AttentionScore, AllotEqually, Crush(Anchor::kAlternating)},
    {"kvcrush-pages", AttentionScore, AllotEqually, Crush(Anchor::kMean, kCompressBlock)},
    {"recent", PositionScore, AllotEqually},
    {"spaced", SpacingScore, AllotEqually},
};

// nullptr: there is no method of this name.
const RetentionMethod* FindMethod(std::string_view name) {
  for (const RetentionMethod& method : kMethods) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

// "keep must be in (0, 1]".
Status Wrong(const char* option, const std::string& what) {
  return Status(Code::kInvalidArgument, OptionName(option) + " " + what).WithParam(option);
}

}  // namespace

std::span<const RetentionMethod> RetentionMethods() { return kMethods; }

Status CheckRetention(const Retention& retention) {
  if (!(retention.keep > 0 && retention.keep <= 1)) return Wrong("keep", "must be in (0, 1]");
  if (!(retention.representatives >= 0 && retention.representatives <= 1)) {
    return Wrong("representatives", "must be in (0, 1]");
  }
  if (FindMethod(retention.method) != nullptr) return {};
  std::string names;
  for (const RetentionMethod& method : kMethods) {
    names += (names.empty() ? "" : ", ") + std::string(method.name);
  }
  return Wrong("retention", "must be one of " + names + ", not \"" + retention.method + "\"");
}

Status CheckKeep(const Retention& retention, const RetentionShape& shape) {
  const uint64_t least = uint64_t{shape.num_layers} * shape.num_kv_heads * shape.least_kept();
  if (RowsToKeep(retention, shape) >= least) return {};
  char number[32];
  std::snprintf(number, sizeof number, "%.4f",
                std::ceil(1e4 * shape.least_kept() / shape.num_rows) / 1e4);
  return Wrong(
      "keep",
      "is below what sinks, window and one cluster of each head of this document come to; the "
      "smallest possible is " +
          std::string(number));
}

RetentionMethod MethodOf(const Retention& retention) {
  RetentionMethod method = *FindMethod(retention.method);
  if (retention.representatives > 0) method.crush.share = retention.representatives;
  return method;
}

uint64_t RowsToKeep(const Retention& retention, const RetentionShape& shape) {
  const double all = double{1} * shape.num_layers * shape.num_kv_heads * shape.num_rows;
  // The factor keeps a product such as 0.1 * 1000 from being rounded up by a binary remainder.
  return static_cast<uint64_t>(std::ceil(retention.keep * all * (1 - 1e-12)));
}

std::vector<float> EvictionOrder(const RetentionMethod& method, const RetentionShape& shape,
                                 const RowStatistics& rows) {
  std::vector<float> scores = method.score(shape, rows);
  std::fill_n(scores.begin(), shape.num_sinks, INFINITY);
  std::fill(scores.end() - shape.num_window, scores.end(), INFINITY);
  return BlockScores(std::move(scores));
}

std::vector<uint32_t> ChooseRows(const RetentionMethod& method, const RetentionShape& shape,
                                 const RowStatistics& rows, uint64_t count, uint64_t seed) {
  assert(count >= shape.least_kept() && count <= shape.num_rows);
  const uint32_t first = shape.num_sinks, last = shape.num_rows - shape.num_window;
  const uint32_t page = method.crush.page;
  const std::vector<float> scores = method.score(shape, rows);
  // Whole pages, best first; among equals in document order.
  std::vector<std::pair<float, uint32_t>> pages;
  for (uint32_t begin = first; begin + page <= last; begin += page) {
    float sum = 0;
    for (uint32_t row = begin; row < begin + page; ++row) sum += scores[row];
    pages.emplace_back(-sum, begin);
  }
  std::sort(pages.begin(), pages.end());
  const uint64_t open = count - shape.num_sinks - shape.num_window;
  const size_t kept = std::min<size_t>(open / page, pages.size());
  const auto wanted = static_cast<size_t>(method.crush.share * static_cast<double>(count) / page);
  // Each representative stands for at least one evicted page, so there are no more of them than
  // evicted pages.
  const size_t crushed = std::min({wanted, kept, pages.size() - kept});
  std::vector<uint32_t> gone;
  for (size_t i = kept - crushed; i < pages.size(); ++i) gone.push_back(pages[i].second);
  std::sort(gone.begin(), gone.end());

  std::vector<bool> stays(shape.num_rows, false);
  const auto keep = [&](uint32_t begin, uint32_t end) {
    for (uint32_t row = begin; row < end; ++row) stays[row] = true;
  };
  keep(0, first);
  keep(last, shape.num_rows);
  for (size_t i = 0; i < kept - crushed; ++i) keep(pages[i].second, pages[i].second + page);
  for (const uint32_t begin : Representatives(method.crush, rows.signatures, gone, crushed, seed)) {
    keep(begin, begin + page);
  }
  // The rest of the count is less than a page, or what is left of the document is: filled row by
  // row, best first.
  uint64_t left = open - kept * page;
  std::vector<std::pair<float, uint32_t>> singles;
  for (uint32_t row = first; left > 0 && row < last; ++row) {
    if (!stays[row]) singles.emplace_back(-scores[row], row);
  }
  std::sort(singles.begin(), singles.end());
  for (size_t i = 0; i < left; ++i) stays[singles[i].second] = true;

  std::vector<uint32_t> chosen;
  for (uint32_t row = 0; row < shape.num_rows; ++row) {
    if (stays[row]) chosen.push_back(row);
  }
  return chosen;
}

}  // namespace lectern
