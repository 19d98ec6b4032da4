// Budget policies: statistics of a document -> how the rows that a step may read are shared out.
//
// A policy for layers says how much each layer reads, a policy for heads how the kv heads of a
// layer share that. index/budget_plan.h puts one of each together, with floors, exact to the row.
#ifndef LECTERN_INDEX_POLICIES_POLICY_H_
#define LECTERN_INDEX_POLICIES_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lectern {

// A document and a budget.
struct PolicyInput {
  uint32_t num_layers = 0, num_kv_heads = 0;
  std::vector<uint64_t> rows;  // [layers][kv heads]: stored rows, > 0
  uint32_t num_protected = 0;  // sinks and window of each kv head, which are always read
  double kv_budget = 1;        // (0, 1]: share of all stored rows
  double kept_share = 1;       // of the document's rows, those that are stored
  std::vector<double> floors;  // [layers]: rows that each reads at least; MakePlan fills them in

  // Statistics. Empty where the document has none.
  std::vector<double> cosine;  // [layers]: residual stream before and after attention, mean
  // [layers][kv heads]: index/policies/kv_compress.h; by squared and by plain attention of the last
  // tokens, and by squared attention of all.
  std::vector<std::span<const float>> block_scores, plain_block_scores, full_block_scores;
};

enum class Statistic { kNone, kCosine, kBlockScores, kPlainBlockScores, kFullBlockScores };

struct Policy {
  std::string_view name;
  bool for_layers, for_heads;  // what it can decide
  // Heads of a layer share its bytes question by question, all together: nothing is decided.
  bool heads_compete;
  Statistic needs;
  // [layers][kv heads]: the share of its rows that each kv head would read, >= 0. The plan makes
  // them kv_budget in the mean (by rows), none below a floor or above 1: their ratios count.
  std::vector<double> (*shares)(const PolicyInput&);
};

// Every policy there is: a new one is a file, a declaration and an entry.
std::span<const Policy> Policies();

std::vector<double> UniformShares(const PolicyInput& input);
std::vector<double> PyramidShares(const PolicyInput& input);
std::vector<double> SqueezeShares(const PolicyInput& input);
// The same with the share that the third group keeps of its budget, the paper's p.
std::vector<double> SqueezeShares(const PolicyInput& input, double kept);
std::vector<double> KvCompressShares(const PolicyInput& input);
std::vector<double> DenseFirstShares(const PolicyInput& input);
std::vector<double> KvCompressPlainShares(const PolicyInput& input);
std::vector<double> KvCompressFullShares(const PolicyInput& input);

}  // namespace lectern

#endif  // LECTERN_INDEX_POLICIES_POLICY_H_
