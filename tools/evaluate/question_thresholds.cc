#include "tools/evaluate/question_thresholds.h"

#include <cmath>

#include "index/calibrate.h"

namespace lectern::evaluate {
namespace {

// How many of kRowCounts, from the first on (1 and 8 query rows), count as those of one token. A
// token has a query row for each head of its group.
constexpr size_t kOneTokenRows = 2;

// The parts of a head's tree that calibration needs, copied: centroids and key counts of each
// level.
Result<CentroidTree> TreeOf(const HeadIndex& head) {
  CentroidTree tree;
  for (size_t l = 0; l < head.levels().size(); ++l) {
    const HeadIndex::Level& level = head.levels()[l];
    const auto num_clusters = static_cast<uint32_t>(level.num_clusters());
    LECTERN_RETURN_IF_ERROR(head.VerifyCentroids(l, {0, num_clusters}));
    TreeLevel& copy = tree.levels.emplace_back();
    const std::byte* const centroids = level.centroids.data;
    copy.centroids.assign(centroids, centroids + num_clusters * level.centroids.row_bytes());
    copy.key_counts.assign(level.key_counts.begin(), level.key_counts.end());
  }
  return tree;
}

// The query rows of a kv head in all steps of a kind, one step after the other.
std::vector<float> Queries(const std::vector<PaperLookup::Step>& steps, uint32_t layer, size_t head,
                           bool is_prefill) {
  std::vector<float> rows;
  for (const PaperLookup::Step& step : steps) {
    if (step.layer != layer || step.is_prefill != is_prefill) continue;
    rows.insert(rows.end(), step.queries[head].begin(), step.queries[head].end());
  }
  return rows;
}

// CalibrateThresholds with the scale of all models here.
std::vector<float> Calibrate(const Backend& backend, const CentroidTree& tree,
                             const std::vector<float>& queries, size_t dim, float softcap) {
  return CalibrateThresholds(backend, tree, {queries.data(), queries.size() / dim, dim},
                             1 / std::sqrt(static_cast<float>(dim)), softcap);
}

}  // namespace

Result<RecalibratedHeads> CalibrateOnSteps(const Document& document, const Backend& backend,
                                           const std::vector<PaperLookup::Step>& steps) {
  const size_t dim = document.shape().head_dim;
  RecalibratedHeads result;
  result.layers.resize(document.num_layers());
  const float softcap = steps.empty() ? 0 : steps.front().softcap;
  for (uint32_t layer = 0; layer < document.num_layers(); ++layer) {
    if (document.is_windowed(layer)) continue;  // it has no clusters, and no selector is asked
    LECTERN_ASSIGN(const auto heads, document.Heads(layer));
    for (size_t h = 0; h < heads.size(); ++h) {
      LECTERN_ASSIGN(const CentroidTree tree, TreeOf(heads[h]));
      const auto of_kind = [&](bool is_prefill) {
        return Calibrate(backend, tree, Queries(steps, layer, h, is_prefill), dim, softcap);
      };
      std::vector<float> thresholds = of_kind(true);
      const std::vector<float> of_answers = of_kind(false);
      for (size_t i = 0; i < thresholds.size(); ++i) {
        if (i % kThresholdsPerLevel < kOneTokenRows * kKeptShares.size()) {
          thresholds[i] = of_answers[i];
        }
      }
      result.thresholds.push_back(std::move(thresholds));
      result.layers[layer].push_back(heads[h].WithThresholds(result.thresholds.back()));
    }
  }
  return result;
}

}  // namespace lectern::evaluate
