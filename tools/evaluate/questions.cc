#include "tools/evaluate/questions.h"

#include <fstream>

#include "engine/model/formats/json.h"

namespace lectern::evaluate {

Result<std::vector<Question>> ReadQuestions(const std::string& path, uint32_t limit) {
  std::ifstream file(path);
  if (!file) return Status(Code::kNotFound, "cannot read " + path);
  std::vector<Question> questions;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    LECTERN_ASSIGN(const Json json, ParseJson(line));
    const auto text = [&](const char* key) {
      const Json* value = json.Find(key);
      return value && value->string() ? *value->string() : std::string();
    };
    Question question = {text("question"), text("answer"), text("kind"), {}};
    if (question.text.empty() || question.answer.empty()) {
      return Status(Code::kInvalidArgument,
                    path + ": every line needs \"question\" and \"answer\"");
    }
    if (const Json* passages = json.Find("passages"); passages && passages->array()) {
      for (const Json& passage : *passages->array()) {
        const Json *begin = passage.Find("begin"), *end = passage.Find("end");
        if (!begin || !end) continue;
        question.passages.emplace_back(begin->unsigned_integer().value_or(0),
                                       end->unsigned_integer().value_or(0));
      }
    }
    questions.push_back(std::move(question));
    if (questions.size() == limit) break;
  }
  return questions;
}

}  // namespace lectern::evaluate
