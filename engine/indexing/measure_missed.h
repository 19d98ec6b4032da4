// Asks a document what its estimates of missed attention are worth.
#ifndef LECTERN_ENGINE_INDEXING_MEASURE_MISSED_H_
#define LECTERN_ENGINE_INDEXING_MEASURE_MISSED_H_

#include <functional>
#include <memory>
#include <vector>

#include "engine/asking/ask.h"
#include "engine/document/missed_calibration.h"

namespace lectern {

// Share of the attention on the rows that were not read, of a read in a run that attends exactly,
// mean over kv heads and query rows. `lse`: per kv head [R], of that run; `weights` as
// LookupArgs::row_weights.
double TrulyMissed(const DocumentRead& read, std::span<const std::span<float>> lse,
                   std::span<const float> weights);

// Asks exactly, and in every layer and step looks up beside it at budgets of 0.2, 0.1, 0.05 and
// 0.02: calls `body` with each that the document can serve. The session stands as before the first
// question afterwards. Errors are those of Session::Ask.
using LookedUp = std::function<void(double kv_budget, const LayerStep& step,
                                    const DocumentRead& read)>;
Status LookUpBeside(DocumentSession& session, std::string_view question, uint32_t max_tokens,
                    bool bound, const LookedUp& body);

// Questions of the kinds that documents are asked, but about none of them.
std::span<const char* const> GenericQuestions();
inline constexpr uint32_t kGenericAnswerTokens = 8;  // of the answers to them that are measured

// Document::missed_calibration of a document, by the plan that it has, on what generic questions
// miss, which are asked at `placement`. Not measured where there are no clusters, or none of the
// budgets can be served. kCancelled when `stopped` says so; errors of DocumentSession.
Result<MissedCalibration> MeasureMissed(std::shared_ptr<const Document> document,
                                        const Model& model, const Backend& backend,
                                        ThreadPool& threads, const std::function<bool()>& stopped,
                                        const Placement& placement = {});

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_MEASURE_MISSED_H_
