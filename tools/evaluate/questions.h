// Reads questions about a document with the answers that are known to be right, for
// lectern-evaluate. Not tools/questions.h, which reads what users ask.
#ifndef LECTERN_TOOLS_EVALUATE_QUESTIONS_H_
#define LECTERN_TOOLS_EVALUATE_QUESTIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "store/status.h"

namespace lectern::evaluate {

struct Question {
  std::string text, answer;  // never empty
  std::string kind;          // "fact", …: table.py shows each; empty: none is given
  // Byte ranges [begin, end) of the document that hold the answer; the first one counts.
  std::vector<std::pair<uint64_t, uint64_t>> passages;
};

// Returns the first `limit` questions of a file of JSON objects, one a line; 0: all. Later lines
// are not looked at. Blank lines are skipped, so are passages without "begin" or "end". kNotFound:
// the file cannot be read. kInvalidArgument: a line lacks "question" or "answer", or it is empty or
// no string. Errors of ParseJson.
Result<std::vector<Question>> ReadQuestions(const std::string& path, uint32_t limit);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_QUESTIONS_H_
