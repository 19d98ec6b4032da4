// The interface of budget policies: from statistics of a document they decide how a limit on the
// keys and values that one step of the model may read is shared among layers and heads.
//
// A policy for layers says how much each layer reads, a policy for heads how the kv heads of a
// layer share that. index/budget_plan.h combines one of each, with floors, exact to the row.
#ifndef LECTERN_INDEX_POLICIES_POLICY_H_
#define LECTERN_INDEX_POLICIES_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lectern {

// The document and budget that a policy decides for.
struct PolicyInput {
  uint32_t num_layers = 0, num_kv_heads = 0;
  std::vector<uint64_t> rows;  // [layers][kv heads]: stored rows, > 0
  uint32_t num_protected = 0;  // sinks and window of each kv head, which are always read
  double kv_budget = 1;        // (0, 1]: share of all stored rows
  double kept_share = 1;       // share of the document's rows that is stored
  // [layers]: rows that each layer reads at least; MakePlan fills this in.
  std::vector<double> floors;

  // Statistics. Empty where the document has none.
  // [layers]: mean cosine of the residual stream before and after attention.
  std::vector<double> cosine;
  // [layers][kv heads]: block scores (index/policies/kv_compress.h) by squared and by plain
  // attention of the last tokens, and by squared attention of all tokens.
  std::vector<std::span<const float>> block_scores, plain_block_scores, full_block_scores;
};

enum class Statistic { kNone, kCosine, kBlockScores, kPlainBlockScores, kFullBlockScores };

struct Policy {
  std::string_view name;
  bool for_layers, for_heads;  // whether it can decide over layers, over heads
  // True: the heads of a layer share its bytes anew in every step, so the policy decides nothing.
  bool heads_compete;
  Statistic needs;
  // [layers][kv heads]: the share of its rows that each kv head should read, >= 0. Only ratios
  // count: the plan scales the shares so that their mean over rows is kv_budget, none below a floor
  // or above 1.
  std::vector<double> (*shares)(const PolicyInput&);
};

// All policies; the span lives forever. To add one, add a file, a declaration and an entry in
// policy.cc.
std::span<const Policy> Policies();

// Policy::shares of the policies; the file of each (uniform.cc, …) says what it computes. `input`
// has the statistics that the policy needs.
std::vector<double> UniformShares(const PolicyInput& input);
std::vector<double> PyramidShares(const PolicyInput& input);
std::vector<double> SqueezeShares(const PolicyInput& input);
// Squeeze with another p, the share of its budget that the third group keeps.
std::vector<double> SqueezeShares(const PolicyInput& input, double kept);
std::vector<double> KvCompressShares(const PolicyInput& input);
std::vector<double> DenseFirstShares(const PolicyInput& input);
std::vector<double> KvCompressPlainShares(const PolicyInput& input);
std::vector<double> KvCompressFullShares(const PolicyInput& input);

}  // namespace lectern

#endif  // LECTERN_INDEX_POLICIES_POLICY_H_
