// Reads the file of --questions: one JSON object per line.
#ifndef LECTERN_TOOLS_QUESTIONS_H_
#define LECTERN_TOOLS_QUESTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "engine/lectern.h"

namespace lectern::tools {

struct Question {
  size_t line;  // 1-based
  std::string text;
  std::optional<std::string> expected;  // member "answer"
};

// {"question": "…", "answer"?: "…"} per line; blank lines are skipped, other members ignored. The
// first malformed line is an INVALID_ARGUMENT that names its number. Codes of ReadInputFile.
api::Result<std::vector<Question>> ReadQuestions(const std::string& path);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_QUESTIONS_H_
