// A conversation that took place before a session's first question, so that a template can render
// it in front of that question. AskOptions carries it.
#ifndef LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_HISTORY_H_
#define LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_HISTORY_H_

#include <string>
#include <vector>

namespace lectern {

// The turns before a question, the oldest first, and the instructions that a client gave for all of
// them. The conversation may have been led by other models, or in another session.
struct ChatHistory {
  struct Turn {
    std::string question, answer;  // UTF-8, as users and models wrote them
    std::string reasoning = {};  // what the model thought before the answer; may be empty
  };
  std::string instructions = {};  // such as OpenAI's "system" message; empty: none
  std::vector<Turn> turns = {};
  bool is_empty() const { return instructions.empty() && turns.empty(); }
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_TEMPLATE_CHAT_HISTORY_H_
