// Squeezed Attention as its authors have it (Hooper et al., arXiv:2411.09688, section 3 and their
// published code), over the rows of a document of ours: the baseline that our lookup is measured
// against. The evaluation builds it with several seeds and takes the best by the error it measures.
//
//   clusters    5 % of the keys by K-means on unit-length keys, flat; two levels: 1 % of the keys
//               by K-means on the unit-length centroids, centroid = their unweighted mean
//   score       S_i = mean_r exp(q_r C_i / sqrt(d)) / sum_j N_j exp(q_r C_j / sqrt(d)); two levels:
//               the second denominator over children of the clusters that the first one kept
//   rule        all rows of clusters with S > T; one T per level for all layers and heads; T1 keeps
//               half of the keys
//   window      the last 100 tokens, always read; no tail
//
// Ours: the mean over R runs over tokens and the query heads of the group (they have no GQA). To
// the baseline's advantage: sinks are read too, because the engine's attention always does; T2 is
// not a quantile over the document's last 100 queries but chosen, for the question's prefill and
// for decoding apart, so that the questions themselves spend the budget.
#ifndef LECTERN_TOOLS_EVALUATE_PAPER_LOOKUP_H_
#define LECTERN_TOOLS_EVALUATE_PAPER_LOOKUP_H_

#include <array>
#include <memory>
#include <vector>

#include "engine/document/document.h"
#include "index/lookup.h"

namespace lectern::evaluate {

class PaperLookup {
 public:
  // K-means over every (layer, kv head) of the document, of both levels. Windowed layers, which are
  // always read whole, have none.
  static Result<std::unique_ptr<PaperLookup>> Build(const Document& document,
                                                    const Backend& backend, ThreadPool& threads,
                                                    uint64_t seed);

  // S > T keeps a cluster; [0] while decoding, [1] in a question's prefill.
  struct Thresholds {
    std::array<double, 2> top = {0, 0};
    std::vector<std::array<double, 2>> finest;  // [budgets]
  };
  // The queries of a step of a layer, all kv heads.
  struct Step {
    uint32_t layer;
    bool is_prefill;
    size_t num_rows;
    float softcap;  // of the model's logits; 0: none
    std::vector<std::vector<float>> queries;  // per kv head [R * head_dim]
  };
  static Step CopyStep(uint32_t layer, const LookupArgs& args, bool is_prefill);
  // The thresholds that spend each of `kv_budgets` of the bytes of `steps` in the mean, for a
  // lookup of `num_levels`, 1 or 2. kChecksumMismatch.
  Result<Thresholds> Calibrate(const Document& document, const Backend& backend,
                               ThreadPool& threads, const std::vector<Step>& steps,
                               uint32_t num_levels, const std::vector<double>& kv_budgets) const;

  // Scores of the finest clusters of a kv head that the first level keeps, and bytes to get there.
  struct Candidates {
    std::vector<uint32_t> clusters;
    std::vector<float> scores;
    uint64_t lookup_bytes = 0;
  };
  // Per kv head; the same at every budget.
  std::vector<Candidates> Score(uint32_t layer, const LookupArgs& args, uint32_t num_levels,
                                double top_threshold) const;
  // Per kv head: the rows of the candidates above the threshold.
  std::vector<HeadSelection> Select(uint32_t layer, const LookupArgs& args,
                                    const std::vector<Candidates>& candidates,
                                    double finest_threshold) const;

 private:
  struct Head {
    std::vector<float> centroids;                 // [clusters, head_dim], means of raw keys
    std::vector<float> log_counts;                // [clusters]
    std::vector<std::vector<uint32_t>> rows;      // [clusters]: stored rows, ascending
    std::vector<float> top;                       // [top clusters, head_dim]
    std::vector<float> top_log_counts;            // of keys
    std::vector<std::vector<uint32_t>> children;  // [top clusters]: clusters, ascending
  };

  static Status BuildHead(const HeadIndex& index, const Backend& backend, uint64_t seed,
                          Head& head);
  static std::vector<float> Scores(const LookupArgs& args, size_t h,
                                   const std::vector<float>& centroids,
                                   const std::vector<float>& log_counts,
                                   const std::vector<uint32_t>& chosen);
  Candidates ScoreHead(uint32_t layer, const LookupArgs& args, size_t h, uint32_t num_levels,
                       double top_threshold) const;

  std::vector<std::vector<Head>> layers_;
};

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_PAPER_LOOKUP_H_
