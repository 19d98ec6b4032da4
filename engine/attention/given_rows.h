// Attends to given tokens of a document in every layer and kv head, in place of the rows that a
// lookup would choose, or beside them.
#ifndef LECTERN_ENGINE_ATTENTION_GIVEN_ROWS_H_
#define LECTERN_ENGINE_ATTENTION_GIVEN_ROWS_H_

#include <cstdint>
#include <vector>

#include "engine/attention/document_attention.h"
#include "index/budget_plan.h"
#include "index/head_index.h"

namespace lectern {

// The rows of the given tokens, found layer by layer when they are first needed. One thread at a
// time.
class GivenRows {
 public:
  // `tokens` [tokens of the fixed context]: whether the token is read. `num_layers`: the model's.
  // The given tokens alone are read.
  GivenRows(std::vector<bool> tokens, size_t num_layers);
  // A lookup chooses further rows, within these shares of the document's layers and heads.
  GivenRows(std::vector<bool> tokens, BudgetPlan lookup);
  GivenRows(const GivenRows&) = delete;
  GivenRows& operator=(const GivenRows&) = delete;

  size_t num_tokens() const { return num_tokens_; }  // that are given
  bool looks_up() const { return looks_up_; }        // whether a lookup chooses rows, too
  // The shares of the lookup. Without one: shares of every layer that are below 1, so that no layer
  // is read whole instead.
  const BudgetPlan& plan() const { return plan_; }
  // Selects those rows beside sinks and window, and no tail: a row that is not read does not count.
  // In a document without clusters, which stores neither apart, it selects the given tokens alone.
  // It refers to this object.
  const Selector& selector() const { return selector_; }

 private:
  // The given rows of a layer's kv heads; `heads`: the layer's.
  const std::vector<HeadSelection>& Select(uint32_t layer, std::span<const HeadIndex> heads);
  // The same with the rows that a lookup chooses. Errors of Lookup.
  Result<std::vector<HeadSelection>> SelectBeside(uint32_t layer, const LookupArgs& args);

  const std::vector<bool> tokens_;
  const size_t num_tokens_;
  const bool looks_up_;
  const BudgetPlan plan_;
  std::vector<std::vector<HeadSelection>> layers_;  // [layers so far][kv heads]; empty: not yet
  Selector selector_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_GIVEN_ROWS_H_
