// What was said before a question.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_HISTORY_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_HISTORY_H_

#include <string>
#include <vector>

namespace lectern {

// Before a session's first question: by others, or in another session.
struct ChatHistory {
  struct Turn {
    std::string question, answer;
    std::string reasoning = {};  // what the model thought before the answer; may be empty
  };
  std::string instructions = {};
  std::vector<Turn> turns = {};
  bool is_empty() const { return instructions.empty() && turns.empty(); }
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_HISTORY_H_
