// Measures on one document how close attention and answers that read a part of it come to exact
// ones, for lectern-evaluate.
#ifndef LECTERN_TOOLS_EVALUATE_DOCUMENT_EVALUATION_H_
#define LECTERN_TOOLS_EVALUATE_DOCUMENT_EVALUATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tools/evaluate/questions.h"
#include "tools/evaluate/raw_results.h"

namespace lectern::evaluate {

struct EvaluationOptions {
  std::vector<double> budgets = {0.2, 0.125, 0.1, 0.05};  // kv budgets, each in (0, 1)
  // Methods whose errors of attention are measured, and those that answer.
  std::vector<std::string> modes = {"default"}, answers = {"default"};
  uint32_t limit = 0;            // first questions whose answers are measured; 0: all
  uint32_t error_questions = 4;  // first questions whose attention errors are measured
  uint32_t calibration = 8;      // first questions that choose the paper's thresholds
  uint32_t paper_seeds = 3;      // runs of the paper's K-means, of which the best answers
  bool has_auto = false;         // answers at the document's automatic budget, too
  uint32_t continuation = 0;     // tokens of the document's end that are predicted; 0: none
};

// Measures every method at every budget on the document `name` of the engine's store, and adds to
// `results` the measurements that they lack, each as soon as it is made: a run that is killed goes
// on from there. Prints its progress on stderr. Modes with a retention index a second document,
// "NAME METHOD@KEEP", into the store, where it stays. kInvalidArgument: a document without
// clusters, which is always read whole, or a mode oracle-equal that does not stand behind
// "default". Errors of asking and indexing, of MeasureContinuation and of RawResults::Add. Modes
// have passed CheckMode.
Status EvaluateDocument(const EvaluationOptions& options, Engine& engine, const std::string& name,
                        const std::vector<Question>& questions, RawResults& results);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_DOCUMENT_EVALUATION_H_
