// Thresholds T of --rule threshold from queries of questions, where the document's own are from its
// last tokens (index/calibrate.h).
#ifndef LECTERN_TOOLS_EVALUATE_QUESTION_THRESHOLDS_H_
#define LECTERN_TOOLS_EVALUATE_QUESTION_THRESHOLDS_H_

#include <vector>

#include "tools/evaluate/paper_lookup.h"

namespace lectern::evaluate {

// The kv heads of a document with other thresholds.
struct RecalibratedHeads {
  std::vector<std::vector<HeadIndex>> layers;  // [layers][kv heads]
  std::vector<std::vector<float>> thresholds;  // what they borrow
};

// Calibrates on `steps`: for one token on those of answers, for more on those of questions, one
// question after the other. Borrows the document. kChecksumMismatch.
Result<RecalibratedHeads> CalibrateOnSteps(const Document& document, const Backend& backend,
                                           const std::vector<PaperLookup::Step>& steps);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_QUESTION_THRESHOLDS_H_
