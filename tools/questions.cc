#include "tools/questions.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tools/input_file.h"

namespace lectern::tools {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBlank = " \t\r";

// One line without blanks at its ends: JSON where it begins as a value of several parts does, else
// the question itself. A missing "answer" is no error, one that is no string is.
api::Result<Question> ParseQuestion(std::string_view json, size_t line) {
  if (json.front() != '{' && json.front() != '[') return Question{line, std::string(json), {}};
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
  if (rest.starts_with("\xFF\xFE") || rest.starts_with("\xFE\xFF")) {
    return api::Error{LECTERN_INVALID_ARGUMENT, path + " is UTF-16; save it as UTF-8", "questions"};
  }
  if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  for (size_t line = 1; !rest.empty(); ++line) {
    std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
    if (text.empty()) continue;
    text = text.substr(0, text.find_last_not_of(kBlank) + 1);
    auto question = ParseQuestion(text, line);
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
