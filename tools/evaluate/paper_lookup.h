// The baseline of lectern-evaluate: Squeezed Attention as its authors have it (Hooper et al.,
// arXiv:2411.09688, section 3 and their published code), over the rows of a Lectern document. The
// evaluation builds it with several seeds and takes the one whose error is least.
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

// Const members may be called from any thread once it is built.
class PaperLookup {
 public:
  // Clusters the keys of every layer and kv head of the document, on both levels. Windowed layers,
  // which are always read whole, get none. Nothing of the document is kept but numbers of rows.
  // Codes of Document::Heads and KMeans; kChecksumMismatch.
  static Result<std::unique_ptr<PaperLookup>> Build(const Document& document,
                                                    const Backend& backend, ThreadPool& threads,
                                                    uint64_t seed);

  // A cluster is kept if its score S is above T. Each pair: [0] while decoding, [1] in a question's
  // prefill.
  struct Thresholds {
    std::array<double, 2> top = {0, 0};         // T1, of the coarse level; unused with one level
    std::vector<std::array<double, 2>> finest;  // [budgets]: T2
  };
  // A copy of the queries of one step of one layer.
  struct Step {
    uint32_t layer;
    bool is_prefill;                          // of a question; else of one token of an answer
    size_t num_rows;                          // R: tokens times query heads of a kv head
    float softcap;                            // of the model's logits; 0: none
    std::vector<std::vector<float>> queries;  // [kv heads][R * head_dim], after RoPE, not scaled
  };
  // Copies the queries of `args`, which may be gone afterwards.
  static Step CopyStep(uint32_t layer, const LookupArgs& args, bool is_prefill);
  // Finds the thresholds with which `steps` spend each of `kv_budgets` of the bytes in the mean,
  // for a lookup of `num_levels`, 1 or 2. A budget that centroids, sinks and window already exceed
  // gets the highest score: next to nothing is kept. One that pays for all clusters, or a phase
  // that no step is of, gets -1: everything is kept. Codes of Document::Heads.
  Result<Thresholds> Calibrate(const Document& document, const Backend& backend,
                               ThreadPool& threads, const std::vector<Step>& steps,
                               uint32_t num_levels, const std::vector<double>& kv_budgets) const;

  // The finest clusters of a kv head that the first level keeps (all, with one level), their
  // scores, and the bytes that were read to find them.
  struct Candidates {
    std::vector<uint32_t> clusters;
    std::vector<float> scores;
    uint64_t lookup_bytes = 0;
  };
  // Scores the clusters for one step of one layer. [kv heads]; the same at every budget.
  std::vector<Candidates> Score(uint32_t layer, const LookupArgs& args, uint32_t num_levels,
                                double top_threshold) const;
  // Selects the rows of the candidates whose scores are above the threshold, with the bytes of
  // lookup, sinks, window and rows. [kv heads].
  std::vector<HeadSelection> Select(uint32_t layer, const LookupArgs& args,
                                    const std::vector<Candidates>& candidates,
                                    double finest_threshold) const;

 private:
  // The clusters of one kv head in one layer.
  struct Head {
    std::vector<float> centroids;                 // [clusters, head_dim], means of raw keys
    std::vector<float> log_counts;                // [clusters]
    std::vector<std::vector<uint32_t>> rows;      // [clusters]: stored rows, ascending
    std::vector<float> top;                       // [top clusters, head_dim]
    std::vector<float> top_log_counts;            // of keys
    std::vector<std::vector<uint32_t>> children;  // [top clusters]: clusters, ascending
  };

  // Build, Score and their scores for one head; the .cc says more.
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
