// Compares a document's estimates of missed attention with the truth, which an exact run tells.
#ifndef LECTERN_ENGINE_INDEXING_MEASURE_MISSED_H_
#define LECTERN_ENGINE_INDEXING_MEASURE_MISSED_H_

#include <functional>
#include <span>
#include <string_view>

#include "engine/asking/ask.h"
#include "engine/indexing/teacher_forcing.h"

namespace lectern {

// Share of the attention on the rows that were not read, of a read in a run that attends exactly,
// mean over kv heads and query rows. `lse`: per kv head [R], of that run; `weights` as
// LookupArgs::row_weights.
double TrulyMissed(const DocumentRead& read, std::span<const std::span<float>> lse,
                   std::span<const float> weights);

// Asks exactly, and in every layer and step looks up beside it at budgets of 0.2, 0.1, 0.05 and
// 0.02: calls `body` with each that the document can serve. Returns the exact answer, of at most
// `max_tokens`; the session stands as before the first question afterwards. Errors are those of Session::Ask.
using LookedUp = std::function<void(double kv_budget, const LayerStep& step,
                                    const DocumentRead& read)>;
Result<ExactAnswer> LookUpBeside(DocumentSession& session, std::string_view question,
                                 uint32_t max_tokens, bool bound, const LookedUp& body);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_MEASURE_MISSED_H_
