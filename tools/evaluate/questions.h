// Questions about a document, with the answers that are known to be right.
#ifndef LECTERN_TOOLS_EVALUATE_QUESTIONS_H_
#define LECTERN_TOOLS_EVALUATE_QUESTIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "store/status.h"

namespace lectern::evaluate {

struct Question {
  std::string text, answer, kind;
  std::vector<std::pair<uint64_t, uint64_t>> passages;  // byte ranges that hold the answer
};

// The first `limit` questions of a file of JSON objects, one a line; 0: all. kNotFound, errors of
// ParseJson; kInvalidArgument: a line without "question" or "answer".
Result<std::vector<Question>> ReadQuestions(const std::string& path, uint32_t limit);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_QUESTIONS_H_
