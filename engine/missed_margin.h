// How much larger the attention that a step misses is than the lookup's estimate of it.
#ifndef LECTERN_ENGINE_MISSED_MARGIN_H_
#define LECTERN_ENGINE_MISSED_MARGIN_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/ask.h"

namespace lectern {

// What a step of a layer missed, mean over kv heads and query rows (by their weights).
struct Missed {
  double truth = 0;     // share of the exact attention on the rows that were not read
  double estimate = 0;  // DocumentRead::missed_mass
};

// Of a read with `read_lse`, in a run that attends exactly. `lse`: per kv head [R], of that run;
// `weights` as LookupArgs::row_weights.
double TrulyMissed(const DocumentRead& read, std::span<const std::span<float>> lse,
                   std::span<const float> weights);

// log odds of the truth less those of the estimate.
double MissedScore(const Missed& missed);

// What to add to the log odds of an estimate so that it is large enough for a share `coverage` of
// what comes next, when that is drawn like the samples: the ceil((n + 1) coverage)-th smallest
// score (split conformal prediction), the largest where there are too few. At least 0; n >= 1.
double ConformalMargin(const std::vector<Missed>& samples, double coverage);

inline constexpr double kMissedCoverage = 0.99;

// Asks exactly, and in every layer and step looks up beside it at budgets of 0.2, 0.1 and 0.05:
// calls `body` with each that the document can serve. The session stands as before the first
// question afterwards. Errors are those of Session::Ask.
using LookedUp = std::function<void(double kv_budget, const DocumentSession::LayerStep& step,
                                    const DocumentRead& read)>;
Status LookUpBeside(DocumentSession& session, std::string_view question, uint32_t max_tokens,
                    Proof proof, const LookedUp& body);

// Of the kinds that documents are asked, but about none of them.
std::span<const char* const> GenericQuestions();

// What generic questions miss. Empty where there are no clusters, or no such budget can be served.
// kCancelled when `stopped` says so.
Result<std::vector<Missed>> SampleMissed(DocumentSession& session,
                                         const std::function<bool()>& stopped);
// Document::missed_margin of a document, by the plan that it has. Empty as above.
Result<std::optional<double>> MeasureMargin(std::shared_ptr<const Document> document,
                                            const Model& model, const Backend& backend,
                                            ThreadPool& threads,
                                            const std::function<bool()>& stopped);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MISSED_MARGIN_H_
