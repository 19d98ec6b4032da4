// Shared by the lookup's tests: a text indexed with the tiny model (1 to 3 levels, f16), queries to
// it, and the formulas in double.
#ifndef LECTERN_TESTS_INDEX_LOOKUP_CASE_H_
#define LECTERN_TESTS_INDEX_LOOKUP_CASE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "index/lookup.h"
#include "index/row_codes.h"
#include "tests/engine/test_documents.h"
#include "tests/index/decoded_codes.h"

namespace lectern::testing {

inline constexpr size_t kDim = 16;  // of the tiny model
inline constexpr float kScale = 0.25f;
inline constexpr uint32_t kLayer = 1;

// Indexed once for all tests of this program. `by_queries`: its heads have metrics.
inline const Document& IndexedDocument(uint32_t num_levels, bool by_queries = false) {
  static TempFolder folder;
  static std::map<std::pair<uint32_t, bool>, TokenDocument> documents;
  const std::pair key(num_levels, by_queries);
  if (!documents.contains(key)) {
    const auto model = Model::Load(Env::Default(), TinyModel());
    const auto tokens = (*model)->EncodeDocument(InventedText(16000, 11));
    TokenDocumentOptions options;
    options.kv_dtype = Dtype::kF16;
    options.num_levels = num_levels;
    options.by_queries = by_queries;
    const std::string path =
        folder.path() + "/" + std::to_string(num_levels) + (by_queries ? "q" : "");
    documents[key] = IndexTokens(TinyModel(), tokens->ids, path, options);
  }
  return *documents[key].document;
}

// The kv heads of layer kLayer of that document.
inline std::span<const HeadIndex> Heads(uint32_t num_levels, bool by_queries = false) {
  return *IndexedDocument(num_levels, by_queries).Heads(kLayer);
}

// M query, as FORMAT.md defines it; the query itself where the head has no metric.
inline std::vector<double> Measured(const HeadIndex& head, const float* query) {
  if (head.metric() == nullptr) return {query, query + kDim};
  std::vector<double> measured(kDim);
  const std::vector<f16> stored = head.metric()->Stored();
  const f16* next = stored.data();
  for (size_t i = 0; i < kDim; ++i) {
    for (size_t j = 0; j <= i; ++j) measured[i] += double{ToFloat(*next++)} * query[j];
  }
  return measured;
}

// Query rows of every kv head: each asks for one key, more or less; `sharpness` times as long.
// `views` are of `data`: do not copy it.
struct Queries {
  Queries(std::span<const HeadIndex> heads, size_t num_rows, unsigned seed, float sharpness = 1) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, 1);
    for (const HeadIndex& head : heads) {
      std::vector<float> rows;
      for (size_t r = 0; r < num_rows; ++r) {
        const IndexRange block =
            head.ClusterRows(engine() % static_cast<uint32_t>(head.levels().back().num_clusters()));
        const std::vector<float> key = Floats(head.Keys(block).Slice(0, 1));
        for (const float x : key) rows.push_back(sharpness * (1.5f * x + normal(engine)));
      }
      data.push_back(std::move(rows));
    }
    for (const auto& rows : data) views.emplace_back(rows.data(), num_rows, kDim);
  }
  std::vector<std::vector<float>> data;
  std::vector<Rows<const float>> views;
};

// The members of ranges; fails the test where they do not ascend, overlap or are empty.
inline std::set<uint32_t> ToSet(const std::vector<IndexRange>& ranges) {
  std::set<uint32_t> all;
  uint32_t end = 0;
  for (const IndexRange& range : ranges) {
    EXPECT_LT(range.begin, range.end);
    EXPECT_GE(range.begin, end) << "ranges are not ascending and disjoint";
    end = range.end;
    for (uint32_t i = range.begin; i < range.end; ++i) all.insert(i);
  }
  return all;
}

// The finest cluster that has the stored row `row`, which is no sink and not in the window.
inline uint32_t FinestOf(const HeadIndex& head, uint32_t row) {
  const auto& rows = head.levels().back().children;
  return static_cast<uint32_t>(std::upper_bound(rows.begin(), rows.end(), row) - rows.begin()) - 1;
}

// Bytes of a selection, counted from what it lists alone.
inline uint64_t CountedBytes(const HeadIndex& head, const HeadSelection& selection) {
  constexpr uint64_t kRow = kDim * 2, kCode = kDim / 8 + 1, kFineCode = kDim / 4 + 1, kCount = 4,
                     kVariance = 4, kMetric = kDim * (kDim + 1) / 2 * 2;
  uint64_t bytes = head.metric() != nullptr ? kMetric : 0;
  bytes += head.num_exact() * 2 * kRow + selection.rows.size() * 2 * kRow;
  bytes += selection.refined.size() * kFineCode;
  for (size_t level = 0; level < selection.looked_up.size(); ++level) {
    bytes += ToSet(selection.looked_up[level]).size() * (kRow + kCount + kVariance);
    bytes += ToSet(selection.tail[level]).size() * kRow;
  }
  for (const uint32_t cluster : ToSet(selection.coded)) {
    bytes += head.levels().back().key_counts[cluster] * kCode;
  }
  bytes += ToSet(selection.logit_tail.clusters).size() * kRow;
  return bytes;
}

// kScale times the product of the query with each of the rows, [rows / kDim].
inline std::vector<double> Logits(const float* query, const std::vector<float>& rows) {
  std::vector<double> logits(rows.size() / kDim);
  for (size_t j = 0; j < logits.size(); ++j) {
    for (size_t c = 0; c < kDim; ++c) logits[j] += double{query[c]} * rows[j * kDim + c];
    logits[j] *= kScale;
  }
  return logits;
}

// Log of the mean mass of a key of each cluster: by its centroid, and its variance (formula of
// kernels/second_order.h).
inline std::vector<double> MassLogits(const HeadIndex& head, const HeadIndex::Level& level,
                                      const float* query, double stretch = 1) {
  std::vector<double> logits = Logits(query, Floats(level.centroids));
  double squares = 0;
  for (const double x : Measured(head, query)) squares += x * x;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double deviation = stretch * kScale * std::sqrt(squares * level.variances[i]);
    const double log_count = std::log(level.key_counts[i]), largest = std::sqrt(2 * log_count);
    logits[i] += deviation < largest ? deviation * deviation / 2 : deviation * largest - log_count;
  }
  return logits;
}

// Stand-ins for the rotated residuals of a cluster's rows: by fine code where `refined` (ascending
// stored rows) has the row.
inline std::vector<float> Residuals(const HeadIndex& head, uint32_t cluster,
                                    const std::vector<uint32_t>& refined) {
  const IndexRange rows = head.ClusterRows(cluster);
  std::vector<float> residuals(rows.size() * kDim);
  for (uint32_t row = rows.begin; row < rows.end; ++row) {
    const bool is_refined = std::binary_search(refined.begin(), refined.end(), row);
    const std::vector<float> residual =
        is_refined ? DecodedFine(head.RowCodes(row), head.FineCodes(row), kDim)
                   : DecodedRow(head.RowCodes(row), kDim);
    std::copy(residual.begin(), residual.end(), &residuals[(row - rows.begin) * kDim]);
  }
  return residuals;
}

// The measured query, rotated as residuals are.
inline std::vector<float> Rotated(const HeadIndex& head, const float* query) {
  const std::vector<double> measured = Measured(head, query);
  std::vector<float> rotated(measured.begin(), measured.end());
  Rotate(rotated);
  return rotated;
}

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_INDEX_LOOKUP_CASE_H_
