// Asks a finished document a few questions, exactly and sparsely, and learns what its estimates of
// missed attention are worth and how far answers diverge at smaller budgets.
#ifndef LECTERN_ENGINE_INDEXING_CALIBRATE_DOCUMENT_H_
#define LECTERN_ENGINE_INDEXING_CALIBRATE_DOCUMENT_H_

#include <functional>
#include <memory>

#include "engine/asking/ask.h"
#include "engine/document/divergence_curve.h"
#include "engine/document/missed_calibration.h"

namespace lectern {

// The measurements that are stored with a document.
struct Calibration {
  MissedCalibration missed;
  DivergenceCurve divergence;
};

// The most tokens of an answer to a question of CalibrationQuestions.
inline constexpr uint32_t kMostCalibrationTokens = 9;

// Memory in bytes that measuring takes beside the session that asks: logits of exact answers.
uint64_t CalibrationBytes(const ModelConfig& config);

// Asks `document` the questions of CalibrationQuestions at `placement`, with the plan that the
// document has. Each is answered exactly; beside it, every layer looks up at several budgets, which
// gives `missed` (LookUpBeside). Then the answer's first tokens are forced at two or three budgets,
// which gives `divergence`: at 0.1, at 0.05 if that keeps `max_divergence`, at larger ones until
// one keeps it. Nothing is measured where there are no clusters; `divergence` has no budget that
// the document cannot serve. Uses all of the threads; borrows all but document and placement until
// it returns. `stopped`, never empty, is polled on the calling thread before each question:
// kCancelled when it says so. Errors of DocumentSession.
Result<Calibration> CalibrateDocument(std::shared_ptr<const Document> document, const Model& model,
                                      const Backend& backend, ThreadPool& threads,
                                      double max_divergence, const std::function<bool()>& stopped,
                                      const Placement& placement = {});

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_CALIBRATE_DOCUMENT_H_
