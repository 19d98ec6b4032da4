// Holds a conversation that took place before a session's first question, so that a template can
// render it in front of that question.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_HISTORY_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_HISTORY_H_

#include <string>
#include <vector>

namespace lectern {

// The conversation may have been led by others, or in another session.
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
