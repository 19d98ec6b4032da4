#include "tools/run_program.h"

namespace lectern::tools {

// The one program that is asked for is a script for bash, which Windows does not have.
api::Result<int> RunProgram(const std::string& program, std::vector<std::string>, std::string&) {
  return api::Error{LECTERN_IO_ERROR,
                    program + " is not run on Windows; download a model and give --model", ""};
}

}  // namespace lectern::tools
