#include "tools/questions.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tools/input_file.h"

namespace lectern::tools {
namespace {

// One line. A missing "answer" is no error, one that is no string is.
api::Result<Question> ParseQuestion(std::string_view json, size_t line) {
  auto text = api::GetString(json, "question");
  if (!text.ok()) return text.error();
  if (text->empty()) return api::Error{LECTERN_INVALID_ARGUMENT, "the question is empty", {}};
  Question question{line, std::move(*text), std::nullopt};
  auto expected = api::GetString(json, "answer");
  if (expected.ok()) {
    question.expected = std::move(*expected);
  } else if (expected.error().code != LECTERN_NOT_FOUND) {
    return expected.error();
  }
  return question;
}

}  // namespace

api::Result<std::vector<Question>> ReadQuestions(const std::string& path) {
  auto bytes = ReadInputFile(path);
  if (!bytes.ok()) return bytes.error();
  std::vector<Question> questions;
  std::string_view rest = *bytes;
  for (size_t line = 1; !rest.empty(); ++line) {
    const std::string_view json = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), json.size() + 1));
    if (json.find_first_not_of(" \t\r") == json.npos) continue;
    auto question = ParseQuestion(json, line);
    if (!question.ok()) {
      return api::Error{LECTERN_INVALID_ARGUMENT,
                        path + ":" + std::to_string(line) + ": " + question.error().message,
                        "questions"};
    }
    questions.push_back(std::move(*question));
  }
  return questions;
}

}  // namespace lectern::tools
