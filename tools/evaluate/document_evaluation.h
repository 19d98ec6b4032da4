// Measures on one document how close attention and answers at a budget come to exact ones.
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
  std::vector<double> budgets = {0.2, 0.125, 0.1, 0.05};
  // Methods whose errors of attention are measured, and those that answer.
  std::vector<std::string> modes = {"default"}, answers = {"default"};
  uint32_t limit = 0;            // questions per document whose answers are measured; 0: all
  uint32_t error_questions = 4;  // of them, whose attention errors are measured
  uint32_t calibration = 8;      // questions that choose the paper's thresholds
  uint32_t paper_seeds = 3;
  bool has_auto = false;      // answers at the document's automatic budget, too
  uint32_t continuation = 0;  // tokens of the document's end that are predicted; 0: none
};

// Measures every method at every budget on the document `name` of the engine's store, and adds to
// `results` the measurements that they lack. kInvalidArgument: a document without clusters.
Status EvaluateDocument(const EvaluationOptions& options, Engine& engine, const std::string& name,
                        const std::vector<Question>& questions, RawResults& results);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_DOCUMENT_EVALUATION_H_
