// Reads a file of questions, one on each line, for ask-document --questions.
#ifndef LECTERN_TOOLS_QUESTIONS_H_
#define LECTERN_TOOLS_QUESTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "engine/lectern.h"

namespace lectern::tools {

struct Question {
  size_t line;                          // of the file, from 1; 0: the question is from no file
  std::string text;                     // never empty
  std::optional<std::string> expected;  // the member "answer": printed beside the model's answer
};

// Returns the questions of the file, UTF-8, in its order. Each line is a question, or {"question":
// "…", "answer": "…"}, "answer" being optional; blank lines are skipped, other members ignored, as
// is a byte order mark. A file of blank lines alone gives none, which is no error. INVALID_ARGUMENT
// (param "questions"): the file is UTF-16, or a line that begins with a brace or a bracket is
// malformed, its question is missing or empty, or a member is no string; the message begins with
// `path` and the line's number, and no question is returned. Errors of ReadInputFile. "-" reads
// stdin.
api::Result<std::vector<Question>> ReadQuestions(const std::string& path);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_QUESTIONS_H_
