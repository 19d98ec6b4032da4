// Runs a program whose calls of the system fail by a plan (tests/store/failing_calls.h), for
// index_system_calls_test.
#ifndef LECTERN_TESTS_TOOLS_PLANNED_PROGRAM_H_
#define LECTERN_TESTS_TOOLS_PLANNED_PROGRAM_H_

#include <string>
#include <vector>

#include "tests/store/failing_calls.h"

namespace lectern {

// The file that this process and those that it starts map. One thread.
class PlannedProgram {
 public:
  // `plan_path`: a file of sizeof(CallPlan) bytes. Throws std::bad_alloc if it cannot be mapped.
  explicit PlannedProgram(const std::string& plan_path);
  ~PlannedProgram();
  PlannedProgram(const PlannedProgram&) = delete;

  CallPlan& plan() { return *plan_; }

  // Runs `command` (a path and arguments) to its end; what it says goes into the file `output`.
  // Returns its exit status; -1: it was killed.
  int Run(std::vector<std::string> command, const std::string& output);

 private:
  CallPlan* plan_ = nullptr;
};

}  // namespace lectern

#endif  // LECTERN_TESTS_TOOLS_PLANNED_PROGRAM_H_
