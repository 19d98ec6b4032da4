#include "tools/run_program.h"

namespace lectern::tools {

// The one program that is asked for is a script for bash, which Windows does not have.
api::Result<int> RunProgram(const std::string& program, std::vector<std::string>, std::string&) {
  return api::Error{LECTERN_IO_ERROR,
                    program + " is not run on Windows; download a model and give --model", ""};
}

// Nor is there an MPI of Lectern's for Windows, whose launcher would be run.
api::Result<int> RunUntil(std::vector<std::string> words, const std::function<bool()>&) {
  return api::Error{LECTERN_IO_ERROR, words.front() + ": ranks are not supported on Windows",
                    "ranks"};
}

}  // namespace lectern::tools
