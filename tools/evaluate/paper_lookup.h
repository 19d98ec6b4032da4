// Squeezed Attention as its authors have it (Hooper et al., arXiv:2411.09688, section 3 and their
// published code), over the rows of a document of ours: the baseline that our lookup is measured
// against.
//
//   clusters    5 % of the keys by K-means on unit-length keys, flat; two levels: 1 % of the keys
//               by K-means on the unit-length centroids, centroid = their unweighted mean
//   score       S_i = mean_r exp(q_r C_i / sqrt(d)) / sum_j N_j exp(q_r C_j / sqrt(d)); two levels:
//               the second denominator over children of the clusters that the first one kept
//   rule        all rows of clusters with S > T; one T per level for all layers and heads; T1 keeps
//               half of the keys
//   no tail, no row codes
//
// Ours: the mean over R runs over tokens and the query heads of the group (they have no GQA). To
// the baseline's advantage: sinks are read besides the window; T2 is not a quantile over the
// document's last 100 queries but chosen, for the question's prefill and for decoding apart, so
// that the questions themselves spend the budget.
#ifndef LECTERN_TOOLS_EVALUATE_PAPER_LOOKUP_H_
#define LECTERN_TOOLS_EVALUATE_PAPER_LOOKUP_H_

#include <array>
#include <memory>
#include <vector>

#include "engine/document.h"
#include "index/lookup.h"

namespace lectern::evaluate {

class PaperLookup {
 public:
  // K-means over every (layer, kv head) of the document. num_levels: 1 or 2.
  static Result<std::unique_ptr<PaperLookup>> Build(const Document& document,
                                                    const Backend& backend, ThreadPool& threads,
                                                    uint32_t num_levels, uint64_t seed);

  // S > T keeps a cluster; [0] while decoding, [1] in a question's prefill.
  struct Thresholds {
    std::array<double, 2> top = {0, 0}, finest = {0, 0};
  };
  // The queries of a step of a layer, all kv heads.
  struct Step {
    uint32_t layer;
    bool is_prefill;
    size_t num_rows;
    std::vector<std::vector<float>> queries;  // per kv head [R * head_dim]
  };
  static Step CopyStep(uint32_t layer, const LookupArgs& args, bool is_prefill);
  // The thresholds that spend `kv_budget` of the bytes of `steps` in the mean.
  Result<Thresholds> Calibrate(const Document& document, const Backend& backend,
                               ThreadPool& threads, const std::vector<Step>& steps,
                               double kv_budget) const;

  std::vector<HeadSelection> Select(uint32_t layer, const LookupArgs& args, bool is_prefill,
                                    const Thresholds& thresholds) const;

 private:
  struct Head {
    std::vector<float> centroids;               // [clusters, head_dim], means of raw keys
    std::vector<float> log_counts;              // [clusters]
    std::vector<std::vector<uint32_t>> rows;    // [clusters]: stored rows, ascending
    std::vector<float> top;                     // [top clusters, head_dim]; empty: one level
    std::vector<float> top_log_counts;          // of keys
    std::vector<std::vector<uint32_t>> children;  // [top clusters]: clusters, ascending
  };
  // Score and bytes of each candidate cluster of a step.
  struct Candidates {
    std::vector<uint32_t> clusters;
    std::vector<float> scores;
    uint64_t lookup_bytes = 0;
  };

  static Status BuildHead(const HeadIndex& index, const Backend& backend, uint32_t num_levels,
                          uint64_t seed, Head& head);
  static std::vector<float> Scores(const LookupArgs& args, size_t h,
                                   const std::vector<float>& centroids,
                                   const std::vector<float>& log_counts,
                                   const std::vector<uint32_t>& chosen);
  Candidates ScoreHead(uint32_t layer, const LookupArgs& args, size_t h, double top_threshold) const;

  std::vector<std::vector<Head>> layers_;
  uint32_t num_levels_ = 1;
};

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_PAPER_LOOKUP_H_
