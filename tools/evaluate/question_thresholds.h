// An experiment for lectern-evaluate: thresholds of --rule threshold that are calibrated on queries
// of questions, where a document's own are calibrated on its last tokens (index/calibrate.h).
#ifndef LECTERN_TOOLS_EVALUATE_QUESTION_THRESHOLDS_H_
#define LECTERN_TOOLS_EVALUATE_QUESTION_THRESHOLDS_H_

#include <vector>

#include "tools/evaluate/paper_lookup.h"

namespace lectern::evaluate {

// The kv heads of a document with other thresholds. They borrow the document and `thresholds`: do
// not copy it.
struct RecalibratedHeads {
  std::vector<std::vector<HeadIndex>> layers;  // [layers][kv heads]
  std::vector<std::vector<float>> thresholds;  // the memory of the heads' thresholds
};

// Calibrates every head on `steps`: the thresholds for one token on the steps of answers, those for
// more tokens on the steps of questions, one question after the other. Borrows the document, which
// outlives the result. Windowed layers have no heads in it. Codes of Document::Heads, and
// kChecksumMismatch.
Result<RecalibratedHeads> CalibrateOnSteps(const Document& document, const Backend& backend,
                                           const std::vector<PaperLookup::Step>& steps);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_QUESTION_THRESHOLDS_H_
