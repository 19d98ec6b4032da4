// Measures how far a document's estimates of missed attention are from the truth, which an exact
// run gives. Calibration while indexing, and evaluations, use it.
#ifndef LECTERN_ENGINE_INDEXING_MEASURE_MISSED_H_
#define LECTERN_ENGINE_INDEXING_MEASURE_MISSED_H_

#include <functional>
#include <span>
#include <string_view>

#include "engine/asking/ask.h"
#include "engine/indexing/teacher_forcing.h"

namespace lectern {

// Returns the share of attention, in [0, 1], on rows that a lookup did not read, in a run that
// attends exactly: mean over kv heads and query rows. `lse`: per kv head [R], log-sum-exp over all
// keys in that run. `weights`: [R], as LookupArgs::row_weights; empty: all rows count alike. `read`
// is not exact.
double TrulyMissed(const DocumentRead& read, std::span<const std::span<float>> lse,
                   std::span<const float> weights);

// Called for one layer of one step at one budget: the exact run's data, and what the lookup read.
using LookedUp = std::function<void(double kv_budget, const LayerStep& step,
                                    const DocumentRead& read)>;
// Asks `question` exactly, and in every layer and step also looks up at budgets of 0.2, 0.1, 0.05
// and 0.02; calls `body` for each budget that the document can serve. Does not call it where a
// lookup reads everything: such a read misses nothing. `bound`: also finds
// DocumentRead::missed_bound. Returns the exact answer, of at most `max_tokens` tokens. Afterwards
// the session has forgotten its conversation, also after an error. Replaces Probe::on_layer, and
// leaves it empty. After a lookup's error the answer is still finished, without `body`, and that
// error is returned. Errors of AskExactly and of DocumentSession::SmallestServed.
Result<ExactAnswer> LookUpBeside(DocumentSession& session, std::string_view question,
                                 uint32_t max_tokens, bool bound, const LookedUp& body);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_MEASURE_MISSED_H_
