// Keeps the measurements of lectern-evaluate in a file: one JSON object a line, appended as soon as
// it is measured, so that a run that was killed goes on where it stopped. tools/evaluate/table.py
// makes the tables.
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

// The key of one line, by a method at a budget: the answer to a question of a document, the
// attention errors while an exact run answers it, or predictions of the document's end.
struct Measurement {
  enum class What { kErrors, kAnswer, kContinuation };
  What what;
  std::string document;
  uint64_t question;  // its place in the file, from 0; kContinuation: number of tokens of the end
  std::string mode;   // tools/evaluate/modes.h
  uint64_t seed;      // of the paper's K-means; else 0
  double budget;      // 0: the document's automatic one
  auto operator<=>(const Measurement&) const = default;
};

// Relative L2 errors of the attention output, one for each token and layer that is counted: while
// the question is prefilled, and while the answer is decoded.
struct Errors {
  std::vector<double> question, answer;
};

// One thread, and one process for a file.
class RawResults {
 public:
  // Reads the measurements of a file, and opens it to add more; it is made if it is not there. An
  // empty path: no file, results go to standard output. A last line without its end, as a killed
  // run leaves it, is removed from the file if all lines before it are ours. kCorrupt: a line is
  // none of ours, or there is a beginning of a line alone; the file is as it was. kIoError.
  static Result<RawResults> Open(const std::string& path);

  // Whether the file had it, or Add or AddErrors has added it.
  bool Has(const Measurement& measurement) const { return measured_.contains(measurement); }
  // Writes and flushes a line with `figures` and the key; Has is then true. AddErrors adds the
  // errors, rounded to five decimals. A measurement that is there already gets another line, and
  // MeanError goes on with the first. kIoError.
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
  // Reads the key of a line, and the sum of its errors (of question and answer together), which
  // MeanError needs; lines without errors give 0 of them. kCorrupt: a field of the key is missing
  // or of another type; codes of ParseJson.
  static Result<std::pair<Measurement, Sum>> Parse(const std::string& line);

  std::string path_;
  std::ofstream file_;
  std::map<Measurement, Sum> measured_;
};

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_RAW_RESULTS_H_
