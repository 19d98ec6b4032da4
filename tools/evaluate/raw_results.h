// Keeps measurements in a file: one JSON object a line, appended as it is measured, so that a run
// that was killed goes on where it stopped. tools/evaluate/table.py makes the tables.
#ifndef LECTERN_TOOLS_EVALUATE_RAW_RESULTS_H_
#define LECTERN_TOOLS_EVALUATE_RAW_RESULTS_H_

#include <compare>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "engine/model/formats/json.h"
#include "store/status.h"

namespace lectern::evaluate {

// The thing that a line measures, by a method at a budget: the answer to a question of a document,
// attention errors while an exact run answers it, or predictions of the document's end.
struct Measurement {
  enum class What { kErrors, kAnswer, kContinuation };
  What what;
  std::string document;
  uint64_t question;  // its place in the file of questions; kContinuation: tokens of the end
  std::string mode;
  uint64_t seed;  // of the paper's K-means; else 0
  double budget;  // 0: the document's automatic one
  auto operator<=>(const Measurement&) const = default;
};

// Relative L2 errors of a layer's attention output per token: of the question, of the answer.
struct Errors {
  std::vector<double> question, answer;
};

class RawResults {
 public:
  // An empty path: standard output. A last line without its end is removed from the file.
  // kCorrupt, kIoError.
  static Result<RawResults> Open(const std::string& path);

  bool Has(const Measurement& measurement) const { return measured_.contains(measurement); }
  // Writes and flushes a line of `figures`. kIoError.
  Status Add(const Measurement& measurement, Json::Object figures);
  Status AddErrors(const Measurement& measurement, const Errors& errors, Json::Object figures);

  // The mean of all errors of a document by a method; NaN when there are none.
  double MeanError(const std::string& document, const std::string& mode, uint64_t seed,
                   double budget) const;

 private:
  struct Sum {
    double errors = 0;
    size_t count = 0;
  };
  static Result<std::pair<Measurement, Sum>> Parse(const std::string& line);

  std::string path_;
  std::ofstream file_;
  std::map<Measurement, Sum> measured_;
};

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_RAW_RESULTS_H_
