// Runs a program that the user trusts, such as the script that fetches a model. What reads
// documents of others runs with limits (ingest/limited_child.h).
#ifndef LECTERN_TOOLS_RUN_PROGRAM_H_
#define LECTERN_TOOLS_RUN_PROGRAM_H_

#include <functional>
#include <string>
#include <vector>

#include "engine/lectern.h"

namespace lectern::tools {

// Runs `program` from PATH with `arguments` and no standard input, waits for its end, and returns
// its exit status (128 + the signal that ended it). `output` gets what it wrote to stdout and
// stderr. IO_ERROR: it cannot be started, which on Windows is always so.
api::Result<int> RunProgram(const std::string& program, std::vector<std::string> arguments,
                            std::string& output);

// Runs `words` (a program from PATH and its arguments) with this process's input and outputs, and
// waits for its end. Once `is_over` says so, which is asked every 50 ms, it is told to end
// (SIGTERM) and waited for. Returns as RunProgram does. IO_ERROR: it cannot be started, which on
// Windows is always so.
api::Result<int> RunUntil(std::vector<std::string> words, const std::function<bool()>& is_over);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_RUN_PROGRAM_H_
