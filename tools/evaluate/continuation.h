// Measures how well a model predicts the end of a real document when it reads the rest of it at a
// budget: perplexity, and how far each prediction is from exact mode's.
#ifndef LECTERN_TOOLS_EVALUATE_CONTINUATION_H_
#define LECTERN_TOOLS_EVALUATE_CONTINUATION_H_

#include <span>
#include <string>

#include "engine/engine.h"
#include "tools/evaluate/raw_results.h"

namespace lectern::evaluate {

// Takes the last `num_tokens` tokens off the document `name`, indexes the rest as "NAME without its
// last N tokens", and feeds the tokens one by one, as a decoded answer would be, at each budget (0:
// the automatic one) and exactly beside it. Adds to `results` what they lack: figures
// "continuation_nats" and "exact_nats" (mean negative log-likelihood of a token), "kl" (mean),
// "same" (share of predictions whose likeliest token is exact mode's), "tokens" (of the rest),
// "kv_budget". `num_tokens`: at least 2, as the first token is given and not predicted. The rest
// stays in the store for later runs; does nothing where `results` lack nothing. Prints its progress
// on stderr. kInvalidArgument: a document that is not longer than `num_tokens`, or an end of which
// nothing is predicted. Errors of Open, Index, Step and RawResults::Add.
Status MeasureContinuation(Engine& engine, const std::string& name, uint32_t num_tokens,
                           std::span<const double> budgets, RawResults& results);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_CONTINUATION_H_
